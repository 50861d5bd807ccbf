"""App registry (hot reload): URI to stored definition to compiled app, without a restart.

Each process caches the stored definitions. An app is compiled at its first use and stored in a
bounded cache. Three things invalidate them: a generation that another worker of the instance raised
(every request checks it), an event of the change stream, and the periodic run of
`graphAppsUpdater`. A failing database never removes a working app.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from docgraph.exchange import Deadline, Document
from docgraph.exchange.errors import DefinitionError, NotFound, StoreError
from docgraph.graphql.apps.compiled_app import App, build_app
from docgraph.graphql.apps.stored_definitions import (
    StoredDefinition,
    StoredDefinitions,
    build_entry,
    build_key,
    spell_etag,
)
from docgraph.graphql.definition.definition import decode_definition, normalise_uri, spell_uri
from docgraph.graphql.sections import Graphql
from docgraph.observe import emit
from docgraph.observe.events import (
    AppInvalid,
    AppLoaded,
    AppPartlyInvalid,
    AppsRefreshed,
    BackgroundFailed,
)
from docgraph.plugins.kinds import Kind
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Blocking, Generations, LoadingCache, close_all, run_blocking
from docgraph.store import RevealKey, Store
from docgraph.store.guard.shield import hide_marker
from docgraph.variables import BUILT_IN

_MAX_APPS = 100_000
_MAX_COMPILED = 256
_REFRESH_MS = 15_000
_PAUSE = 1.0  # seconds before a database that failed is queried for changes again


def known_variables(registry: PluginRegistry) -> frozenset[str]:
    """Return the names of predefined variables and those of plugins, without their @."""
    plugins = registry.of_kind(Kind.VARIABLE_RESOLVER)
    return frozenset((*BUILT_IN, *(plugin.variable for plugin in plugins)))


class _Compiled(NamedTuple):
    """The result of compiling one version of a definition: an app or an error."""

    version: str
    outcome: App | DefinitionError


class Apps:
    """Find the app of a URI; also the provider `gql-app-definition-cache`.

    With `eager`, all definitions are loaded at start (`graphAppsInitializer`). Otherwise each one
    is loaded at its first request.
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
        self._definitions = StoredDefinitions(by_id=config.serve_by_id)
        self._complete = False
        self._listeners: list[Callable[[], None]] = []
        self._seen = -1  # the generation of the loaded definitions
        self._failed = -1  # the generation that could not be loaded …
        self._ask_again = 0.0  # … and when to try to load it again
        self._emitted: dict[str, str] = {}  # collisions already emitted
        self._partial: set[str] = set()  # apps of which parts are invalid
        self._refreshing = asyncio.Lock()
        self._catching_up: LoadingCache[int, None] = LoadingCache(0)
        self._loading: LoadingCache[str, None] = LoadingCache(0)
        self._compiled: LoadingCache[str, _Compiled] = LoadingCache(_MAX_COMPILED)

    def listen(self, heard: Callable[[], None]) -> None:
        """Call `heard` whenever the definitions of this process have changed."""
        self._listeners.append(heard)

    def list_known(self) -> tuple[list[StoredDefinition], bool]:
        """Return the definitions that this process has read, and whether these are all of them."""
        return self._definitions.entries(), self._complete

    async def find(self, uri: str) -> App:
        """Return the compiled app at this URI; raise 404 for none, 400 for an invalid one."""
        uri = normalise_uri(uri)
        definitions = await self._find_definitions(uri)
        entry = definitions.find(uri)
        if entry is None:
            raise NotFound("GraphQL app not found")
        return await self._compile(entry, definitions)

    async def list_served(self) -> list[StoredDefinition]:
        """Return the served definitions by URI; some may turn out to be invalid when compiled."""
        if not self._config.app_cache_enabled:
            definitions = StoredDefinitions(by_id=self._config.serve_by_id)
            definitions.put([build_entry(document) for document in await self._read({}, _MAX_APPS)])
            return definitions.served()
        await self._follow()
        if not self._complete:
            await self.load_first()
        return self._definitions.served()

    async def get(self, name: Any) -> App | None:
        """Return the app with this `_id`, loaded if necessary; None when there is none."""
        entry = self._definitions.entry(build_key(name))
        if entry is None:
            await self._reload_ids([name])
            entry = self._definitions.entry(build_key(name))
        return None if entry is None else await self._compile(entry, self._definitions)

    def invalidate(self, name: Any) -> None:
        """Drop the app with this `_id`; the next request loads it again."""
        entry = self._definitions.entry(build_key(name))
        if entry is not None:
            self._drop([entry.key])
        self._generations.bump("apps")

    def invalidate_all(self) -> None:
        """Drop every app; the next request loads them again."""
        self._compiled.clear()
        self._partial.clear()
        self._definitions.replace([])
        self._complete = False
        self._generations.bump("apps")

    async def load_all(self) -> None:
        """Read every definition in one query."""
        async with self._refreshing:
            await self._load_all()

    async def load_first(self) -> None:
        """Read every definition, unless a request has already done it."""
        async with self._refreshing:
            if not self._complete:
                await self._load_all()

    async def revalidate(self) -> None:
        """Refresh the definitions in at most two queries, however many apps there are."""
        async with self._refreshing:
            await self._revalidate()

    async def refresh(self, ids: Sequence[Any]) -> None:
        """Read these definitions again in one query."""
        async with self._refreshing:
            await self._reload_ids(ids)

    async def close(self) -> None:
        """Cancel loads in progress and start no new ones."""
        await close_all(self._catching_up, self._loading, self._compiled)

    async def _find_definitions(self, uri: str) -> StoredDefinitions:
        """Return the definitions that would include an app at this URI."""
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
        """Load definitions that other workers have written, as far as known by now."""
        generation = self._generations.read("apps")
        is_due = generation != self._failed or time.monotonic() >= self._ask_again
        if generation != self._seen and is_due:
            await self._catching_up.get(generation, self._catch_up)

    async def _catch_up(self, generation: int) -> None:
        """Load definitions after a write of another worker, or for the first time; single flight.

        When the database fails, the served apps stay as they are and the load is tried again soon.
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
                if self._store.fault is None:  # otherwise the fault is already logged
                    emit(BackgroundFailed("graphql-apps", error, retry_seconds=_PAUSE))

    async def _load_claimants(self, uri: str) -> None:
        """Load the app at its first request; keep a newer version that was loaded meanwhile."""
        claimants = (await self._read_claimants(uri)).entries()
        self._definitions.put(
            [entry for entry in claimants if self._definitions.entry(entry.key) is None]
        )
        self._emit_collisions(self._definitions)
        self._announce()

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
        self._announce()

    async def _revalidate(self) -> None:
        if self.eager and not self._complete:
            await self._load_all()
            return
        started = time.perf_counter()
        generation = self._generations.read("apps")
        held = self._definitions.etags()
        filter = (
            {}
            if self._complete
            else {"_id": {"$in": [entry.id for entry in self._definitions.entries()]}}
        )
        stored = await self._read(filter, _MAX_APPS, projection={"_id": 1, "_etag": 1})
        etags = {build_key(each["_id"]): spell_etag(each.get("_etag")) for each in stored}
        ids = {build_key(each["_id"]): each["_id"] for each in stored}
        # Without an ETag, only the document itself shows a change.
        changed = [ids[key] for key, etag in etags.items() if etag is None or held.get(key) != etag]
        if changed:
            documents = await self._read({"_id": {"$in": changed}}, _MAX_APPS)
            self._put([build_entry(document) for document in documents])
        self._drop([key for key in held if key not in etags])
        self._seen = generation
        self._emit_refreshed(started)

    async def _reload_ids(self, ids: Sequence[Any]) -> None:
        documents = await self._read({"_id": {"$in": list(ids)}}, max(len(ids), 1))
        entries = [build_entry(document) for document in documents]
        self._drop({build_key(id) for id in ids} - {entry.key for entry in entries})
        self._put(entries)
        self._emit_collisions(self._definitions)

    async def _read_claimants(self, uri: str) -> StoredDefinitions:
        """Return all definitions that claim this URI, of which one is served."""
        filter = {"$or": [{"_id": uri}, {"descriptor.uri": {"$in": spell_uri(uri)}}]}
        definitions = StoredDefinitions(by_id=self._config.serve_by_id)
        definitions.put([build_entry(document) for document in await self._read(filter, 100)])
        return definitions

    async def _read(
        self, filter: Document, limit: int, projection: Document | None = None
    ) -> list[Document]:
        return await self._store.reads.find(
            self._config.db,
            self._config.collection,
            filter,
            projection=projection,
            limit=limit,
            deadline=Deadline.after_ms(_REFRESH_MS),
            reveal=(self._key,),
        )

    @cached_property
    def _key(self) -> RevealKey:
        return hide_marker(self._store.guard, self._config.db, self._config.collection)

    async def _compile(self, entry: StoredDefinition, definitions: StoredDefinitions) -> App:
        if entry.key in definitions.collisions:
            raise DefinitionError("Invalid GraphQL app definition")
        compiled = self._compiled.find(entry.key) or await self._load(entry)
        while compiled.version != entry.version:
            self._compiled.invalidate(entry.key)
            compiled = await self._load(entry)
        if isinstance(compiled.outcome, DefinitionError):
            raise DefinitionError("Invalid GraphQL app definition")
        return compiled.outcome

    async def _load(self, entry: StoredDefinition) -> _Compiled:
        return await self._compiled.get(entry.key, lambda _: self._build(entry))

    def _put(self, entries: Sequence[StoredDefinition]) -> None:
        self._definitions.put(entries)
        self._forget_former(entries)
        if entries:
            self._announce()

    def _drop(self, keys: Collection[str]) -> None:
        if keys:
            self._definitions.drop(keys)
            self._forget(keys)
            self._announce()

    def _announce(self) -> None:
        for heard in self._listeners:
            heard()

    def _forget_former(self, entries: Sequence[StoredDefinition]) -> None:
        """Drop the apps compiled from previous versions, before the cache needs the space."""
        for entry in entries:
            compiled = self._compiled.peek(entry.key)
            if compiled is not None and compiled.version != entry.version:
                self._forget([entry.key])

    def _forget(self, keys: Collection[str]) -> None:
        for key in keys:
            self._compiled.invalidate(key)
            self._partial.discard(key)

    async def _build(self, entry: StoredDefinition) -> _Compiled:
        """Compile an app, or cache the reason why that fails, which is emitted once."""
        started = time.perf_counter()
        try:
            app = await run_blocking(
                self._lane,
                lambda: build_app(
                    decode_definition(entry.document),
                    self._config,
                    policy=self._store.policy,
                    variables=known_variables(self._registry),
                    is_stored=True,
                ),
            )
        except DefinitionError as error:
            emit(AppInvalid(str(entry.id), tuple(error.message.splitlines())))
            # Drop the traceback: it would keep the frames of the failed compilation alive.
            return _Compiled(entry.version, error.with_traceback(None))
        if app.problems:
            emit(AppPartlyInvalid(str(entry.id), tuple(map(str, app.problems))))
            self._partial.add(entry.key)
            self._emit_refreshed(started)
        emit(AppLoaded(str(entry.id), entry.uri, time.perf_counter() - started))
        return _Compiled(entry.version, app)

    def _emit_refreshed(self, started: float) -> None:
        served, disabled = self._definitions.counts()
        self._emit_collisions(self._definitions)
        invalid = len(self._definitions.collisions)
        duration, partial = time.perf_counter() - started, len(self._partial)
        emit(AppsRefreshed(served, disabled - invalid, invalid, duration, partial))

    def _emit_collisions(self, definitions: StoredDefinitions) -> None:
        """Emit each collision once while it lasts; a partial load does not show all of them."""
        for key, claim in definitions.collisions.items() - self._emitted.items():
            text = f"another app, whose _id is lower, claims /{claim}"
            emit(AppInvalid(key.partition(":")[2], (text,)))
        is_part = definitions is not self._definitions
        emitted = self._emitted.items()
        others = {key: uri for key, uri in emitted if is_part and not definitions.entry(key)}
        self._emitted = {**others, **definitions.collisions}
