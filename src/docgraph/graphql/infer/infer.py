"""From the collections of a database to a definition: survey, relations, model, text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from docgraph.config.render import render_block
from docgraph.exchange import Document
from docgraph.exchange.errors import NotFound
from docgraph.graphql.infer.build import KnownNames, build_model
from docgraph.graphql.infer.model import Model
from docgraph.graphql.infer.relations import find_relations
from docgraph.graphql.infer.render import build_mappings, render_schema
from docgraph.graphql.infer.survey import Budget, Scope, survey
from docgraph.store import Store

__all__ = ["Inferred", "build_app", "infer", "name_app"]

_RELATIONS_SHARE: Final = 0.4  # of the time
_MOST_REASONS: Final = 10
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(slots=True)
class Inferred:
    """A definition, and what is to be said about how it came to be."""

    model: Model
    notes: list[str] = field(default_factory=list)

    @property
    def schema(self) -> str:
        """The schema in SDL."""
        return render_schema(self.model)

    @property
    def mappings(self) -> dict[str, Any]:
        """The mappings."""
        return build_mappings(self.model)

    def render_mappings(self) -> str:
        """The mappings as YAML."""
        return render_block(self.mappings)


async def infer(store: Store, scope: Scope, names: KnownNames | None = None) -> Inferred:
    """Look at the database and infer a definition; raises `NotFound` where nothing can be learned.

    `names` are those of a definition that is there already.
    """
    notes: list[str] = []
    collections = await survey(store, scope, notes)
    if not collections:
        raise _nothing(scope, notes)
    budget = Budget(scope.seconds * _RELATIONS_SHARE)
    relations = await find_relations(store, collections, budget, notes)
    known = names or KnownNames()
    model = await scope.run(lambda: build_model(collections, relations, known))
    notes += model.notes
    if not model.types["Query"].fields:
        raise _nothing(scope, notes)
    return Inferred(model, notes)


def _nothing(scope: Scope, notes: list[str]) -> NotFound:
    return NotFound(
        f"there is nothing to learn from in the database {scope.db!r}",
        hint="; ".join(notes[:_MOST_REASONS]) or "it has no collections that docgraph may read",
    )


def name_app(db: str) -> str:
    """The name of an app on that database, which is also its address."""
    return _FOREIGN.sub("-", db).strip("-") or "app"


def build_app(id: str, db: str) -> Document:
    """What stands in `app.yml`."""
    description = f"Inferred from the database {db}"
    return {"_id": id, "descriptor": {"description": description, "json-mode": "plain"}}
