"""Collection statistics: estimated counts, indexes and collations, cached for some seconds.

Callers must work without them: the result is None for views and without the database permission.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, TypeVar

from bson.errors import BSONError
from pymongo.errors import OperationFailure

from docgraph.exchange.data import CollectionName, Consistency, Document
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import (
    TEMPORARY_FAILURES,
    DocgraphError,
)
from docgraph.runtime.cache import LoadingCache, close_all
from docgraph.store.driver.command import Commands
from docgraph.store.driver.errors import unreachable
from docgraph.store.driver.lenient_decode import encode_bson
from docgraph.store.driver.malformed import reading_reply
from docgraph.store.names import check_namespace
from docgraph.store.query_plan import read_plan

T = TypeVar("T")

_KEPT: Final = 1_000  # collections
_TTL: Final = 10.0  # seconds
_PATIENCE_MS: Final = 2_000
_MAX_INDEXES: Final = 1_000
_NAMESPACE_NOT_FOUND: Final = 26
_SHORT: Final = 1024  # bytes of a command that is its own key
_LOCAL: Final = Consistency(concern="local")


# Collations: texts are compared byte by byte, or the collection does not exist (yet).
BY_BYTES: Final = b""
MISSING: Final = b"missing"


# An index with one of these does not contain, or does not find, every document.
SPECIAL_OPTIONS = ("hidden", "sparse", "partialFilterExpression", "collation")


@dataclass(frozen=True, slots=True)
class Index:
    """An index: its keys in order, and which documents it contains."""

    keys: tuple[tuple[str, Any], ...]
    unique: bool = False
    complete: bool = True  # every document is in it, compared as usual
    finds_all: bool = True  # every document with a value is in it, compared as usual
    finds_null: bool = True  # those without a value, too

    @classmethod
    def read(cls, document: Mapping[str, Any], collation: Any = None) -> Index:
        """Build an index from its description in the database; the collation is the usual one."""
        keys = tuple(document["key"].items())
        special = {option for option in SPECIAL_OPTIONS if document.get(option)}
        is_unique = bool(document.get("unique")) or keys == (("_id", 1),)
        finds_all = special <= {"sparse", "collation"} and document.get("collation") == collation
        return cls(keys, is_unique, not special, finds_all, "sparse" not in special)


class CollectionStats:
    """The statistics of the collections of one client, each cached for some seconds."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._counts = LoadingCache[CollectionName, int | None](_KEPT, _TTL)
        self._indexes = LoadingCache[CollectionName, tuple[Index, ...] | None](_KEPT, _TTL)
        self._collations = LoadingCache[CollectionName, bytes | None](_KEPT, _TTL)
        self._sorting = LoadingCache[Hashable, frozenset[str] | None](_KEPT, _TTL)

    async def count(self, db: str, collection: str) -> int | None:
        """Return the estimated number of documents; 0 if the collection does not exist."""
        return await _load_or_none(lambda: self._counts.get((db, collection), self._load_count))

    async def indexes(self, db: str, collection: str) -> tuple[Index, ...] | None:
        cached = self._indexes.peek((db, collection))
        if cached is not None:  # as nearly always
            return cached
        return await _load_or_none(lambda: self._indexes.get((db, collection), self._load_indexes))

    async def collation(
        self, db: str, collection: str, deadline: Deadline | None = None
    ) -> bytes | None:
        """Return how commands on the collection or view compare texts; None: unknown.

        Two collections compare alike if the values are equal. See `BY_BYTES` and `MISSING`. With a
        deadline, a temporary failure is tried again until then, and raises its error.
        """
        place = (db, collection)
        cached = self._collations.peek(place)
        if cached is None:
            load = self._load_collation
            cached = await _load_or_none(lambda: self._collations.get(place, load))
            if cached == MISSING:
                self._collations.invalidate(place)  # it may be created at any time
        if cached is None and deadline is not None:
            cached = await self._load_collation(place, deadline)
        return cached

    async def sorting_indexes(
        self, place: CollectionName, command: Document
    ) -> frozenset[str] | None:
        """Return the indexes that provide the order of a `find`; none if it sorts in memory.

        A single one also provides it when the query names it as its hint.
        """
        key: Hashable = (*place, command.get("limit"), *command["sort"].items())
        if command["filter"] or "hint" in command:
            try:
                encoded = encode_bson({"db": place[0], **command})
            except BSONError:
                return None  # the query will say what is wrong
            key = sha256(encoded).digest() if len(encoded) > _SHORT else encoded
        if (cached := self._sorting.peek(key)) is not None:
            return cached

        async def load(_: Hashable) -> frozenset[str] | None:
            names = await self._explain(place, command)
            if not names or len(names) > 1 or "hint" in command:
                return names
            return await self._explain(place, {**command, "hint": next(iter(names))})

        return await _load_or_none(lambda: self._sorting.get(key, load))

    async def _explain(self, place: CollectionName, command: Document) -> frozenset[str] | None:
        deadline = Deadline.after_ms(_PATIENCE_MS)
        try:
            plan = read_plan(await self._commands.explain(place[0], command, deadline))
        except TEMPORARY_FAILURES:
            raise
        except DocgraphError:
            return None
        # A plan of another form (of a time series) is unknown and may sort in memory.
        return frozenset() if plan.sorts else frozenset(plan.indexes)

    async def exists(self, db: str, collection: str) -> bool | None:
        """Return whether the collection or view exists; not cached."""
        names = await self.find_existing(db, [collection])
        return None if names is None else bool(names)

    async def find_existing(self, db: str, collections: Sequence[str]) -> list[str] | None:
        """Return which of the collections and views exist; None without an answer; not cached."""
        for collection in collections:
            check_namespace(db, collection)
        chosen: Document = {"name": {"$in": [*collections]}}
        command: Document = {"listCollections": 1, "filter": chosen, "nameOnly": True, "cursor": {}}
        with suppress(DocgraphError):
            entries = await self._commands.fetch(db, command, Deadline.after_ms(_PATIENCE_MS))
            with reading_reply():
                return [entry["name"] for entry in entries]
        return None

    def forget(self) -> None:
        self._counts.clear()
        self._indexes.clear()
        self._collations.clear()
        self._sorting.clear()

    async def close(self) -> None:
        """Cancel the commands in progress."""
        await close_all(self._counts, self._indexes, self._collations, self._sorting)

    async def _load_count(self, place: CollectionName) -> int | None:
        stages: list[Document] = [{"$collStats": {"count": {}}}]
        command: Document = {"aggregate": place[1], "pipeline": stages, "cursor": {}}
        replies = await self._fetch(place, command)
        with reading_reply():
            return None if replies is None else sum(int(entry.get("count", 0)) for entry in replies)

    async def _load_indexes(self, place: CollectionName) -> tuple[Index, ...] | None:
        command: Document = {"listIndexes": place[1], "cursor": {"batchSize": _MAX_INDEXES}}
        indexes = await self._fetch(place, command)
        if indexes is None:
            return None
        # The index of `_id` has the collation of the collection.
        with reading_reply():
            by_id = next((index for index in indexes if [*index["key"]] == ["_id"]), {})
            return tuple(Index.read(index, by_id.get("collation")) for index in indexes)

    async def _load_collation(
        self, place: CollectionName, until: Deadline | None = None
    ) -> bytes | None:
        command: Document = {"listCollections": 1, "filter": {"name": place[1]}, "cursor": {}}
        collections = await self._fetch(place, command, until)
        if not collections:
            return collections if collections is None else MISSING
        with reading_reply():
            options: Document = collections[0].get("options") or {}
            return encode_bson(collation) if (collation := options.get("collation")) else BY_BYTES

    async def _fetch(
        self, place: CollectionName, command: Document, until: Deadline | None = None
    ) -> list[Document] | None:
        check_namespace(*place)
        if not self._commands.has_server(writing=False):
            raise unreachable()  # the request will find out by itself, and no one waits twice
        deadline = until or Deadline.after_ms(_PATIENCE_MS)
        consistency = _LOCAL if "aggregate" in command else None
        try:
            return await self._commands.fetch(place[0], command, deadline, consistency)
        except TEMPORARY_FAILURES:
            raise
        except DocgraphError as error:
            cause = error.__cause__
            if isinstance(cause, OperationFailure) and cause.code == _NAMESPACE_NOT_FOUND:
                return []
            return None


async def _load_or_none(load: Callable[[], Awaitable[T | None]]) -> T | None:
    """Return None after a temporary failure, without caching it."""
    try:
        return await load()
    except TEMPORARY_FAILURES:
        return None
