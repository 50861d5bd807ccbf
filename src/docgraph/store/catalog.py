"""Catalog of databases and collections: cached existence and metadata, sizes, samples.

The existence of a collection is cached until a collection is created or dropped on this instance
(the generation `collections`), and for `ttl` seconds at most, since other programs may drop it. A
missing collection is never cached: the next request reads it again.

The inventory is for tools that inspect the data as a whole: types and sizes of collections, and a
fair sample of their documents, bounded in time, documents and bytes.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeVar

from pymongo import AsyncMongoClient

from docgraph.exchange.data import Consistency, Document
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import AnswerTooLarge, DocgraphError, StoreError, TimeLimitExceeded
from docgraph.runtime import Generations, LoadingCache, LruDict
from docgraph.store.driver.collection_uuid import FoundCollection, find_collection
from docgraph.store.driver.command import Commands
from docgraph.store.driver.concerns import choose_preference
from docgraph.store.driver.malformed import reading_reply
from docgraph.store.driver.portions import Take
from docgraph.store.driver.timed_commands import Observed
from docgraph.store.names import (
    METADATA_STORE,
    check_database,
    check_namespace,
    is_reserved_collection,
    is_reserved_database,
)
from docgraph.store.store import Store

T = TypeVar("T")

_KEPT = 10_000
_CEILING_MS = 60_000
_MAX_COLLECTIONS: Final = 100_000
_MAX_BYTES: Final = 16 << 20  # of a sample
_PATIENCE_MS: Final = 3_000  # for the first documents, if sampling takes too long
_LOCAL: Final = Consistency(concern="local")


class Catalog:
    """The names of databases and collections, cached by this process."""

    def __init__(self, store: Store, generations: Generations, *, ttl: float) -> None:
        self._client = store.client
        self._commands = Commands(store.client, ceiling_ms=_CEILING_MS, waits=store.waits)
        self._generations = generations
        self._generation = -1
        self._ttl = ttl
        self._known: LruDict[tuple[str, str], tuple[float, FoundCollection]] = LruDict(_KEPT)

    async def find_collection(
        self, db: str, collection: str, deadline: Deadline, *, fresh: bool = False
    ) -> FoundCollection | None:
        """Return the collection or view with this name, or None; `fresh` bypasses the cache."""
        generation = self._generations.read("collections")
        if generation != self._generation:
            self._known.clear()
            self._generation = generation
        key = (db, collection)
        cached = self._known.get(key)
        if cached is not None and cached[0] > time.monotonic() and not fresh:
            return cached[1]
        check_namespace(db, collection)
        existing = await _run(
            self._commands,
            db,
            "listCollections",
            partial(find_collection, self._client, *key),
            deadline,
        )
        if existing is None:
            self._known.pop(key)
            return None
        self._known.put(key, (time.monotonic() + self._ttl, existing))
        return existing

    def forget(self, db: str, collection: str, id: bytes | None) -> None:
        """Remove a dropped collection from the cache of all workers, if this one still has it."""
        cached = self._known.get((db, collection))
        if cached is None or cached[1].id == id:
            self.announce()

    async def has_database(self, db: str, deadline: Deadline) -> bool:
        """Check if the database exists: it does if it has a collection, even an internal one."""
        check_database(db)
        return bool(await self._list(db, deadline))

    async def list_collections(self, db: str, deadline: Deadline) -> list[str]:
        """Return the names of the collections that callers can see, sorted."""
        check_database(db)
        names = await self._list(db, deadline)
        return sorted(name for name in names if not is_reserved_collection(name))

    async def list_databases(self, deadline: Deadline) -> list[str]:
        """Return the names of the databases that callers can see, sorted."""
        return await _list_databases(self._client, self._commands, deadline)

    async def estimate(
        self, db: str, collection: str, deadline: Deadline, consistency: Consistency | None = None
    ) -> int:
        """Return the estimated number of documents, from the statistics of the database.

        Only the servers of the consistency matter: read concern has no meaning for an estimate.
        """
        check_namespace(db, collection)
        client, preference = self._client, None
        if consistency is not None:
            topology = client.topology_description
            preference = choose_preference(consistency, client.read_preference, topology)
        target = client.get_database(db).get_collection(collection, read_preference=preference)
        return await _run(self._commands, db, "count", target.estimated_document_count, deadline)

    def announce(self) -> None:
        """Notify every worker that collections were created, dropped or described again."""
        self._generations.bump("collections")

    async def _list(self, db: str, deadline: Deadline) -> list[str]:
        database = self._client.get_database(db)
        names = database.list_collection_names
        return await _run(self._commands, db, "listCollections", names, deadline)


async def _list_databases(
    client: AsyncMongoClient[Document], commands: Commands, deadline: Deadline
) -> list[str]:
    names = await _run(commands, "admin", "listDatabases", client.list_database_names, deadline)
    with reading_reply():
        return sorted(name for name in names if not is_reserved_database(name))


async def _run(
    commands: Commands, db: str, command: str, work: Callable[..., Awaitable[T]], deadline: Deadline
) -> T:
    seconds = commands.budget(deadline)
    with Observed(db, {command: ""}) as seen:
        send = partial(work, comment=seen.comment)
        return await commands.within(seconds, send, deadline)


@dataclass(frozen=True, slots=True)
class Listed:
    """A collection; `kind` is `collection`, `view` or `timeseries`.

    `required` has the properties that its validator requires in every document. A view has its
    `source` and `stages`, a time series the names of its time field and its meta field.
    `has_collation`: texts are not compared byte by byte.
    """

    name: str
    kind: str = "collection"
    required: frozenset[str] = frozenset()
    source: str = ""
    stages: tuple[Document, ...] = ()
    time_field: str = ""
    meta_field: str = ""
    has_collation: bool = False
    is_capped: bool = False


@dataclass(frozen=True, slots=True)
class Measure:
    """Estimated number of documents, bytes per document and bytes of all; None: not known."""

    documents: int | None = None
    bytes_each: int | None = None
    bytes: int | None = None


class Inventory:
    """Inspects the collections of a database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._commands = Commands(store.client, ceiling_ms=_CEILING_MS, waits=store.waits)

    async def list_databases(self, deadline: Deadline) -> list[str]:
        """Return the names of the databases that callers can see, sorted."""
        return await _list_databases(self._store.client, self._commands, deadline)

    async def list_collections(self, db: str, deadline: Deadline) -> list[Listed]:
        """Return all collections and views that the database user can see, by name."""
        check_database(db)
        command: Document = {
            "listCollections": 1,
            "authorizedCollections": True,
            "cursor": {"batchSize": _MAX_COLLECTIONS},
        }
        try:
            collections = await self._commands.fetch(db, {**command}, deadline)
        except StoreError:  # listing names needs fewer privileges
            collections = await self._commands.fetch(db, {**command, "nameOnly": True}, deadline)
        return sorted(map(_read_listed, collections), key=lambda listed: listed.name)

    async def describe(self, db: str, name: str, deadline: Deadline) -> Listed | None:
        """Return the collection or view with this name, with its options; None: there is none."""
        check_namespace(db, name)
        command: Document = {"listCollections": 1, "filter": {"name": name}, "cursor": {}}
        collections = await self._commands.fetch(db, command, deadline)
        return _read_listed(collections[0]) if collections else None

    async def measure(self, db: str, collection: str, deadline: Deadline) -> Measure:
        """Return the size of a collection, from the statistics of the database."""
        check_namespace(db, collection)
        stages: list[Document] = [{"$collStats": {"storageStats": {}}}]
        command: Document = {"aggregate": collection, "pipeline": stages, "cursor": {}}
        try:
            replies = await self._commands.fetch(db, command, deadline, _LOCAL)
        except DocgraphError:
            return Measure()  # a view, or a missing privilege
        with reading_reply():
            shards = [reply.get("storageStats", {}) for reply in replies]
            documents = sum(int(shard.get("count", 0)) for shard in shards)
            size = sum(int(shard.get("size", 0)) for shard in shards)
        if any("timeseries" in shard for shard in shards):
            return Measure()  # it counts buckets
        return Measure(documents, size // documents if documents else 0, size)

    async def sample(
        self,
        db: str,
        collection: str,
        size: int,
        measure: Measure,
        *,
        deadline: Deadline,
        take: Take,
    ) -> bool:
        """Pass random documents to `take`; return whether it was a fair sample, not the first ones.

        There are fewer than `size` documents if they are large: about 16 MiB in total. If the
        collection has no more than `size`, all of them are passed in their order.
        """
        most = min(size, max(1, _MAX_BYTES // max(1, measure.bytes_each or 1)))
        if measure.documents is not None and measure.documents <= most:
            await self._read_first(db, collection, most, deadline, take)
            return True
        began = False

        async def collect(documents: list[Document]) -> None:
            nonlocal began
            began = True
            await take(documents)

        stages = [{"$sample": {"size": most}}]
        try:
            await self._store.reads.aggregate(
                db, collection, stages, limit=most, deadline=deadline, take=collect
            )
        except AnswerTooLarge:
            return True  # the documents so far are as random as the rest
        except TimeLimitExceeded:
            if not began:
                # Not longer than the sample: other collections wait.
                patience = Deadline.after_ms(min(_PATIENCE_MS, deadline.limit_ms or _PATIENCE_MS))
                await self._read_first(db, collection, most, patience, take)
            return began
        return True

    async def _read_first(
        self, db: str, collection: str, most: int, deadline: Deadline, take: Take
    ) -> None:
        try:
            await self._store.reads.find(
                db, collection, {}, limit=most, deadline=deadline, take=take
            )
        except (AnswerTooLarge, TimeLimitExceeded):
            return


def _read_listed(document: Mapping[str, Any]) -> Listed:
    with reading_reply():
        options = document.get("options") or {}
        schema = (options.get("validator") or {}).get("$jsonSchema") or {}
        required = schema.get("required") if isinstance(schema, Mapping) else None
        names = required if isinstance(required, list) else ()
        series = options.get("timeseries") or {}
        return Listed(
            str(document["name"]),
            str(document.get("type", "collection")),
            frozenset(name for name in names if isinstance(name, str)),
            str(options.get("viewOn", "")),
            tuple(options.get("pipeline", ())),
            str(series.get("timeField", "")),
            str(series.get("metaField", "")),
            bool(options.get("collation")),
            bool(options.get("capped")),
        )


_LOAD_MS = 10_000  # all callers share a load, so it has a deadline of its own

MetadataKey = tuple[str, str | None, bytes | None]


def metadata_id(collection: str | None) -> str:
    """Return the `_id` of the metadata of a collection; of its database for None."""
    return METADATA_STORE if collection is None else f"{METADATA_STORE}.{collection}"


class Metadata:
    """The cached metadata of databases and collections.

    It is in the collection `_properties`: the metadata of a database has the `_id` `_properties`,
    that of a collection `_properties.<name>`. It is read by nearly every request (etags, policies,
    aggregations), so it is cached until a change is announced under the generation `collections`,
    and for `ttl` seconds at most. A cache entry belongs to a collection by its UUID, not only by
    its name: a collection that was dropped and created again, possibly before its announcement
    arrives, has no entry until it is read.
    """

    def __init__(self, store: Store, generations: Generations, *, ttl: float) -> None:
        self._store = store
        self._generations = generations
        self._generation = -1
        self._kept: LoadingCache[MetadataKey, Document | None] = LoadingCache(
            _KEPT if ttl > 0 else 0, ttl
        )

    async def find(
        self,
        db: str,
        collection: str | None = None,
        *,
        id: bytes | None = None,
        fresh: bool = False,
    ) -> Document | None:
        """Return the stored metadata, or None; `fresh` bypasses the cache.

        `id` is the UUID of the collection, if the caller knows which one of that name is meant.
        """
        key = (db, collection, id)
        generation = self._generations.read("collections")
        if generation != self._generation:
            self._kept.clear()
            self._generation = generation
        elif fresh:
            self._kept.invalidate(key)
        return await self._kept.get(key, self._load)

    async def close(self) -> None:
        """Cancel the loads in progress."""
        await self._kept.close()

    async def _load(self, key: MetadataKey) -> Document | None:
        db, collection, _ = key
        return await self._store.reads.find_one(
            db,
            METADATA_STORE,
            {"_id": metadata_id(collection)},
            deadline=Deadline.after_ms(_LOAD_MS),
        )
