"""Cache invalidation after writes: announce created, dropped and changed collections."""

from __future__ import annotations

from typing import ClassVar, Final

from docgraph.config.section import PluginConfig
from docgraph.exchange import (
    Exchange,
    Resource,
    ResourceType,
    Write,
    WriteKind,
    WriteResult,
)
from docgraph.graphql.sections import Graphql
from docgraph.plugins.kinds import DataInterceptor
from docgraph.rest.news import CollectionNews
from docgraph.runtime import Generations
from docgraph.store import Store
from docgraph.store.mounts import METADATA_STORE

_OF_COLLECTIONS: Final = (WriteKind.CREATE, WriteKind.DROP)


class CollectionNotifier(DataInterceptor):
    """Announces changed collections and metadata to every worker and instance."""

    name: ClassVar[str] = "collectionTeller"
    description: ClassVar[str] = "makes changes of collections known to all workers"
    hears_uncertain: ClassVar[bool] = True

    def __init__(
        self, config: PluginConfig, store: Store, generations: Generations, graphql: Graphql
    ) -> None:
        self.config = config
        self._news = CollectionNews(store, generations, graphql)

    def resolve(self, resource: Resource) -> bool:
        """Return true for collections and their metadata, not for single documents."""
        return resource.type is not ResourceType.DOCUMENT

    async def after_write(
        self, exchange: Exchange | None, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        """Announce the change and return the result unchanged."""
        if resource.collection == METADATA_STORE or write.kind in _OF_COLLECTIONS:
            await self._news.announce()
        return result
