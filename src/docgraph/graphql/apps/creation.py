"""Creation of the definitions collection together with its unique index (decision 5)."""

from __future__ import annotations

from typing import Any, ClassVar

from docgraph.exchange import Exchange, Resource, Write, WriteKind, WriteResult
from docgraph.graphql.apps.cache_plugins import ensure_index
from docgraph.graphql.apps.definition_writes import OnDefinitions
from docgraph.graphql.sections import Graphql
from docgraph.store import Store


class AppsIndexOnCreation(OnDefinitions):
    """Create the unique index when the collection is created; `AppsIndex` does it at start."""

    name: ClassVar[str] = "createIndexesOnNewGqlApps"
    description: ClassVar[str] = "creates the unique index with the collection of app definitions"

    def __init__(self, config: Any, graphql: Graphql, store: Store) -> None:
        super().__init__(config, graphql)
        self._store = store

    async def after_write(
        self, exchange: Exchange | None, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        """Create the index and return the result unchanged."""
        if write.kind is WriteKind.CREATE:
            await ensure_index(self._store, self.settings)
        return result
