"""Cache invalidation for collections and JSON schemas, on all workers and instances.

Metadata and schemas exist in every database, and one version covers all of them. It is stored next
to the apps, so that it needs no privileges in a further database.
"""

from __future__ import annotations

from typing import ClassVar, Final

from docgraph.config.section import PluginConfig
from docgraph.exchange import Exchange, Resource, ResourceType, Write, WriteKind, WriteResult
from docgraph.graphql.sections import Graphql
from docgraph.plugins.kinds import DataInterceptor, Initializer
from docgraph.rest.sections import Mongo
from docgraph.runtime import Generations, Instance, Tasks
from docgraph.store import Store
from docgraph.store.names import METADATA_STORE
from docgraph.store.versions import VersionFollower, Versions


class CollectionNews:
    """Announces created, dropped or changed collections and JSON schemas."""

    def __init__(self, store: Store, generations: Generations, graphql: Graphql) -> None:
        self._generations = generations
        self._versions = Versions(store, graphql.db, METADATA_STORE)

    async def announce(self) -> None:
        """Notify every worker immediately, other instances within two seconds."""
        self._generations.bump("collections")
        await self._versions.announce()


class CollectionsUpdater(Initializer):
    """Receives the announcements of other instances."""

    name: ClassVar[str] = "collectionsUpdater"
    description: ClassVar[str] = "keeps what is known of collections up to date"

    def __init__(  # noqa: PLR0913, PLR0917 - the providers and sections
        self,
        config: PluginConfig,
        store: Store,
        tasks: Tasks,
        instance: Instance,
        generations: Generations,
        graphql: Graphql,
        mongo: Mongo,
    ) -> None:
        self._tasks = tasks
        self._generations = generations
        self._is_needed = mongo.enabled
        versions = Versions(store, graphql.db, METADATA_STORE)
        self.versions = VersionFollower(
            self.name, store, versions, instance, take=self._forget, is_recorded=False
        )

    async def initialize(self) -> None:
        """Start to watch the version, if the REST API is enabled."""
        if self._is_needed:
            self._tasks.start(self.name, self.versions.run)

    async def _forget(self) -> None:
        self._generations.bump("collections")


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
        if self._is_news(resource, write):
            await self._news.announce()
        return result

    def _is_news(self, resource: Resource, write: Write) -> bool:
        return resource.collection == METADATA_STORE or write.kind in _OF_COLLECTIONS
