"""Collection statistics: estimated counts, indexes and collations, cached for some seconds.

Callers must work without them: the result is None for views and without the database permission.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final, TypeVar

from bson.errors import BSONError
from pymongo.errors import OperationFailure

from docgraph.exchange.data import CollectionName, Consistency, Document, Stages
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import (
    DocgraphError,
    ExpressionTooLarge,
    Overloaded,
    QueryError,
    SecurityViolation,
    StoreUnavailable,
    TimeLimitExceeded,
)
from docgraph.runtime.cache import LoadingCache, close_all
from docgraph.store.driver.command import Commands
from docgraph.store.driver.errors import unreachable
from docgraph.store.driver.lenient_decode import encode_bson
from docgraph.store.driver.malformed import reading_reply
from docgraph.store.driver.stage_trials import (
    build_documents,
    build_run,
    build_run_over,
    can_be_run,
)
from docgraph.store.guard.expression_checks import check_pipeline_cost
from docgraph.store.guard.stage_checks import Policy, check_pipeline, has_key
from docgraph.store.names import check_namespace
from docgraph.store.query_plan import read_plan

CANNOT_RUN: Final = "MongoDB cannot run this"
CHECK_ARGUMENTS: Final = "compare its arguments with the reference of MongoDB"

T = TypeVar("T")

_KEPT: Final = 1_000  # collections
_TTL: Final = 10.0  # seconds
_PATIENCE_MS: Final = 2_000
_TRIAL_MS: Final = (_PATIENCE_MS, 8_000)  # a trial that is not finished is repeated with more time
_MAX_INDEXES: Final = 1_000
_TRIED_TOGETHER: Final = 500  # stages; MongoDB takes no pipeline of more than 1 000
_RUN_TOGETHER: Final = 50  # stages of one $facet
_NAMESPACE_NOT_FOUND: Final = 26
_PASSING: Final = (StoreUnavailable, TimeLimitExceeded, Overloaded)
_SHORT: Final = 1024  # bytes of a command that is its own key
_LOCAL: Final = Consistency(concern="local")

_NOT_FINISHED: Final = "not finished"

# Collations: texts are compared byte by byte, or the collection does not exist (yet).
BY_BYTES: Final = b""
MISSING: Final = b"missing"

# BadValue, FailedToParse, TypeMismatch, InvalidOptions, InvalidPipelineOperator, ConversionFailure;
# what else is wrong with a stage has a number without a name.
_PARSING: Final = frozenset({2, 9, 14, 72, 168, 241})
# These need a stage before them, another kind of command, or another product.
_NOT_TRIED: Final = frozenset({"$documents", "$meta", "$searchmeta", "$vectorsearch"})
# These have to come first; the database reports an error in them before a missing index.
_FIRST: Final = frozenset({"$geonear", "$near", "$nearsphere", "$text"})
_SEARCH: Final = frozenset({"$search"})
_TEXT: Final = frozenset({"$text"})
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
        self._operators = LoadingCache[tuple[str, str], bool](_KEPT)
        self._sorting = LoadingCache[Hashable, frozenset[str] | None](_KEPT, _TTL)

    async def count(self, db: str, collection: str) -> int | None:
        """Return the estimated number of documents; 0 if the collection does not exist."""
        return await _load_or_none(lambda: self._counts.get((db, collection), self._load_count))

    async def indexes(self, db: str, collection: str) -> tuple[Index, ...] | None:
        """Return the indexes of the collection."""
        known = self._indexes.peek((db, collection))
        if known is not None:  # as nearly always
            return known
        return await _load_or_none(lambda: self._indexes.get((db, collection), self._load_indexes))

    async def collation(
        self, db: str, collection: str, deadline: Deadline | None = None
    ) -> bytes | None:
        """Return how commands on the collection or view compare texts; None: unknown.

        Two collections compare alike if the values are equal. See `BY_BYTES` and `MISSING`. With a
        deadline, a temporary failure is tried again until then, and raises its error.
        """
        place = (db, collection)
        known = self._collations.peek(place)
        if known is None:
            load = self._load_collation
            known = await _load_or_none(lambda: self._collations.get(place, load))
            if known == MISSING:
                self._collations.invalidate(place)  # it may be created at any time
        if known is None and deadline is not None:
            known = await self._load_collation(place, deadline)
        return known

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
        if (known := self._sorting.peek(key)) is not None:
            return known

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
        except _PASSING:
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
            found = await self._commands.fetch(db, command, Deadline.after_ms(_PATIENCE_MS))
            with reading_reply():
                return [one["name"] for one in found]
        return None

    async def refuses_operator(self, name: str, kind: str, place: CollectionName) -> bool:
        """Return whether the database has no such operator; checked once for each."""

        async def try_probes(_: tuple[str, str]) -> bool:
            for probe in _PROBES[kind]:
                if not await self._is_unknown(probe(name), place):
                    return False
            return True

        return await self._operators.get((kind, name), try_probes)

    async def _is_unknown(self, stage: Document, place: CollectionName) -> bool:
        pipeline: list[Document] = [{"$match": {"_id": {"$in": []}}}, stage]
        command: Document = {"aggregate": place[1], "pipeline": pipeline, "cursor": {}}
        error = await _find_error(lambda until: self._commands.fetch(place[0], {**command}, until))
        cause = None if error is None else error.__cause__
        return isinstance(cause, OperationFailure) and bool(_UNKNOWN.search(str(cause)))

    async def find_refused(self, stages: Stages, place: CollectionName) -> list[int]:
        """Return the positions of the stages that the database rejects for every document.

        No stored document is read: stages are parsed, or run over synthetic documents. A trial that
        the database does not finish raises an error: it decides nothing.
        """
        tried = [number for number, one in enumerate(stages) if _can_be_tried(one, place[0])]
        suspected = {number for number in tried if has_key(stages[number], _FIRST)}
        usual = [number for number in tried if number not in suspected]
        for start in range(0, len(usual), _TRIED_TOGETHER):
            group = usual[start : start + _TRIED_TOGETHER]
            if await self._refuses([stages[number] for number in group], place):
                suspected.update(group)
        refused = {
            number for number in sorted(suspected) if await self._refuses([stages[number]], place)
        }
        parsed = [number for number in tried if number not in refused]
        return sorted(refused | await self._find_failing(stages, parsed, place))

    async def _refuses(self, stages: list[Mapping[str, Any]], place: CollectionName) -> bool:
        command = _build_trial(stages, place[1])
        return bool(
            await _find_fault(
                stages, lambda until: self._commands.explain(place[0], command, until)
            )
        )

    async def _find_failing(
        self, stages: Stages, numbers: Sequence[int], place: CollectionName
    ) -> set[int]:
        """Return the stages that fail with the same error for all synthetic documents."""
        run = [number for number in numbers if can_be_run(stages[number])]
        failing: set[int] = set()
        for start in range(0, len(run), _RUN_TOGETHER):
            group = run[start : start + _RUN_TOGETHER]
            if not await self._run_stages([stages[number] for number in group], {}, place):
                continue  # all of them work, as nearly always
            if await self._run_stages([], {}, place):
                break  # MongoDB before 6.0 cannot run it
            failing |= {number for number in group if await self._fails(stages[number], place)}
        return failing

    async def _fails(self, stage: Mapping[str, Any], place: CollectionName) -> bool:
        faults: set[str] = set()
        for document in build_documents(stage):
            faults.add(await self._run_stages([stage], document, place))
            if faults == {""} or len(faults) > 1:
                return False
        return True

    async def _run_stages(
        self, stages: list[Mapping[str, Any]], document: Document, place: CollectionName
    ) -> str:
        command = build_run(stages, document, place[1])
        return await _find_fault(
            stages, lambda until: self._commands.fetch(place[0], {**command}, until)
        )

    async def check_stream(self, place: CollectionName) -> None:
        """Raise the reason why the collection has no change stream; none is opened."""
        stages: list[Document] = [{"$changeStream": {}}]
        command: Document = {"aggregate": place[1], "pipeline": stages, "cursor": {}}
        await self._commands.explain(place[0], command, Deadline.after_ms(_PATIENCE_MS))

    async def can_run(self, place: CollectionName) -> bool:
        """Return whether the database can run stages over synthetic documents (MongoDB 6.0)."""
        return not await self._run_stages([], {}, place)

    async def run_over(
        self, stage: Mapping[str, Any], documents: Sequence[Document], place: CollectionName
    ) -> list[Document] | None:
        """Return the results of a stage for synthetic documents; None where it fails.

        A stage that is not safe to try returns the documents as they are.
        """
        if not _can_be_tried(stage, place[0]):
            return [*documents]
        command = build_run_over(stage, documents, place[1])
        try:
            return await _try(lambda until: self._commands.fetch(place[0], {**command}, until))
        except _PASSING:
            raise
        except DocgraphError as error:
            return None if _read_fault(error) else [*documents]

    def forget(self) -> None:
        """Clear the cache."""
        self._counts.clear()
        self._indexes.clear()
        self._collations.clear()
        self._sorting.clear()

    async def close(self) -> None:
        """Cancel the commands in progress."""
        own = (self._counts, self._indexes, self._collations, self._operators, self._sorting)
        await close_all(*own)

    async def _load_count(self, place: CollectionName) -> int | None:
        stages: list[Document] = [{"$collStats": {"count": {}}}]
        command: Document = {"aggregate": place[1], "pipeline": stages, "cursor": {}}
        found = await self._fetch(place, command)
        with reading_reply():
            return None if found is None else sum(int(one.get("count", 0)) for one in found)

    async def _load_indexes(self, place: CollectionName) -> tuple[Index, ...] | None:
        command: Document = {"listIndexes": place[1], "cursor": {"batchSize": _MAX_INDEXES}}
        found = await self._fetch(place, command)
        if found is None:
            return None
        # The index of `_id` has the collation of the collection.
        with reading_reply():
            own = next((one.get("collation") for one in found if [*one["key"]] == ["_id"]), None)
            return tuple(Index.read(one, own) for one in found)

    async def _load_collation(
        self, place: CollectionName, until: Deadline | None = None
    ) -> bytes | None:
        command: Document = {"listCollections": 1, "filter": {"name": place[1]}, "cursor": {}}
        found = await self._fetch(place, command, until)
        if not found:
            return found if found is None else MISSING
        with reading_reply():
            options: Document = found[0].get("options") or {}
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
        except _PASSING:
            raise
        except DocgraphError as error:
            cause = error.__cause__
            if isinstance(cause, OperationFailure) and cause.code == _NAMESPACE_NOT_FOUND:
                return []
            return None


def _can_be_tried(stage: Mapping[str, Any], db: str) -> bool:
    """Return whether a stage is safe to try: parsing evaluates its constants, at any cost."""
    try:
        check_pipeline([stage], db=db, policy=Policy(allow_cross_database=True))
    except (SecurityViolation, QueryError):
        return False
    if _is_too_large(stage):
        return False
    is_search = has_key(stage, _SEARCH) and not has_key(stage, _TEXT)  # which has a $search, too
    return not is_search and not has_key(stage, _NOT_TRIED)


def _is_too_large(stage: Mapping[str, Any]) -> bool:
    """Return whether its constants alone could exhaust the database, in any author's stage."""
    try:
        check_pipeline_cost([stage], "stages")
    except ExpressionTooLarge:
        return True
    except QueryError:
        return False  # an unknown operator or a wrong argument: the database rejects it unevaluated
    return False


