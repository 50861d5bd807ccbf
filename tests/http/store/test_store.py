"""The operations of the store against a real MongoDB."""

from __future__ import annotations

import asyncio
import datetime
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from bson import Binary, Decimal128, Int64, ObjectId, Regex
from bson.datetime_ms import DatetimeMS
from pymongo import MongoClient

from docgraph.exchange import (
    Deadline,
    DocgraphError,
    Document,
    Exchange,
    Read,
    Request,
    Resource,
    ResourceType,
    Write,
    WriteKind,
    WriteResult,
)
from docgraph.exchange.errors import (
    AnswerTooLarge,
    Conflict,
    Forbidden,
    OutcomeUnknown,
    QueryError,
    SecurityViolation,
    StoreRejected,
    TimeLimitExceeded,
)
from docgraph.exchange.exchange import Transaction
from docgraph.observe import Event
from docgraph.observe.engine_events import CommandFinished
from docgraph.plugins.kinds import DataInterceptor
from docgraph.store import DriverClient, Store
from docgraph.store.driver.explain_recorder import recording
from docgraph.store.transaction import TryAgain
from tests.http.harness import failing, idle_cursors, profiled

pytestmark = pytest.mark.anyio

Sync = MongoClient[dict[str, Any]]
SOON = Deadline.never()
ENDLESS: list[dict[str, Any]] = [
    {"$project": {"n": {"$range": [0, 100_000]}}},
    {"$unwind": "$n"},
    {"$project": {"m": {"$range": [0, 100_000]}}},
    {"$unwind": "$m"},
    {"$match": {"m": -1}},
]


@pytest.fixture
def posts(mongo_client: Sync, database: str) -> str:
    """A collection of 50 posts."""
    mongo_client[database].posts.insert_many(
        [{"_id": n, "title": f"post {n}", "likes": n % 7} for n in range(50)]
    )
    return "posts"


def at(db: str, collection: str = "posts") -> Resource:
    return Resource(ResourceType.COLLECTION, db, collection)


# --- reading --------------------------------------------------------------------------------------


async def test_find_gives_filter_projection_sort_skip_and_limit(
    store: Store, database: str, posts: str
) -> None:
    found = await store.find(
        database,
        posts,
        {"_id": {"$gte": 10}},
        limit=2,
        deadline=SOON,
        projection={"title": 1},
        sort=[("_id", -1)],
        skip=1,
        hint={"_id": 1},
        comment={"app": "blog"},
    )

    assert found == [{"_id": 48, "title": "post 48"}, {"_id": 47, "title": "post 47"}]


async def test_a_document_that_looks_like_a_reference_is_a_document(
    store: Store, database: str, mongo_client: Sync
) -> None:
    stored = {"_id": 1, "$ref": "users", "$id": "ann", "secret": 5}
    mongo_client[database].odd.insert_one(stored)
    store.guard.hide(database, "odd", "secret")

    (found,) = await store.find(database, "odd", {}, limit=1, deadline=SOON)

    assert type(found) is dict
    assert found == {"_id": 1, "$ref": "users", "$id": "ann"}


async def test_find_one_gives_a_document_or_none(store: Store, database: str, posts: str) -> None:
    assert await store.find_one(database, posts, {"_id": 3}, deadline=SOON) == {
        "_id": 3,
        "title": "post 3",
        "likes": 3,
    }
    assert await store.find_one(database, posts, {"_id": -1}, deadline=SOON) is None


async def test_aggregate_gives_at_most_the_limit(store: Store, database: str, posts: str) -> None:
    pipeline: list[dict[str, Any]] = [
        {"$group": {"_id": "$likes", "n": {"$sum": 1}}},
        {"$sort": {"_id": 1}},
    ]

    found = await store.aggregate(database, posts, pipeline, limit=3, deadline=SOON)

    assert found == [{"_id": 0, "n": 8}, {"_id": 1, "n": 7}, {"_id": 2, "n": 7}]


