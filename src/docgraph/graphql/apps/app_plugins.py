"""Plugins of the app cache: it is filled at start, and updated when definitions change."""

from __future__ import annotations

import asyncio
from typing import ClassVar

from docgraph.config.section import PluginConfig
from docgraph.exchange import Document
from docgraph.exchange.errors import StoreError
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.sections import GraphAppsInitializer, GraphAppsUpdater, Graphql
from docgraph.observe import emit
from docgraph.observe.events import BackgroundFailed
from docgraph.plugins.kinds import Initializer, Provider
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Blocking, Generations, Instance, Tasks
from docgraph.store import Store
from docgraph.store.change_stream import ChangeEvents, Follower, ResumeToken
from docgraph.store.versions import VersionFollower, Versions

_ONLY_KEYS = ({"$project": {"documentKey": 1, "operationType": 1}},)


class AppsProvider(Provider):
    """`gql-app-definition-cache`: a loading cache from app name to app."""

    name: ClassVar[str] = "gqlAppDefinitionCache"
    description: ClassVar[str] = "the apps that are served, for plugins that invalidate them"
    provides: ClassVar[str] = "gql-app-definition-cache"

    def __init__(
        self,
        config: PluginConfig,
        store: Store,
        generations: Generations,
        blocking: Blocking,
        registry: PluginRegistry,
        graphql: Graphql,
    ) -> None:
        self._apps = Apps(graphql, store, generations, blocking, registry)

    def get(self) -> Apps:
        """Return the cache of this process."""
        return self._apps

    async def close(self) -> None:
        """Cancel loads in progress."""
        await self._apps.close()


class AppsInitializer(Initializer):
    """Reads all definitions at start; without it each one is read at its first request."""

    name: ClassVar[str] = "graphAppsInitializer"
    description: ClassVar[str] = "caches all GraphQL apps at start"
    Config = GraphAppsInitializer

    def __init__(self, config: GraphAppsInitializer, gql_app_definition_cache: Apps) -> None:
        self._apps = gql_app_definition_cache
        self._apps.eager = True

    async def initialize(self) -> None:
        """Load all definitions in one query, however many apps there are."""
        await self._apps.load_first()


class AppsUpdater(Initializer):
    """Detect changed and deleted apps (cache invalidation).

    A change stream reports them immediately. Otherwise the version that every write through
    docgraph raises shows them within two seconds. Other writes are found every `app-cache-ttr`.
    """

    name: ClassVar[str] = "graphAppsUpdater"
    description: ClassVar[str] = "keeps cached GraphQL apps up to date"
    Config = GraphAppsUpdater

    def __init__(  # noqa: PLR0913 - the providers and sections
        self,
        config: GraphAppsUpdater,
        *,
        store: Store,
        tasks: Tasks,
        instance: Instance,
        generations: Generations,
        gql_app_definition_cache: Apps,
        graphql: Graphql,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._apps = gql_app_definition_cache
        self._settings = graphql
        self._generations = generations
        self.follower = Follower(
            self._open_stream, catch_up=self._apps.revalidate, take=self._apply
        )
        versions = Versions(store, graphql.db, graphql.collection)
        self.versions = VersionFollower(
            "graphAppsUpdater", store, versions, instance, take=self._apply_version
        )

    async def initialize(self) -> None:
        """Start the periodic revalidation and, where change streams are available, the watch."""
        self._tasks.start("graphAppsUpdater-version", self.versions.run)
        if self._settings.app_cache_enabled:
            self._tasks.start("graphAppsUpdater-round", self._revalidate)
            self._tasks.start("graphAppsUpdater-watch", self.follower.run)

    async def _revalidate(self) -> None:
        while True:
            await asyncio.sleep(self._settings.app_cache_ttr / 1000)
            try:
                await self._apps.revalidate()
            except StoreError as error:
                if not await self._store.outage.explains(error):
                    emit(BackgroundFailed("graphAppsUpdater-round", error))

    async def close(self) -> None:
        """Unregister this instance, so that writers do not wait for it to apply a version."""
        await self.versions.close()

    async def _apply_version(self) -> None:
        if self._settings.app_cache_enabled:
            self._generations.bump("apps")  # the other workers check it at their next request
            await self._apps.revalidate()

    def _open_stream(self, _: ResumeToken | None) -> ChangeEvents:
        return self._store.streams.watch(
            self._settings.db, self._settings.collection, _ONLY_KEYS, full_document=None
        )

    async def _apply(self, event: Document) -> None:
        key = event.get("documentKey")
        if key is None:
            await self._apps.load_all()
        else:
            await self._apps.refresh([key["_id"]])