def _build_trial(stages: list[Mapping[str, Any]], collection: str) -> Document:
    """Build a command with these stages; a `$match` that must be first is tried alone."""
    pipeline: list[Mapping[str, Any]] = [{"$match": {"_id": {"$in": []}}}, *stages]
    if has_key(stages, _FIRST):
        if "$match" in stages[0]:
            return {"find": collection, "filter": stages[0]["$match"]}  # which can have $near
        pipeline = stages
    return {"aggregate": collection, "pipeline": pipeline, "cursor": {}}


async def _try(run: Callable[[Deadline], Awaitable[T]]) -> T:
    """Return the result of a trial; one that is not finished is repeated with more time."""
    for limit in _TRIAL_MS:
        with suppress(TimeLimitExceeded):
            return await run(Deadline.after_ms(limit))
    raise Overloaded("the database did not check the definition in time")


async def _find_error(run: Callable[[Deadline], Awaitable[object]]) -> DocgraphError | None:
    """Return the error of the database in a trial; raise one that is not about its content."""
    try:
        await _try(run)
    except _PASSING:
        raise
    except DocgraphError as error:
        return error
    return None


async def _find_fault(
    stages: Sequence[object], run: Callable[[Deadline], Awaitable[object]]
) -> str:
    """Return the error of the database about stages; empty if there is none.

    Several stages that it does not finish together may have one: each of them is tried alone then.
    """
    try:
        error = await _find_error(run)
    except Overloaded:
        if len(stages) > 1:
            return _NOT_FINISHED
        raise
    return "" if error is None else _read_fault(error)


def _read_fault(error: DocgraphError) -> str:
    cause = error.__cause__
    if not isinstance(cause, OperationFailure):
        return ""
    details = cause.details or {}
    is_known = cause.code in _PARSING or str(details.get("codeName", "")).startswith("Location")
    # not `str(cause)`: that has the time of the cluster, too, so two equal errors differ
    return f"{cause.code} {details.get('errmsg')}" if is_known else ""


async def _load_or_none(load: Callable[[], Awaitable[T | None]]) -> T | None:
    """Return None after a temporary failure, without caching it."""
    try:
        return await load()
    except _PASSING:
        return None