async def test_count_stops_at_the_limit(store: Store, database: str, posts: str) -> None:
    assert await store.count(database, posts, {"likes": 0}, limit=100, deadline=SOON) == 8
    assert await store.count(database, posts, {}, limit=20, deadline=SOON) == 20
    assert await store.count(database, posts, {"likes": -1}, limit=20, deadline=SOON) == 0


@pytest.mark.parametrize("limit", [0, -1, 1 << 31, True, 1.0, None])
async def test_read_without_a_limit_cannot_be_expressed(store: Store, limit: Any) -> None:
    with pytest.raises(QueryError, match="limit"):
        await store.find("blog", "posts", {}, limit=limit, deadline=SOON)
    with pytest.raises(QueryError, match="limit"):
        await store.aggregate("blog", "posts", [], limit=limit, deadline=SOON)


async def test_read_of_a_thousand_documents_is_one_command(
    store: Store, database: str, mongo_client: Sync
) -> None:
    mongo_client[database].many.insert_many([{"_id": n} for n in range(1500)])

    with profiled(mongo_client, database, "many") as seen:
        found = await store.find(database, "many", {}, limit=1000, deadline=SOON)
        grouped = await store.aggregate(database, "many", [], limit=1000, deadline=SOON)

    assert len(found) == len(grouped) == 1000
    assert [one["op"] for one in seen] == ["query", "command"]


async def test_answer_of_more_than_one_batch_is_complete(
    store: Store, database: str, mongo_client: Sync
) -> None:
    big = "x" * (1 << 20)
    for n in range(20):
        mongo_client[database].big.insert_one({"_id": n, "text": big})

    found = await store.find(database, "big", {}, limit=100, deadline=SOON, sort={"_id": 1})
    aggregated = await store.aggregate(database, "big", [], limit=100, deadline=SOON)

    assert [document["_id"] for document in found] == list(range(20))
    assert len(aggregated) == 20
    assert idle_cursors(mongo_client, f"{database}.big") == []


@pytest.mark.parametrize("is_fast", [True, False], ids=["fast path", "driver"])
async def test_long_answer_is_taken_in_portions_and_its_cursor_closed(
    store: Store, database: str, mongo_client: Sync, is_fast: bool
) -> None:
    if not is_fast:
        store._commands._fast_path = None
    big = "x" * (1 << 20)
    for n in range(20):
        mongo_client[database].big.insert_one({"_id": n, "text": big})
    portions: list[list[int]] = []

    async def take(documents: list[Document]) -> None:
        portions.append([document["_id"] for document in documents])

    returned = await store.find(
        database, "big", {}, limit=100, deadline=SOON, sort={"_id": 1}, take=take
    )

    assert returned == []
    assert [id for portion in portions for id in portion] == list(range(20))
    assert max(len(portion) for portion in portions) <= 2
    assert idle_cursors(mongo_client, f"{database}.big") == []


async def test_cursor_is_closed_when_the_taker_has_enough(
    store: Store, database: str, mongo_client: Sync
) -> None:
    big = "x" * (1 << 20)
    for n in range(20):
        mongo_client[database].big.insert_one({"_id": n, "text": big})

    async def reject(documents: list[Document]) -> None:
        raise AnswerTooLarge("enough")

    with pytest.raises(AnswerTooLarge, match="enough"):
        await store.find(database, "big", {}, limit=100, deadline=SOON, take=reject)

    assert idle_cursors(mongo_client, f"{database}.big") == []


async def test_answer_that_would_fill_the_memory_is_refused_while_it_is_read(
    store: Store, database: str, mongo_client: Sync
) -> None:
    big = "x" * (1 << 20)
    for n in range(40):
        mongo_client[database].big.insert_one({"_id": n, "text": big})

    with pytest.raises(StoreRejected, match="exceeds 32 MiB") as caught:
        await store.find(database, "big", {}, limit=100, deadline=SOON)

    assert caught.value.hint == "ask for fewer documents, or for less of each"
    assert idle_cursors(mongo_client, f"{database}.big") == []


