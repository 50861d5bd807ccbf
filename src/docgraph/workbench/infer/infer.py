"""Infer a definition from the collections of a database: survey, relations, model, text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final

from docgraph.config.render import render_block
from docgraph.exchange import Document
from docgraph.exchange.errors import NotFound
from docgraph.store import Store
from docgraph.workbench.infer.build import KnownNames, build_model
from docgraph.workbench.infer.model import Model, build_mappings, render_schema
from docgraph.workbench.infer.relations import find_relations
from docgraph.workbench.infer.survey import Budget, SurveyScope, survey

_RELATIONS_SHARE: Final = 0.4  # of the time
_MAX_REASONS: Final = 10
_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(slots=True)
class Inferred:
    """A definition, and notes on how it was inferred."""

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
        """Return the mappings as YAML."""
        return render_block(self.mappings)


async def infer(store: Store, scope: SurveyScope, names: KnownNames | None = None) -> Inferred:
    """Sample the database and infer a definition; raise `NotFound` if there is nothing to read.

    `names` are those of an existing definition.
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


def _nothing(scope: SurveyScope, notes: list[str]) -> NotFound:
    return NotFound(
        f"there is nothing to learn from in the database {scope.db!r}",
        hint="; ".join(notes[:_MAX_REASONS]) or "it has no collections that docgraph may read",
    )


def name_app(db: str) -> str:
    """Return the name of an app on that database, which is also its URI."""
    return _FOREIGN.sub("-", db).strip("-") or "app"


def build_app(id: str, db: str) -> Document:
    """Return the content of `app.yml`."""
    description = f"Inferred from the database {db}"
    return {"_id": id, "descriptor": {"description": description, "json-mode": "plain"}}
