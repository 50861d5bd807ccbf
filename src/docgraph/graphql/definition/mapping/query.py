"""Field to query: a GraphQL field is the result of a find."""

from __future__ import annotations

from dataclasses import dataclass, field

from docgraph.variables import Template

__all__ = ["DataLoader", "QueryMapping"]


@dataclass(frozen=True, slots=True)
class DataLoader:
    """How the parents of a field share commands (decision 13); `max_batch_size` 0: no bound."""

    batching: bool = True
    caching: bool = True
    max_batch_size: int = 0


@dataclass(frozen=True, slots=True)
class QueryMapping:
    """`find` renders to a filter, `sort` to a document or None, `skip` and `limit` to a number."""

    db: str
    collection: str
    find: Template
    sort: Template | None = None
    skip: Template | None = None
    limit: Template | None = None
    loader: DataLoader = field(default_factory=DataLoader)

    @property
    def templates(self) -> tuple[Template, ...]:
        """Every template of the mapping."""
        parts = (self.find, self.sort, self.skip, self.limit)
        return tuple(part for part in parts if part is not None)