async def test_values_keep_their_bson_type(store: Store, database: str, mongo_client: Sync) -> None:
    stored: dict[str, Any] = {
        "_id": ObjectId(),
        "long": Int64(5),
        "int": 5,
        "decimal": Decimal128("1.10"),
        "date": datetime.datetime(2024, 1, 2, 3, 4, 5, 678000),
        "far": DatetimeMS(1 << 52),
        "uuid": Binary.from_uuid(uuid.UUID(int=7)),
        "regex": Regex("^a", "i"),
        "nested": {"list": [Int64(1), 2]},
    }
    mongo_client[database].typed.insert_one(stored)

    found = await store.find_one(database, "typed", {}, deadline=SOON)

    assert found == stored
    assert type(found["long"]) is Int64
    assert type(found["int"]) is int
    assert type(found["uuid"]) is Binary
    assert type(found["far"]) is DatetimeMS
    assert found["date"].tzinfo is None


async def test_mistake_in_a_query_is_told_without_text_of_the_database(
    store: Store, database: str, posts: str
) -> None:
    with pytest.raises(StoreRejected) as caught:
        await store.find(database, posts, {"$nonsense": 1}, limit=1, deadline=SOON)

    assert "nonsense" not in caught.value.message
    assert "nonsense" in str(caught.value.__cause__)


@pytest.mark.parametrize("value", [1 << 70, "\ud800", {"a\0b": 1}, object()])
async def test_value_that_is_no_bson_is_the_callers_mistake(
    store: Store, database: str, value: Any
) -> None:
    with pytest.raises(QueryError):
        await store.find(database, "posts", {"a": value}, limit=1, deadline=SOON)


async def test_document_nested_too_deeply_is_the_callers_mistake(
    store: Store, database: str
) -> None:
    value: dict[str, Any] = {}
    for _ in range(300):
        value = {"a": value}

    with pytest.raises((QueryError, StoreRejected)):
        await store.find(database, "posts", value, limit=1, deadline=SOON)


@pytest.mark.parametrize(
    ("db", "collection"), [("admin", "x"), ("local", "oplog.rs"), ("blog", "system.users")]
)
async def test_what_belongs_to_the_server_is_closed(store: Store, db: str, collection: str) -> None:
    """Decision 20a."""
    write = Write(WriteKind.DELETE, many=True)

    with pytest.raises(SecurityViolation):
        await store.find(db, collection, {}, limit=1, deadline=SOON)
    with pytest.raises(SecurityViolation):
        await store.aggregate(db, collection, [], limit=1, deadline=SOON)
    with pytest.raises(SecurityViolation):
        await store.count(db, collection, {}, limit=1, deadline=SOON)
    with pytest.raises(SecurityViolation):
        await store.write(at(db, collection), write, deadline=SOON)
    with pytest.raises(SecurityViolation):
        store.streams.watch(db, collection, [])


async def test_checks_are_part_of_every_operation(store: Store, database: str) -> None:
    """Decision 20a: inside every store call."""
    code: dict[str, Any] = {"$where": "true"}
    expression = {"x": {"$function": {"body": "", "args": [], "lang": "js"}}}

    with pytest.raises(SecurityViolation):
        await store.find(database, "posts", code, limit=1, deadline=SOON)
    with pytest.raises(SecurityViolation):
        await store.find(
            database, "posts", {}, limit=1, deadline=SOON, rows={f"{database}.posts": code}
        )
    with pytest.raises(SecurityViolation):
        await store.find(database, "posts", {}, limit=1, deadline=SOON, projection=expression)
    with pytest.raises(SecurityViolation):
        await store.count(database, "posts", code, limit=1, deadline=SOON)
    with pytest.raises(SecurityViolation):
        await store.aggregate(database, "posts", [{"$out": "x"}], limit=1, deadline=SOON)
    with pytest.raises(SecurityViolation):
        await store.write(at(database), Write(WriteKind.DELETE, filter=code), deadline=SOON)
    with pytest.raises(SecurityViolation):
        await store.write(
            at(database),
            Write(WriteKind.UPDATE, pipeline=({"$lookup": {"from": "x", "as": "y"}},)),
            deadline=SOON,
        )
    with pytest.raises(SecurityViolation):
        store.streams.watch(database, "posts", [{"$unionWith": "users"}])


