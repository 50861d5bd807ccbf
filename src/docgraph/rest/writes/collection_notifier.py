"""Makes created, dropped and changed collections known everywhere, whatever wrote them."""

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

__all__ = ["CollectionNotifier"]

_OF_COLLECTIONS: Final = (WriteKind.CREATE, WriteKind.DROP)


class CollectionNotifier(DataInterceptor):
    """Makes other collections, and other metadata, known to every worker and instance."""

    name: ClassVar[str] = "collectionTeller"
    description: ClassVar[str] = "makes changes of collections known to all workers"
    hears_uncertain: ClassVar[bool] = True

    def __init__(
        self, config: PluginConfig, store: Store, generations: Generations, graphql: Graphql
    ) -> None:
        self.config = config
        self._news = CollectionNews(store, generations, graphql)

    def resolve(self, resource: Resource) -> bool:
        """Every collection: of single documents, only those that describe one."""
        return resource.type is not ResourceType.DOCUMENT

    async def after_write(
        self, exchange: Exchange | None, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        """The result as it is."""
        if resource.collection == METADATA_STORE or write.kind in _OF_COLLECTIONS:
            await self._news.tell()
        return result
