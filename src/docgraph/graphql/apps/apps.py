"""The apps that are served: uri → stored definition → compiled app.

The stored definitions are kept per process; an app is compiled at its first use and held in a
bounded cache. Three things bring them up to date: a generation that another worker of the
instance raised (looked at by every request), an event of the change stream, and the round of
`graphAppsUpdater`. A failing database never takes a working app away.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from docgraph.exchange import Deadline, Document
from docgraph.exchange.errors import DefinitionError, NotFound, StoreError
from docgraph.graphql.apps.app import App, build_app
from docgraph.graphql.apps.stored_definitions import (
    Entry,
    StoredDefinitions,
    build_entry,
    build_key,
)
from docgraph.graphql.definition.definition import decode_definition, normalise_uri, spell_uri
from docgraph.graphql.sections import Graphql
from docgraph.observe import emit
from docgraph.observe.events import AppInvalid, AppLoaded, AppsRefreshed, BackgroundFailed
from docgraph.plugins.kinds import Kind
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Blocking, Generations, LoadingCache, close_all, run_blocking
from docgraph.store import Key, Store
from docgraph.store.guard.marker import hide_marker
from docgraph.variables import BUILT_IN

__all__ = ["Apps", "known_variables"]

_MAX_APPS = 100_000
_MAX_COMPILED = 256
_REFRESH_MS = 15_000
_PAUSE = 1.0  # seconds before a database that failed is asked for changes again


def known_variables(registry: PluginRegistry) -> frozenset[str]:
    """The predefined variables and those of plugins, without their @."""
    plugins = registry.of_kind(Kind.VARIABLE_RESOLVER)
    return frozenset((*BUILT_IN, *(plugin.variable for plugin in plugins)))


class _Compiled(NamedTuple):
    """What came of compiling a version of a definition."""

    version: str
    outcome: App | DefinitionError


class Apps:
    """Finds the app of a uri; also the provider `gql-app-definition-cache`.

    `eager` says that all definitions are loaded at start (`graphAppsInitializer`); otherwise each
    one is loaded at its first request.
    """

    def __init__(
        self,
        config: Graphql,
        store: Store,
        generations: Generations,
        blocking: Blocking,
        registry: PluginRegistry,
    ) -> None:
        self.eager = False
        self._registry = registry
        self._config = config
        self._store = store
        self._generations = generations
        self._lane = blocking.lane("compile", concurrency=1, queue=256)
        self._definitions = StoredDefinitions()
        self._complete = False
        self._listeners: list[Callable[[], None]] = []
        self._seen = -1  # the generation that the definitions are of
        self._failed = -1  # the generation that the database did not tell …
        self._ask_again = 0.0  # … and when it is asked for that one again
        self._emitted: dict[str, str] = {}  # collisions that were emitted
        self._refreshing = asyncio.Lock()
        self._catching_up: LoadingCache[int, None] = LoadingCache(0)
        self._loading: LoadingCache[str, None] = LoadingCache(0)
        self._compiled: LoadingCache[str, _Compiled] = LoadingCache(_MAX_COMPILED)

    def listen(self, heard: Callable[[], None]) -> None:
        """Call `heard` whenever this process has learned of other definitions than before."""
        self._listeners.append(heard)

    def list_known(self) -> tuple[list[Entry], bool]:
        """The definitions that this process has read, and whether these are all of them."""
        return self._definitions.entries(), self._complete

    async def find(self, uri: str) -> App:
        """The compiled app at this uri; 404 for none, 400 for one that cannot work."""
        uri = normalise_uri(uri)
        definitions = await self._find_definitions(uri)
        entry = definitions.find(uri)
        if entry is None:
            raise NotFound("GraphQL app not found")
        return await self._compile(entry, definitions)

    async def list_served(self) -> list[Entry]:
        """The definitions that are served, by uri; they may still turn out not to work."""
        if not self._config.app_cache_enabled:
            definitions = StoredDefinitions()
            definitions.put([build_entry(one) for one in await self._read({}, _MAX_APPS)])
            return definitions.served()
        await self._follow()
        if not self._complete:
            await self.load_first()
        return self._definitions.served()

    async def get(self, name: Any) -> App | None:
        """The app with this `_id`, loaded if need be; None when there is none."""
        entry = self._definitions.entry(build_key(name))
        if entry is None:
            await self._reload_ids([name])
            entry = self._definitions.entry(build_key(name))
        return None if entry is None else await self._compile(entry, self._definitions)

    def invalidate(self, name: Any) -> None:
        """Forget the app with this `_id`; the next request loads it anew."""
        entry = self._definitions.entry(build_key(name))
        if entry is not None:
            self._drop([entry.key])
        self._generations.bump("apps")

    def invalidate_all(self) -> None:
        """Forget every app; the next request loads them anew."""
        self._compiled.clear()
        self._definitions.replace([])
        self._complete = False
        self._generations.bump("apps")

    async def load_all(self) -> None:
        """Read every definition, in one query."""
        async with self._refreshing:
            await self._load_all()

    async def load_first(self) -> None:
        """Read every definition, unless a request was faster and had it done."""
        async with self._refreshing:
            if not self._complete:
                await self._load_all()

    async def revalidate(self) -> None:
        """Bring the definitions up to date in at most two queries, however many apps there are."""
        async with self._refreshing:
            await self._revalidate()

    async def refresh(self, ids: Sequence[Any]) -> None:
        """Read these definitions again, in one query."""
        async with self._refreshing:
            await self._reload_ids(ids)

    async def close(self) -> None:
        """Give up what is being loaded; nothing is loaded any more."""
        await close_all(self._catching_up, self._loading, self._compiled)

    async def _find_definitions(self, uri: str) -> StoredDefinitions:
        """The definitions among which an app at this uri would be."""
        if not self._config.app_cache_enabled:
            definitions = await self._read_claimants(uri)
            self._emit_collisions(definitions)
            return definitions
        if self._generations.read("apps") != self._seen:
            await self._follow()
        if not self._complete and self._definitions.find(uri) is None:
            await self._loading.get(uri, self._load_claimants)
        return self._definitions

    async def _follow(self) -> None:
        """Know what other workers have written; a later write is looked for at once."""
        generation = self._generations.read("apps")
        is_due = generation != self._failed or time.monotonic() >= self._ask_again
        if generation != self._seen and is_due:
            await self._catching_up.get(generation, self._catch_up)

    async def _catch_up(self, generation: int) -> None:
        """Another worker wrote, or this one has not loaded yet; once for parallel requests.

        A database that fails then leaves what is served as it is, and is asked again soon.
        """
        async with self._refreshing:
            if self._seen == generation:
                return
            try:
                await self._revalidate()
            except StoreError as error:
                if not self._definitions.etags():
                    raise
                self._failed, self._ask_again = generation, time.monotonic() + _PAUSE
                if self._store.fault is None:  # else that has been told
                    emit(BackgroundFailed("graphql-apps", error, retry_seconds=_PAUSE))

    async def _load_claimants(self, uri: str) -> None:
        """The first request for an app; a newer version that came meanwhile stays."""
        found = await self._read_claimants(uri)
        self._definitions.put(
            [one for one in found.entries() if self._definitions.entry(one.key) is None]
        )
        self._emit_collisions(self._definitions)
        self._tell()

    async def _load_all(self) -> None:
        started = time.perf_counter()
        generation = self._generations.read("apps")
        documents = await self._read({}, _MAX_APPS)
        entries = [build_entry(document) for document in documents]
        gone = self._definitions.etags().keys() - {entry.key for entry in entries}
        self._definitions.replace(entries)
        self._forget(gone)
        self._forget_former(entries)
        self._complete, self._seen = True, generation
        self._emit_refreshed(started)
        self._tell()

    async def _revalidate(self) -> None:
        if self.eager and not self._complete:
            await self._load_all()
        else:
            await self._revalidate_held()

    async def _revalidate_held(self) -> None:
        started = time.perf_counter()
        generation = self._generations.read("apps")
        held = self._definitions.etags()
        filter = {} if self._complete else {"_id": {"$in": self._held_ids()}}
        stored = await self._read(filter, _MAX_APPS, projection={"_id": 1, "_etag": 1})
        etags = {build_key(one["_id"]): _text(one.get("_etag")) for one in stored}
        changed = [
            one["_id"]
            for one in stored
            # without an etag a change shows only in the document itself
            if etags[build_key(one["_id"])] is None
            or held.get(build_key(one["_id"]), "") != etags[build_key(one["_id"])]
        ]
        if changed:
            documents = await self._read({"_id": {"$in": changed}}, _MAX_APPS)
            self._put([build_entry(document) for document in documents])
        self._drop([key for key in held if key not in etags])
        self._seen = generation
        self._emit_refreshed(started)

    async def _reload_ids(self, ids: Sequence[Any]) -> None:
        documents = await self._read({"_id": {"$in": list(ids)}}, max(len(ids), 1))
        found = [build_entry(document) for document in documents]
        self._drop({build_key(id) for id in ids} - {entry.key for entry in found})
        self._put(found)
        self._emit_collisions(self._definitions)

    async def _read_claimants(self, uri: str) -> StoredDefinitions:
        """All definitions that claim this uri: of several, only one is served."""
        filter = {"$or": [{"_id": uri}, {"descriptor.uri": {"$in": spell_uri(uri)}}]}
        definitions = StoredDefinitions()
        definitions.put([build_entry(document) for document in await self._read(filter, 100)])
        return definitions

    async def _read(
        self, filter: Document, limit: int, projection: Document | None = None
    ) -> list[Document]:
        return await self._store.find(
            self._config.db,
            self._config.collection,
            filter,
            projection=projection,
            limit=limit,
            deadline=Deadline.after_ms(_REFRESH_MS),
            reveal=(self._key,),
        )

    @cached_property
    def _key(self) -> Key:
        return hide_marker(self._store.guard, self._config.db, self._config.collection)

    async def _compile(self, entry: Entry, definitions: StoredDefinitions) -> App:
        if entry.key in definitions.collisions:
            raise DefinitionError("Invalid GraphQL app definition")
        compiled = self._compiled.find(entry.key) or await self._load(entry)
        while compiled.version != entry.version:
            self._compiled.invalidate(entry.key)
            compiled = await self._load(entry)
        if isinstance(compiled.outcome, DefinitionError):
            raise DefinitionError("Invalid GraphQL app definition")
        return compiled.outcome

    async def _load(self, entry: Entry) -> _Compiled:
        return await self._compiled.get(entry.key, lambda _: self._build(entry))

    def _put(self, entries: Sequence[Entry]) -> None:
        self._definitions.put(entries)
        self._forget_former(entries)
        if entries:
            self._tell()

    def _drop(self, keys: Collection[str]) -> None:
        if keys:
            self._definitions.drop(keys)
            self._forget(keys)
            self._tell()

    def _tell(self) -> None:
        for heard in self._listeners:
            heard()

    def _forget_former(self, entries: Sequence[Entry]) -> None:
        """What was compiled of other versions goes at once, not when its room is needed."""
        for entry in entries:
            compiled = self._compiled.peek(entry.key)
            if compiled is not None and compiled.version != entry.version:
                self._compiled.invalidate(entry.key)

    def _forget(self, keys: Collection[str]) -> None:
        for key in keys:
            self._compiled.invalidate(key)

    async def _build(self, entry: Entry) -> _Compiled:
        """An app, or the reason why there is none, which is kept and emitted once."""
        started = time.perf_counter()
        try:
            app = await run_blocking(self._lane, self._build_now, entry.document)
        except DefinitionError as error:
            emit(AppInvalid(str(entry.id), _problems(error)))
            # Without its traceback, which would hold the frames that it came through.
            return _Compiled(entry.version, error.with_traceback(None))
        emit(AppLoaded(str(entry.id), entry.uri, time.perf_counter() - started))
        return _Compiled(entry.version, app)

    def _build_now(self, document: Document) -> App:
        return build_app(
            decode_definition(document),
            self._config,
            policy=self._store.policy,
            variables=known_variables(self._registry),
        )

    def _held_ids(self) -> list[Any]:
        return [entry.id for entry in self._definitions.entries()]

    def _emit_refreshed(self, started: float) -> None:
        served, disabled = self._definitions.counts()
        self._emit_collisions(self._definitions)
        invalid = len(self._definitions.collisions)
        emit(AppsRefreshed(served, disabled - invalid, invalid, time.perf_counter() - started))

    def _emit_collisions(self, definitions: StoredDefinitions) -> None:
        """Each of them once, as long as it lasts; a part of the definitions shows not all."""
        for key, claim in definitions.collisions.items() - self._emitted.items():
            text = f"another app, whose _id is lower, claims /{claim}"
            emit(AppInvalid(key.partition(":")[2], (text,)))
        is_part = definitions is not self._definitions
        known = self._emitted.items()
        others = {key: one for key, one in known if is_part and not definitions.entry(key)}
        self._emitted = {**others, **definitions.collisions}


def _text(etag: Any) -> str | None:
    return None if etag is None else str(etag)


def _problems(error: DefinitionError) -> tuple[str, ...]:
    return tuple(error.message.splitlines())