@contextmanager
def fail_command(
    client: Sync, namespace: str, command: str, *, block_ms: int = 0, **data: Any
) -> Iterator[None]:
    """Let that command on that collection fail, or wait, in the server."""
    if block_ms:
        data |= {"blockConnection": True, "blockTimeMS": block_ms}
    mode = {"times": data.pop("times", 1)}
    with failing(client, command, mode=mode, namespace=namespace, **data):
        yield


# --- time -----------------------------------------------------------------------------------------


async def test_read_ends_with_its_deadline(store: Store, database: str, posts: str) -> None:
    """Decision 25."""
    with pytest.raises(TimeLimitExceeded):
        await store.aggregate(database, posts, ENDLESS, limit=1, deadline=Deadline.after_ms(200))


async def test_deadline_that_is_past_sends_no_command(
    store: Store, database: str, events: list[Event]
) -> None:
    past = Deadline(at=time.monotonic(), limit_ms=1)

    with pytest.raises(TimeLimitExceeded):
        await store.find(database, "posts", {}, limit=1, deadline=past)

    assert [event.error for event in events if isinstance(event, CommandFinished)] == [
        "time-limit-exceeded"
    ]


async def test_ceiling_ends_a_read_without_deadline(
    client: DriverClient, database: str, posts: str
) -> None:
    """Decision 25: `mclient.command-ceiling-ms` per command."""
    store = Store(client, ceiling_ms=200)

    with pytest.raises(TimeLimitExceeded):
        await store.aggregate(database, posts, ENDLESS, limit=1, deadline=Deadline.never())


async def test_reads_that_are_recorded_end_with_the_same_ceiling(
    client: DriverClient, database: str, posts: str
) -> None:
    store = Store(client, ceiling_ms=200)

    async with recording(store):
        with pytest.raises(TimeLimitExceeded):
            await store.aggregate(database, posts, ENDLESS, limit=1, deadline=Deadline.never())


async def test_cancelled_read_ends_on_the_server_too(
    store: Store, database: str, posts: str, mongo_client: Sync
) -> None:
    read = asyncio.create_task(
        store.aggregate(
            database, posts, ENDLESS, limit=1, deadline=SOON, comment={"request": database}
        )
    )
    await _until(lambda: _running(mongo_client, database) == 1)

    read.cancel()
    with pytest.raises(asyncio.CancelledError):
        await read

    await _until(lambda: _running(mongo_client, database) == 0)


async def test_write_ends_with_its_deadline(
    store: Store, database: str, posts: str, mongo_client: Sync
) -> None:
    write = Write(WriteKind.UPDATE, update={"$set": {"x": 1}}, filter={"_id": 1})
    await store.ping(30)

    with (
        fail_command(mongo_client, f"{database}.posts", "update", block_ms=600),
        pytest.raises(OutcomeUnknown),
    ):
        await store.write(at(database), write, deadline=Deadline.after_ms(200))


def _running(client: Sync, request: str) -> int:
    found = client.admin.command({"currentOp": 1, "command.comment.request": request})
    return len(found["inprog"])


async def _until(condition: Any) -> None:
    async with asyncio.timeout(30):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110 - the server's state
            await asyncio.sleep(0.01)


async def test_command_is_observed_with_its_origin(
    store: Store, database: str, posts: str, events: list[Event]
) -> None:
    comment = {"app": "blog", "operation": "Posts", "field": "Query.posts", "request": "r1"}

    await store.find(database, posts, {}, limit=1, deadline=SOON, comment=comment)

    (event,) = (event for event in events if isinstance(event, CommandFinished))
    assert (event.command, event.db, event.collection) == ("find", database, posts)
    assert (event.app, event.operation, event.field, event.request_id) == (
        "blog",
        "Posts",
        "Query.posts",
        "r1",
    )
    assert event.ok
    assert event.duration > 0


