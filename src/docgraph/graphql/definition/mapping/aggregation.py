"""Field to aggregation: a GraphQL field is the result of a pipeline."""

from __future__ import annotations

from dataclasses import dataclass, field

from docgraph.graphql.definition.mapping.query import DataLoader
from docgraph.variables import Template

__all__ = ["AggregationMapping"]


@dataclass(frozen=True, slots=True)
class AggregationMapping:
    """`stages` renders to the list of stages, optional ones kept or left out."""

    db: str
    collection: str
    stages: Template
    allow_disk_use: bool = False
    loader: DataLoader = field(default_factory=DataLoader)

    @property
    def templates(self) -> tuple[Template, ...]:
        """Every template of the mapping."""
        return (self.stages,)
