"""Plugins of the app history: they record versions of definitions when these are written.

A failure never prevents a definition from being written or served. It is logged once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import suppress
from typing import Any, ClassVar, Final

from docgraph.config.section import PluginConfig
from docgraph.exchange import (
    Deadline,
    DocgraphError,
    Exchange,
    Resource,
    Write,
    WriteKind,
    WriteResult,
)
from docgraph.graphql.apps.apps import Apps
from docgraph.graphql.apps.definition_writes import OnDefinitions
from docgraph.graphql.apps.history import History, digest_definition, find_author, find_heads
from docgraph.graphql.apps.stored_definitions import StoredDefinition, build_entry
from docgraph.graphql.sections import Graphql
from docgraph.observe import emit
from docgraph.observe.events import BackgroundFailed
from docgraph.plugins.kinds import Initializer
from docgraph.runtime import Instance, Tasks
from docgraph.store import Store
from docgraph.store.guard.shield import hide_marker

_NAME: Final = "graphAppsHistory"
_MAX_APPS: Final = 100_000
_READ_MS: Final = 15_000


class _LogOnce:
    """Run optional work; log a failure once, until it succeeds again."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._is_failing = False

    async def attempt(self, work: Awaitable[None]) -> bool:
        """Await the work; return whether it succeeded."""
        try:
            await work
        except DocgraphError as error:
            if not self._is_failing and not await self._store.outage.explains(error):
                self._is_failing = True
                emit(BackgroundFailed(_NAME, error))
            return False
        self._is_failing = False
        return True


class DefinitionHistorian(OnDefinitions):
    """Record a committed write as a version, with its author."""

    name: ClassVar[str] = "graphAppHistorian"
    description: ClassVar[str] = "records the versions of app definitions that are written"

    def __init__(self, config: Any, graphql: Graphql, store: Store) -> None:
        super().__init__(config, graphql)
        self._history = History(store, graphql)
        self._quiet = _LogOnce(store)

    def resolve(self, resource: Resource) -> bool:
        """Return whether this is the definitions collection and history is enabled."""
        return self.settings.history_versions > 0 and super().resolve(resource)

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        """Record the previous state, maybe not seen before; return the write unchanged."""
        await self._quiet.attempt(self._record_former(write))
        return write

    async def after_write(
        self, exchange: Exchange | None, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        """Record the write and return the result unchanged."""
        await self._quiet.attempt(self._record(write, result, find_author(exchange)))
        return result

    async def _record_former(self, write: Write) -> None:
        await self._history.record_all(_find_ids(write) or ())

    async def _record(self, write: Write, result: WriteResult, by: str) -> None:
        if write.kind is WriteKind.CREATE or (
            write.kind is WriteKind.DELETE and not result.deleted
        ):
            return
        ids = _find_ids(write)
        if ids is None:
            ids = await self._history.find_deleted()
        etags = {str(document["_etag"]) for document in write.documents if "_etag" in document}
        await self._history.record_all(ids, by, etags if write.documents else None)
        await self._history.prune()


def _find_ids(write: Write) -> list[Any] | None:
    """Return the ids of the apps that a write concerns; None if the write does not show them."""
    if write.documents:
        return [document["_id"] for document in write.documents]
    match write.filter.get("_id"):
        case {"$eq": id}:
            return [id]
        case {"$in": [*ids]}:
            return ids
        case None | dict():
            return None
        case id:
            return [id]


class HistoryKeeper(Initializer):
    """Record definitions that were written directly to the database, when they are seen."""

    name: ClassVar[str] = _NAME
    description: ClassVar[str] = "records versions of app definitions that others have written"
    priority: ClassVar[int] = 20

    def __init__(
        self,
        config: PluginConfig,
        *,
        store: Store,
        tasks: Tasks,
        instance: Instance,
        gql_app_definition_cache: Apps,
        graphql: Graphql,
    ) -> None:
        self._store = store
        self._tasks = tasks
        self._instance = instance
        self._apps = gql_app_definition_cache
        self._settings = graphql
        self._history = History(store, graphql)
        self._quiet = _LogOnce(store)
        self._marker = hide_marker(store.guard, graphql.db, graphql.collection)
        self._heads: dict[str, str] | None = None  # digests of the latest versions
        self._ids: dict[str, Any] = {}
        self._digests: dict[str, tuple[StoredDefinition, str]] = {}
        self._news = asyncio.Event()

    async def initialize(self) -> None:
        """Check now and whenever definitions have changed; one worker does it for its instance."""
        is_mine = self._instance.worker <= 1 or not self._apps.eager
        if self._settings.history_versions and is_mine:
            self._apps.listen(self._news.set)
            self._tasks.start(_NAME, self._keep)

    async def _keep(self) -> None:
        while True:
            self._news.clear()
            is_done = await self._quiet.attempt(self.record_changes())
            # Without a cache, no listener reports changes; what has failed is tried again.
            is_notified = is_done and self._settings.app_cache_enabled
            pause = None if is_notified else self._settings.app_cache_ttr / 1000
            with suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._news.wait()

    async def record_changes(self) -> None:
        """Record definitions that differ from their latest versions."""
        entries, is_all = await self._list()
        if self._heads is None:
            heads = find_heads(await self._history.list_all()).items()
            self._heads = {key: version.digest for key, version in heads}
            self._ids = {key: version.app for key, version in heads}
        present = {entry.key: entry for entry in entries}
        changed = {
            key: entry.id
            for key, entry in present.items()
            if self._heads.get(key) != self._digest(entry)
        }
        living = [key for key, digest in self._heads.items() if digest]
        changed |= {key: self._ids[key] for key in living if is_all and key not in present}
        for key, id in changed.items():
            self._ids[key] = id
            head = await self._history.record(id)
            if head is None:  # otherwise another instance may have recorded it first
                self._heads.pop(key, None)
            else:
                self._heads[key] = head.digest
        if changed:
            await self._history.prune()
        self._digests = {key: kept for key, kept in self._digests.items() if key in present}

    def _digest(self, entry: StoredDefinition) -> str:
        kept = self._digests.get(entry.key)
        if kept is None or kept[0] is not entry:
            kept = self._digests[entry.key] = entry, digest_definition(entry.document)
        return kept[1]

    async def _list(self) -> tuple[list[StoredDefinition], bool]:
        if self._settings.app_cache_enabled:
            return self._apps.list_known()
        documents = await self._store.reads.find(
            self._settings.db,
            self._settings.collection,
            {},
            limit=_MAX_APPS,
            deadline=Deadline.after_ms(_READ_MS),
            reveal=(self._marker,),
        )
        return [build_entry(document) for document in documents], True