# --- writing --------------------------------------------------------------------------------------


async def test_insert_gives_ids_and_leaves_the_callers_document_alone(
    store: Store, database: str, mongo_client: Sync
) -> None:
    document = {"title": "new"}

    result = await store.write(
        at(database), Write(WriteKind.INSERT, (document,)), deadline=SOON, majority=True
    )

    (id,) = result.inserted
    assert isinstance(id, ObjectId)
    assert document == {"title": "new"}
    assert mongo_client[database].posts.find_one() == {"_id": id, "title": "new"}


async def test_insert_of_an_existing_id_is_a_conflict(
    store: Store, database: str, posts: str
) -> None:
    with pytest.raises(Conflict, match="duplicate key"):
        await store.write(at(database), Write(WriteKind.INSERT, ({"_id": 1},)), deadline=SOON)


@pytest.mark.parametrize(("ordered", "inserted"), [(True, (100,)), (False, (100, 101))])
async def test_insert_of_many_tells_failures_by_position(
    store: Store, database: str, posts: str, ordered: bool, inserted: tuple[int, ...]
) -> None:
    documents = ({"_id": 100}, {"_id": 1}, {"_id": 101})

    result = await store.write(
        at(database), Write(WriteKind.INSERT, documents, ordered=ordered), deadline=SOON
    )

    assert result.inserted == inserted
    (failure,) = result.failures
    assert (failure.index, failure.status, failure.code) == (1, 409, 11000)
    assert failure.message.startswith("duplicate key")


async def test_replace_update_and_delete(
    store: Store, database: str, posts: str, mongo_client: Sync
) -> None:
    collection = mongo_client[database][posts]

    async def run(kind: WriteKind, **parts: Any) -> Any:
        return await store.write(at(database), Write(kind, **parts), deadline=SOON)

    replaced = await run(WriteKind.REPLACE, documents=({"_id": 1, "x": 1},))
    upserted = await run(WriteKind.REPLACE, documents=({"_id": 99, "x": 1},), upsert=True)
    several = await run(
        WriteKind.REPLACE, documents=({"_id": 2, "x": 1}, {"_id": 98, "x": 1}), upsert=True
    )
    one = await run(WriteKind.UPDATE, filter={"likes": 3}, update={"$set": {"x": 1}})
    many = await run(WriteKind.UPDATE, filter={"likes": 4}, update={"$set": {"x": 1}}, many=True)
    piped = await run(
        WriteKind.UPDATE, filter={"_id": 0}, pipeline=({"$set": {"t": {"$toUpper": "$title"}}},)
    )
    deleted = await run(WriteKind.DELETE, filter={"x": 1}, many=True)

    assert (replaced.matched, replaced.modified, replaced.upserted) == (1, 1, ())
    assert upserted.upserted == (99,)
    assert (several.matched, several.upserted) == (1, (98,))
    assert one.modified == piped.modified == 1
    assert many.modified == 7
    assert deleted.deleted == 12
    assert collection.find_one({"_id": 0}) == {
        "_id": 0,
        "title": "post 0",
        "likes": 0,
        "t": "POST 0",
    }


@pytest.mark.parametrize(
    "write",
    [
        Write(WriteKind.INSERT),
        Write(WriteKind.REPLACE),
        Write(WriteKind.REPLACE, ({"x": 1},)),
        Write(WriteKind.REPLACE, ({"_id": 1}, {"x": 1})),
        Write(WriteKind.UPDATE),
        Write(WriteKind.UPDATE, update={"x": 1}),
        Write(WriteKind.INSERT, ({"x": 1 << 70},)),
    ],
)
async def test_write_that_makes_no_sense_is_the_callers_mistake(
    store: Store, database: str, write: Write
) -> None:
    with pytest.raises(QueryError):
        await store.write(at(database), write, deadline=SOON)


# --- interceptors ---------------------------------------------------------------------------------


