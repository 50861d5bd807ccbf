"""Many people with rows of their own share a cursor (decision 50), and see what `find` shows."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from random import Random
from typing import Any
from urllib.parse import quote

import bson
import orjson
import pytest

from docgraph.events import row_index as decision_sample
from docgraph.events.row_index import RowIndex
from docgraph.observe.engine_events import StreamIndexWrong, StreamSampled, StreamStageFailed
from tests.http.access_harness import ADA, ADMIN, BOB, allow, caller, guarded
from tests.http.harness import Document, Mongo, Service, listening, until
from tests.http.hosts import module_application
from tests.http.stream_harness import SSE, WEBSOCKET, StreamClient, emptied, listen, notes

pytestmark = pytest.mark.anyio

ALL = "/notes/_streams/all"
SHARE = {"$set": {"fullDocument.share": {"$divide": [1, "$fullDocument.n"]}}}
STREAMS: list[Document] = [
    {"uri": "all", "stages": []},
    {"uri": "inserts", "stages": [{"$match": {"operationType": "insert"}}]},
    {"uri": "of", "stages": [{"$match": {"fullDocument.n": {"$var": "n"}}}]},
    {"uri": "to", "stages": [{"$match": {"fullDocument.to": {"$var": "@user._id"}}}]},
    {"uri": "share", "stages": [SHARE]},
    {"uri": "kind", "stages": [{"$match": {"operationType": {"$in": ["insert", "delete"]}}}]},
    {"uri": "pattern", "stages": [{"$match": {"fullDocument.to": {"$regex": {"$var": "p"}}}}]},
]
MESSAGES = {"$or": [{"from": "@user._id"}, {"to": "@user._id"}]}


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    settings = {"events": {"max-connections-per-address": 1000}}
    async with guarded(mongo_client, mongo_uri, settings) as one:
        reply = await one.request("PUT", "/notes", headers=ADMIN, json={"streams": STREAMS})
        assert reply.status in (200, 201), reply.text
        yield one


@pytest.fixture
async def service(server: Service) -> AsyncIterator[Service]:
    await until(lambda: count_sources(server), 0)
    async with emptied(server, "notes"):
        yield server


async def count_sources(service: Service) -> int:
    return len(service.app.plugins.find("events")._hub._sources)


async def count_cursors(service: Service) -> int:
    """The change streams of the collection that the database itself knows.

    It lists those that are read before those that are idle, and misses one that changes meanwhile.
    """
    stages: list[Document] = [
        {"$currentOp": {"idleCursors": True, "allUsers": True}},
        {
            "$match": {
                "ns": f"{service.db}.notes",
                "cursor.originatingCommand.pipeline": {"$exists": True},
            }
        },
        {"$group": {"_id": "$cursor.cursorId"}},
    ]
    return len(list(service.mongo.admin.aggregate(stages)))


async def drain(client: StreamClient, last: Any) -> list[Document]:
    """Everything up to the document with that id."""
    told: list[Document] = []
    while not told or told[-1].get("documentKey") != {"_id": last}:
        told.append(await client.next())
    return told[:-1]


async def test_people_with_rows_of_their_own_share_a_cursor(service: Service) -> None:
    """The rule of the tutorial: messages to and from oneself."""
    await allow(service, "path-prefix('/notes')", "user", mongo={"readFilter": MESSAGES})
    count = 200
    async with AsyncExitStack() as stack:
        people = [
            await stack.enter_async_context(
                listen(service, ALL, caller(f"p{number}", "user"), by=(SSE, WEBSOCKET)[number % 2])
            )
            for number in range(count)
        ]
        assert await count_sources(service) == 1
        await until(lambda: count_cursors(service), 1)
        sent = [(number, (number * 7 + 1) % count) for number in range(count)]
        notes(service).insert_many(
            {"_id": number, "from": f"p{number}", "to": f"p{to}"} for number, to in sent
        )
        for number, person in enumerate(people):
            ids = [(await person.next())["documentKey"]["_id"] for _ in range(2)]
            assert ids == sorted(one for one, to in sent if number in (one, to))
        assert not any(person.events for person in people)


async def test_neither_variables_nor_formats_open_cursors(service: Service) -> None:
    """Two users with different `avars` took all connections on purpose."""
    await allow(service, "path-prefix('/notes')", "user")
    queries = [
        *(f"of?avars={quote(orjson.dumps({'n': n}))}" for n in range(20)),
        *(f"pattern?avars={quote(orjson.dumps({'p': f'^{n}'}))}" for n in range(20)),
        "to",
        "share",
        "all",
        "all?event-ids=true",
        "all?jsonMode=extended",
    ]
    async with AsyncExitStack() as stack:
        for who in (ADA, BOB):
            for query in queries:
                await stack.enter_async_context(listen(service, f"/notes/_streams/{query}", who))
        assert await count_sources(service) == 1
        await until(lambda: count_cursors(service), 1)


async def test_constant_conditions_have_a_cursor_of_their_own(service: Service) -> None:
    """The database leaves out what no client of the stream gets; with rows that is not possible."""
    await allow(service, "path-prefix('/notes')", "user")
    await allow(service, "path-prefix('/notes')", "some", mongo={"readFilter": MESSAGES})
    eve = caller("eve", "some")
    async with AsyncExitStack() as stack:
        for uri, who, cursors in (
            ("all", ADA, 1),
            ("inserts", ADA, 2),
            ("inserts", BOB, 2),
            ("kind", ADA, 3),
            ("inserts", eve, 4),  # with images, which the others do not need
            ("kind", eve, 4),
            ("all", eve, 4),
        ):
            await stack.enter_async_context(listen(service, f"/notes/_streams/{uri}", who))
            assert await count_sources(service) == cursors


async def test_a_condition_of_the_stages_sees_the_event_of_its_listener(service: Service) -> None:
    """What enters the rows of one is an insertion for that one, though it is none for others."""
    await allow(service, "path-prefix('/notes')", "user", mongo={"readFilter": MESSAGES})
    async with (
        listen(service, "/notes/_streams/kind", ADA) as ada,
        listen(service, "/notes/_streams/kind", BOB) as bob,
    ):
        notes(service).insert_one({"_id": 1, "to": "ada"})
        notes(service).update_one({"_id": 1}, {"$set": {"x": 1}})
        notes(service).update_one({"_id": 1}, {"$set": {"to": "bob"}})
        notes(service).insert_one({"_id": "last", "from": "ada", "to": "bob"})
        told = [await drain(ada, "last"), await drain(bob, "last")]
    assert [[one["operationType"] for one in some] for some in told] == [
        ["insert", "delete"],
        ["insert"],
    ]


# --- stages that fail -----------------------------------------------------------------------------


async def test_a_stage_that_fails_on_a_hidden_row_is_invisible(service: Service, by: str) -> None:
    """Decision 49: it does not even run on it, and ends nothing."""
    await allow(service, "path-prefix('/notes')", "user", mongo={"readFilter": MESSAGES})
    async with (
        listen(service, "/notes/_streams/share", ADA, by=by) as ada,
        listen(service, "/notes/_streams/share", BOB, by=by) as bob,
    ):
        with listening(StreamStageFailed) as failed:
            notes(service).insert_one({"_id": 1, "to": "bob", "n": 0})
            notes(service).insert_one({"_id": 2, "to": "ada", "n": 2})
            notes(service).insert_one({"_id": "last", "from": "ada", "to": "bob", "n": 1})
            adas, bobs = await drain(ada, "last"), await drain(bob, "last")
    assert [one["fullDocument"]["share"] for one in adas] == [0.5]
    assert [one["error"]["code"] for one in bobs] == ["stage-failed"]
    assert len(failed) == 1


async def test_the_report_of_a_stage_that_failed_has_the_id_of_its_event(service: Service) -> None:
    await allow(service, "path-prefix('/notes')", "user")
    async with listen(service, "/notes/_streams/share?event-ids=true", ADA, by=WEBSOCKET) as ada:
        notes(service).insert_one({"_id": "secret", "n": 0})
        report = await ada.next()
    assert report.keys() == {"_id", "clusterTime", "error"}
    assert "secret" not in report["error"]["message"]


# --- rows, compared with reads --------------------------------------------------------------------

FILTERS: list[Document] = [
    {"a": 1},
    {"a": {"$eq": "x"}},
    {"a": {"$in": [1, "x", True]}},
    {"b.c": 2},
    {"$or": [{"a": 1}, {"b.c": 1}]},
    {"$and": [{"a": 1}, {"b.c": {"$in": [1, 2]}}]},
    {"$or": [{"a": "x", "b.c": 1}, {"a": 2}]},
    {"a": None},
    {"a": {"$ne": 1}},
    {"a": {"$gt": 1}},
    {"a": {"$gte": "a", "$lt": "y"}},
    {"a": {"$nin": [1, 2]}},
    {"a": {"$exists": False}},
    {"a": {"$type": "string"}},
    {"a": {"$size": 2}},
    {"a": {"$all": [1, 2]}},
    {"a": {"$elemMatch": {"$gt": 1}}},
    {"a": {"$not": {"$gt": 1}}},
    {"a": {"$regex": "^x"}},
    {"a": [1, 2]},
    {"b": {"c": 1}},
    {"a.0": 1},
    {"$nor": [{"a": 1}, {"b.c": 1}]},
    {"$expr": {"$eq": ["$a", "$b.c"]}},
    {"$jsonSchema": {"required": ["a"], "properties": {"a": {"bsonType": "int"}}}},
]
VALUES: list[Any] = [
    1,
    2,
    1.0,
    "x",
    "xy",
    None,
    True,
    [1, 2],
    [2, "x"],
    [],
    {"c": 1},
    [[1], {"c": 2}],
]


def build(random: Random) -> Document:
    parts = {"a": random.choice(VALUES), "b": random.choice([{"c": random.choice(VALUES)}, 1, []])}
    return {key: value for key, value in parts.items() if random.random() < 0.8}


def write(service: Service, random: Random) -> int | None:
    """Change a document at random; return its id if it was replaced, maybe by an equal one."""
    one = {"_id": random.randrange(6)}
    match random.randrange(4):
        case 0:
            notes(service).replace_one(one, build(random), upsert=True)
            return one["_id"]
        case 1:
            notes(service).delete_one(one)
        case 2:
            notes(service).update_one(one, {"$set": build(random) or {"b": 2}})
        case _:
            notes(service).update_one(one, {"$unset": {random.choice(["a", "b", "b.c"]): 1}})
    return None


def read_rows(service: Service) -> list[dict[Any, Document]]:
    return [{one["_id"]: one for one in notes(service).find(row)} for row in FILTERS]


def compare(
    before: dict[Any, Document], after: dict[Any, Document], replaced: int | None
) -> Iterator[tuple[str, Any, Any]]:
    """What a reader computes who reads before and after a write.

    The database reports a replacement by an equal document, too.
    """
    for id in {**before, **after}:
        if id not in after:
            yield "delete", id, None
        elif (
            id not in before or id == replaced or bson.encode(before[id]) != bson.encode(after[id])
        ):
            yield ("insert" if id not in before else "update"), id, after[id]


async def test_rows_of_every_kind_come_and_go_as_reads_show_them(
    service: Service, run_seed: int
) -> None:
    for number, row in enumerate(FILTERS):
        await allow(service, "path-prefix('/notes')", f"r{number}", mongo={"readFilter": row})
    random = Random(run_seed)
    expected: list[list[tuple[str, Any, Any]]] = [[] for _ in FILTERS]
    async with AsyncExitStack() as stack:
        readers = [
            await stack.enter_async_context(listen(service, ALL, caller(f"u{n}", f"r{n}")))
            for n in range(len(FILTERS))
        ]
        assert await count_sources(service) == 1
        before = read_rows(service)
        for _ in range(150):
            replaced = write(service, random)
            after = read_rows(service)
            for changes, old, new in zip(expected, before, after, strict=True):
                changes.extend(compare(old, new, replaced))
            before = after
        for number, (reader, changes) in enumerate(zip(readers, expected, strict=True)):
            events = [await reader.next() for _ in changes]
            assert [read_event(one) for one in events] == changes, FILTERS[number]
        assert not any(reader.events for reader in readers)


def read_event(event: Document) -> tuple[str, Any, Any]:
    kind = event["operationType"].replace("replace", "update")
    return kind, event["documentKey"]["_id"], event.get("fullDocument")


# --- the sample -----------------------------------------------------------------------------------


async def test_an_index_that_decides_wrongly_is_not_used_any_more(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody gets what the database would not show, not even by the decision that was compared."""
    monkeypatch.setattr(decision_sample.DecisionSample.__init__, "__defaults__", (1,))
    monkeypatch.setattr(RowIndex, "match", lambda self, _: set(self._conditions))
    await allow(service, "path-prefix('/notes')", "user", mongo={"readFilter": MESSAGES})
    async with listen(service, ALL, ADA) as ada, listen(service, ALL, BOB) as bob:
        with listening(StreamSampled) as sampled, listening(StreamIndexWrong) as wrong:
            notes(service).insert_many([{"_id": 1, "to": "ada"}, {"_id": 2, "to": "bob"}])
            notes(service).insert_one({"_id": "last", "from": "ada", "to": "bob"})
            told = [await drain(ada, "last"), await drain(bob, "last")]
    assert [[one["documentKey"]["_id"] for one in some] for some in told] == [[1], [2]]
    assert [one.outcome for one in sampled] == ["different"]
    assert [one.collection for one in wrong] == ["notes"]


async def test_events_of_stages_that_fail_now_and_then_stay_in_order(
    service: Service, by: str
) -> None:
    """They are delivered besides the events of others, which do not wait for them."""
    await allow(service, "path-prefix('/notes')", "user", mongo={"readFilter": MESSAGES})
    numbers = [0 if n % 7 in (0, 3) else n for n in range(1, 200)]
    documents = [{"_id": place, "to": "ada", "n": n} for place, n in enumerate(numbers)]
    async with (
        listen(service, "/notes/_streams/share", ADA, by=by) as failing,
        listen(service, ALL, ADA, by=by) as plain,
    ):
        for start in (0, 60, 90):
            notes(service).insert_many(documents[start : {0: 60, 60: 90}.get(start)])
        events = [await plain.next() for _ in documents]
        shares = [await failing.next() for _ in documents]

    assert [one["documentKey"]["_id"] for one in events] == list(range(len(documents)))
    assert ["failed" if "error" in one else one["fullDocument"]["share"] for one in shares] == [
        "failed" if n == 0 else 1 / n for n in numbers
    ]
