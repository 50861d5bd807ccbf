"""What is known of collections as a whole: about how many documents, and which indexes.

Asked only by those who can do without an answer, and at most every few seconds for each collection:
what cannot be found out (a view, a missing right) is None.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, TypeVar

import bson
from bson.errors import BSONError
from pymongo.errors import OperationFailure

from docgraph.exchange.data import Consistency, Document
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import (
    DocgraphError,
    Overloaded,
    QueryError,
    SecurityViolation,
    StoreUnavailable,
    TimeLimitExceeded,
)
from docgraph.runtime.cache import LoadingCache, close_all
from docgraph.store.driver.command import Commands
from docgraph.store.driver.errors import unreachable
from docgraph.store.driver.observed import Observed
from docgraph.store.explain import read_plan
from docgraph.store.guard.stages import Policy, check_pipeline, has_key
from docgraph.store.names import check_namespace

__all__ = ["CANNOT_RUN", "CHECK_ARGUMENTS", "Facts", "Index"]

CANNOT_RUN: Final = "MongoDB cannot run this"
CHECK_ARGUMENTS: Final = "compare its arguments with the reference of MongoDB"

T = TypeVar("T")
Place = tuple[str, str]

_KEPT: Final = 1_000  # collections
_TTL: Final = 10.0  # seconds
_PATIENCE_MS: Final = 2_000
_MOST_INDEXES: Final = 1_000
_NAMESPACE_NOT_FOUND: Final = 26
_PASSING: Final = (StoreUnavailable, TimeLimitExceeded, Overloaded)
_LOCAL: Final = Consistency(concern="local")

# BadValue, FailedToParse, TypeMismatch, InvalidOptions, InvalidPipelineOperator, ConversionFailure;
# what else is wrong with a stage has a number without a name.
_PARSING: Final = frozenset({2, 9, 14, 72, 168, 241})
# These have to be the first stage, or need one that is.
_NOT_TRIED: Final = frozenset(
    {"$documents", "$geonear", "$meta", "$near", "$nearsphere", "$text"}
    | {"$search", "$searchmeta", "$vectorsearch"}
)
# An operand that is wrong has other words.
_UNKNOWN: Final = re.compile("unknown|unrecognized", re.IGNORECASE)
_PROBES: Final[Mapping[str, tuple[Callable[[str], Document], ...]]] = {
    "filter": (lambda name: {"$match": {name: 1}},),
    "condition": (lambda name: {"$match": {"x": {name: 1}}},),
    "expression": (
        lambda name: {"$match": {"$expr": {name: 1}}},
        lambda name: {"$group": {"_id": None, "x": {name: 1}}},
        lambda name: {"$setWindowFields": {"output": {"x": {name: 1}}}},
    ),
}


@dataclass(frozen=True, slots=True)
class Index:
    """An index: its keys in order, and what it says of the documents in it."""

    keys: tuple[tuple[str, Any], ...]
    unique: bool = False
    complete: bool = True  # every document is in it, compared as usual

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Index:
        """An index as the database describes it."""
        special = ("sparse", "partialFilterExpression", "collation", "hidden")
        keys = tuple(document["key"].items())
        is_complete = not any(document.get(option) for option in special)
        return cls(keys, bool(document.get("unique")) or keys == (("_id", 1),), is_complete)


class Facts:
    """The facts of the collections of one client, each kept for some seconds."""

    def __init__(self, commands: Commands) -> None:
        self._commands = commands
        self._counts: LoadingCache[Place, int | None] = LoadingCache(_KEPT, _TTL)
        self._indexes: LoadingCache[Place, tuple[Index, ...] | None] = LoadingCache(_KEPT, _TTL)
        self._operators: LoadingCache[tuple[str, str], bool] = LoadingCache(_KEPT)
        self._sorting: LoadingCache[bytes, frozenset[str] | None] = LoadingCache(_KEPT, _TTL)

    async def count(self, db: str, collection: str) -> int | None:
        """About how many documents the collection has; none where it does not exist."""
        return await _ask(lambda: self._counts.get((db, collection), self._load_count))

    async def indexes(self, db: str, collection: str) -> tuple[Index, ...] | None:
        """The indexes of the collection."""
        known = self._indexes.peek((db, collection))
        if known is not None:  # as nearly always
            return known
        return await _ask(lambda: self._indexes.get((db, collection), self._load_indexes))

    async def sorting_indexes(self, place: Place, command: Document) -> frozenset[str] | None:
        """The indexes that give a `find` its order; none where the database sorts by itself.

        A single one gives it also where the query names it as its hint.
        """
        try:
            key = sha256(bson.encode({"db": place[0], **command})).digest()
        except BSONError:
            return None  # the query will say what is wrong

        known = self._sorting.peek(key)
        if known is not None:
            return known

        async def load(_: bytes) -> frozenset[str] | None:
            names = await self._explain(place, command)
            if not names or len(names) > 1 or "hint" in command:
                return names
            return await self._explain(place, {**command, "hint": next(iter(names))})

        return await _ask(lambda: self._sorting.get(key, load))

    async def _explain(self, place: Place, command: Document) -> frozenset[str] | None:
        deadline = Deadline.after_ms(_PATIENCE_MS)
        try:
            plan = read_plan(await self._commands.explain(place[0], command, deadline))
        except _PASSING:
            raise
        except DocgraphError:
            return None
        # A plan of another form (of a time series) is not known, and sorts for all we know.
        return frozenset() if plan.sorts else frozenset(plan.indexes)

    async def exists(self, db: str, collection: str) -> bool | None:
        """Whether there is a collection, or a view, of that name; asked anew each time."""
        check_namespace(db, collection)
        database = self._commands.client.get_database(db)
        seconds = self._commands.budget(Deadline.after_ms(_PATIENCE_MS))
        try:
            with Observed(db, {"listCollections": ""}) as seen:
                names = await self._commands.within(
                    seconds,
                    lambda: database.list_collection_names(
                        filter={"name": collection}, comment=seen.comment
                    ),
                )
        except DocgraphError:
            return None
        return bool(names)

    async def refuses_operator(self, name: str, kind: str, place: Place) -> bool:
        """Whether the database says that it has no such operator; asked once for each."""

        async def ask(_: tuple[str, str]) -> bool:
            probes = _PROBES[kind]
            for probe in probes:
                if not await self._is_unknown(probe(name), place):
                    return False
            return True

        return bool(await _ask(lambda: self._operators.get((kind, name), ask)))

    async def _is_unknown(self, stage: Document, place: Place) -> bool:
        pipeline: list[Document] = [{"$match": {"_id": {"$in": []}}}, stage]
        command: Document = {"aggregate": place[1], "pipeline": pipeline, "cursor": {}}
        try:
            await self._commands.fetch(place[0], command, Deadline.after_ms(_PATIENCE_MS))
        except _PASSING:
            raise
        except DocgraphError as error:
            cause = error.__cause__
            return isinstance(cause, OperationFailure) and bool(_UNKNOWN.search(str(cause)))
        return False

    async def find_refused(self, stages: Sequence[Mapping[str, Any]], place: Place) -> list[int]:
        """The numbers of those stages that the database refuses to parse; nothing is executed."""
        tried = [number for number, one in enumerate(stages) if _can_be_tried(one, place[0])]
        if not await self._refuses([stages[number] for number in tried], place):
            return []
        return [number for number in tried if await self._refuses([stages[number]], place)]

    async def _refuses(self, stages: list[Mapping[str, Any]], place: Place) -> bool:
        if not stages:
            return False
        pipeline = [{"$match": {"_id": {"$in": []}}}, *stages]
        command: Document = {"aggregate": place[1], "pipeline": pipeline, "cursor": {}}
        try:
            await self._commands.explain(place[0], command, Deadline.after_ms(_PATIENCE_MS))
        except DocgraphError as error:
            cause = error.__cause__
            if isinstance(error, _PASSING) or not isinstance(cause, OperationFailure):
                return False
            name = str((cause.details or {}).get("codeName", ""))
            return cause.code in _PARSING or name.startswith("Location")
        return False

    def forget(self) -> None:
        """Ask anew, for all collections."""
        self._counts.clear()
        self._indexes.clear()
        self._sorting.clear()

    async def close(self) -> None:
        """Give up what is being asked."""
        await close_all(self._counts, self._indexes, self._operators, self._sorting)

    async def _load_count(self, place: Place) -> int | None:
        stages: list[Document] = [{"$collStats": {"count": {}}}]
        command: Document = {"aggregate": place[1], "pipeline": stages, "cursor": {}}
        found = await self._fetch(place, command)
        return None if found is None else sum(int(one.get("count", 0)) for one in found)

    async def _load_indexes(self, place: Place) -> tuple[Index, ...] | None:
        command: Document = {"listIndexes": place[1], "cursor": {"batchSize": _MOST_INDEXES}}
        found = await self._fetch(place, command)
        return None if found is None else tuple(map(Index.read, found))

    async def _fetch(self, place: Place, command: Document) -> list[Document] | None:
        check_namespace(*place)
        if not self._commands.has_server(writing=False):
            raise unreachable()  # the request will find out by itself, and no one waits twice
        deadline = Deadline.after_ms(_PATIENCE_MS)
        consistency = _LOCAL if "aggregate" in command else None
        try:
            return await self._commands.fetch(place[0], command, deadline, consistency)
        except _PASSING:
            raise
        except DocgraphError as error:
            cause = error.__cause__
            if isinstance(cause, OperationFailure) and cause.code == _NAMESPACE_NOT_FOUND:
                return []
            return None


def _can_be_tried(stage: Mapping[str, Any], db: str) -> bool:
    try:
        check_pipeline([stage], db=db, policy=Policy(allow_cross_database=True))
    except (SecurityViolation, QueryError):
        return False
    return not has_key(stage, _NOT_TRIED)


async def _ask(load: Callable[[], Awaitable[T | None]]) -> T | None:
    """What passes soon is not remembered, and whoever asks has to do without."""
    try:
        return await load()
    except _PASSING:
        return None