class _Spy(DataInterceptor):
    def __init__(self, change: Any, priority: int = 10) -> None:
        self.priority = priority  # type: ignore[misc]
        self.change = change

    def resolve(self, resource: Resource) -> bool:
        return resource.collection == "posts"


class _BeforeWrite(_Spy):
    name: ClassVar[str] = "before write"

    async def before_write(self, exchange: Any, resource: Resource, write: Write) -> Write:
        changed: Write = self.change(write)
        return changed


class _AfterWrite(_Spy):
    name: ClassVar[str] = "after write"

    async def after_write(
        self, exchange: Any, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        changed: WriteResult = self.change(write, result)
        return changed


class _AroundRead(_Spy):
    name: ClassVar[str] = "around read"

    async def before_read(self, exchange: Any, resource: Resource, read: Read) -> Read:
        changed: Read = self.change(read)
        return changed

    async def after_read(
        self, exchange: Any, resource: Resource, documents: list[Document]
    ) -> list[Document]:
        return [{**one, "read": True} for one in documents]


async def test_interceptors_change_writes_and_see_their_results(
    store: Store, database: str, mongo_client: Sync
) -> None:
    def stamp(write: Write) -> Write:
        return replace(write, documents=tuple({**one, "seen": 1} for one in write.documents))

    def double(write: Write) -> Write:
        return replace(
            write, documents=tuple({**one, "seen": one["seen"] * 2} for one in write.documents)
        )

    def warn(write: Write, result: WriteResult) -> WriteResult:
        return replace(result, warnings=(f"{len(write.documents)} written",))

    store.interceptors.install(
        [
            _BeforeWrite(double, priority=20),
            _BeforeWrite(stamp, priority=10),
            _AfterWrite(warn),
        ]
    )
    write = Write(WriteKind.INSERT, ({"_id": 1},))

    result = await store.write(at(database), write, deadline=SOON)
    await store.write(at(database, "others"), write, deadline=SOON)

    assert result.warnings == ("1 written",)
    assert mongo_client[database].posts.find_one() == {"_id": 1, "seen": 2}
    assert mongo_client[database].others.find_one() == {"_id": 1}


async def test_only_the_attempt_that_was_committed_is_told_of(
    store: Store, database: str, mongo_client: Sync
) -> None:
    """A transaction that is tried again: the writes of its other attempts were never stored."""
    told: list[Any] = []
    written: list[str] = []

    def hear(write: Write, result: WriteResult) -> WriteResult:
        told.extend(one["_id"] for one in write.documents)
        return result

    store.interceptors.install([_AfterWrite(hear)])
    store.writes.on_written = written.extend
    mongo_client[database].create_collection("posts")
    mongo_client[database].create_collection("others")
    attempts = 0

    async def work(transaction: Transaction) -> None:
        nonlocal attempts
        attempts += 1
        exchange = Exchange(Request("POST", b"/_batch"), "1")
        exchange.transaction = transaction
        names = ("posts", "others") if attempts < 3 else ("posts",)
        for name in names:
            write = Write(WriteKind.INSERT, ({"_id": attempts},))
            await store.write(at(database, name), write, deadline=SOON, exchange=exchange)
        if attempts < 3:
            raise TryAgain("as after a conflict")

    await store.writes.transact(work, deadline=SOON)

    assert told == [3]
    assert written == [f"{database}.posts"]
    assert [one["_id"] for one in mongo_client[database].posts.find()] == [3]


@pytest.mark.parametrize(
    "fault", [None, {"errorCode": 50}, {"closeConnection": True}], ids=["no fault", "error", "lost"]
)
async def test_caches_hear_of_every_write_that_may_have_been_applied(
    store: Store, database: str, mongo_client: Sync, fault: dict[str, Any] | None
) -> None:
    """Also of one that failed: what was cached before it may be wrong."""
    written: list[str] = []
    store.writes.on_written = written.extend
    write = Write(WriteKind.UPDATE, filter={}, update={"$set": {"a": 1}}, many=True)

    if fault is None:
        await store.write(at(database), write, deadline=SOON)
    else:
        own = {**fault, "namespace": f"{database}.posts"}
        with failing(mongo_client, "update", **own), pytest.raises(DocgraphError):
            await store.write(at(database), write, deadline=SOON)

    assert written == [f"{database}.posts"]


async def test_interceptor_that_refuses_keeps_the_write_from_happening(
    store: Store, database: str, mongo_client: Sync
) -> None:
    def reject(write: Write) -> Write:
        raise Forbidden("not today")

    store.interceptors.install([_BeforeWrite(reject)])

    with pytest.raises(Forbidden):
        await store.write(at(database), Write(WriteKind.INSERT, ({"_id": 1},)), deadline=SOON)

    assert mongo_client[database].posts.count_documents({}) == 0


async def test_interceptors_change_reads_and_their_documents(
    store: Store, database: str, posts: str
) -> None:
    store.interceptors.install(
        [_AroundRead(lambda read: replace(read, limit=2, projection={"_id": 1}))]
    )

    found = await store.reads.read(at(database), Read(sort=[("_id", 1)]), deadline=SOON)

    assert found == [{"_id": 0, "read": True}, {"_id": 1, "read": True}]


# --- indexes --------------------------------------------------------------------------------------


async def test_an_index_is_ensured_as_often_as_one_likes(
    store: Store, database: str, posts: str, mongo_client: Sync
) -> None:
    for _ in range(2):
        await store.writes.ensure_index(
            database, posts, {"title": 1, "likes": -1}, unique=True, deadline=SOON
        )

    index = mongo_client[database][posts].index_information()["title_1_likes_-1"]
    assert index["key"] == [("title", 1), ("likes", -1)]
    assert index["unique"] is True


async def test_an_index_makes_its_collection_only_where_it_may(
    store: Store, database: str, mongo_client: Sync
) -> None:
    await store.writes.ensure_index(database, "new", {"a": 1}, create=False, deadline=SOON)
    assert "new" not in mongo_client[database].list_collection_names()

    await store.writes.ensure_index(database, "new", {"a": 1}, deadline=SOON)
    await store.writes.ensure_index(database, "new", {"b": 1}, create=False, deadline=SOON)
    assert set(mongo_client[database]["new"].index_information()) == {"_id_", "a_1", "b_1"}


async def test_an_index_that_takes_too_long_ends_with_its_deadline(
    store: Store, database: str, posts: str, mongo_client: Sync
) -> None:
    await store.ping(30)

    with (
        fail_command(mongo_client, f"{database}.posts", "createIndexes", block_ms=600),
        pytest.raises(TimeLimitExceeded),
    ):
        await store.writes.ensure_index(
            database, posts, {"likes": 1}, deadline=Deadline.after_ms(50)
        )


# --- watching -------------------------------------------------------------------------------------


async def test_watch_tells_changes_in_order_and_resumes(
    store: Store, database: str, posts: str, mongo_client: Sync
) -> None:
    collection = mongo_client[database][posts]
    async with store.streams.watch(database, posts) as events:
        collection.insert_one({"_id": 100})
        collection.update_one({"_id": 100}, {"$set": {"x": 1}})
        first = await anext(events)
        token = first["_id"]

    async with store.streams.watch(database, posts, resume_after=token) as events:
        second = await anext(events)

    assert (first["operationType"], first["fullDocument"]) == ("insert", {"_id": 100})
    assert (second["operationType"], second["fullDocument"]) == ("update", {"_id": 100, "x": 1})
    assert events.resume_token is not None


async def test_watch_from_a_bad_token_is_the_callers_mistake(store: Store, database: str) -> None:
    events = store.streams.watch(database, "posts", resume_after={"_data": "82"})

    with pytest.raises(StoreRejected):
        await events.open()


async def test_database_that_answers_is_available(opened: Store) -> None:
    await opened.ping(30)
    async with asyncio.timeout(30):
        await opened.available()

    assert opened.is_available
