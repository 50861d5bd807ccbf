"""The definitions collection is made together with the index that it relies on (decision 5)."""

from __future__ import annotations

from typing import Any, ClassVar

from docgraph.exchange import Exchange, Resource, Write, WriteKind, WriteResult
from docgraph.graphql.apps.cache_plugins import ensure_index
from docgraph.graphql.apps.writes import OnDefinitions
from docgraph.graphql.sections import Graphql
from docgraph.store import Store

__all__ = ["AppsIndexOnCreation"]


class AppsIndexOnCreation(OnDefinitions):
    """Makes the unique index when the collection is made; at start `AppsIndex` does."""

    name: ClassVar[str] = "createIndexesOnNewGqlApps"
    description: ClassVar[str] = "creates the unique index with the collection of app definitions"

    def __init__(self, config: Any, graphql: Graphql, store: Store) -> None:
        super().__init__(config, graphql)
        self._store = store

    async def after_write(
        self, exchange: Exchange | None, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        """The result as it is."""
        if write.kind is WriteKind.CREATE:
            await ensure_index(self._store, self.settings)
        return result
