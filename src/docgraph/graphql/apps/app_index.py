"""The unique index on claimed URIs: at start, and when the collection is created (decision 5)."""

from __future__ import annotations

from typing import Any, ClassVar

from docgraph.config.section import PluginConfig
from docgraph.exchange import Deadline, Exchange, Resource, Write, WriteKind, WriteResult
from docgraph.graphql.apps.definition_writes import URIS, OnDefinitions
from docgraph.graphql.sections import Graphql
from docgraph.plugins.kinds import Initializer
from docgraph.store import Store

_INDEX_MS = 60_000


class AppsIndex(Initializer):
    """Create the unique index that prevents two apps from claiming one URI (decision 5)."""

    name: ClassVar[str] = "createIndexesOnGqlApps"
    description: ClassVar[str] = "creates the unique index of the app definitions"
    priority: ClassVar[int] = 5

    def __init__(self, config: PluginConfig, store: Store, graphql: Graphql) -> None:
        self._store = store
        self._settings = graphql

    async def initialize(self) -> None:
        """Create the index only if the collection exists; creating the collection adds it later."""
        await ensure_index(self._store, self._settings, create=False)


async def ensure_index(store: Store, settings: Graphql, *, create: bool = True) -> None:
    """Create the unique index on claimed URIs; `create` also creates the collection if needed."""
    await store.writes.ensure_index(
        settings.db,
        settings.collection,
        {URIS: 1},
        unique=True,
        sparse=True,
        create=create,
        deadline=Deadline.after_ms(_INDEX_MS),
    )


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
