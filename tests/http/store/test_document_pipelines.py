"""Filters and stages over documents that are sent along: bounded commands, isolated failures."""

from __future__ import annotations

import struct
from collections.abc import AsyncIterator
from typing import Any

import bson
import pytest
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient

from docgraph.exchange.errors import (
    DocgraphError,
    NotSupported,
    StoreRejected,
    StoreUnavailable,
    TimeLimitExceeded,
)
from docgraph.observe import Event
from docgraph.observe.engine_events import CommandFinished
from docgraph.store import Store, change_visibility, open_store
from docgraph.store.change_visibility import DocumentPipelines
from docgraph.store.driver.errors import StoreDenied
from docgraph.store.sections import AggregationSecurity, MClient
from tests.databases import drop
from tests.guarded_mongo import GuardedMongo
from tests.http.harness import UNREACHABLE, failing

pytestmark = pytest.mark.anyio

Sync = MongoClient[dict[str, Any]]
Document = dict[str, Any]
MIB = 1 << 20
DIVIDE: Document = {"$expr": {"$gt": [{"$divide": [1, "$n"]}, 0]}}  # fails where n is zero


@pytest.fixture(params=["$documents", "$facet"])
def pipelines(store: Store, request: pytest.FixtureRequest) -> DocumentPipelines:
    """Those of servers with `$documents`, and of servers without."""
    found = store.streams.pipelines
    found._has_documents = request.param == "$documents"
    return found


def count_commands(events: list[Event]) -> int:
    return sum(isinstance(one, CommandFinished) for one in events)


def raw(document: Document) -> RawBSONDocument:
    return RawBSONDocument(bson.encode(document))


def build_event(number: int, **parts: Any) -> Document:
    return {"_id": {"_data": f"{number:08}"}, "operationType": "insert", "n": number, **parts}


# --- filters --------------------------------------------------------------------------------------


async def test_failing_filters_are_isolated(pipelines: DocumentPipelines, database: str) -> None:
    documents = [raw({"n": n}) for n in (1, 2, 0, 3)]
    filters: list[Document] = [{"n": {"$gte": n % 4}} for n in range(300)]
    faults = {7: DIVIDE, 8: {"n": {"$unknown": 1}}, 150: {"$where": "true"}, 299: {"n\0": 1}}
    for number, filter in faults.items():
        filters[number] = filter

    found: list[Any] = await pipelines.match_documents(database, documents, filters)

    for number, result in enumerate(found):
        if number in faults:
            assert isinstance(result, DocgraphError)
        else:
            assert result == {at for at, n in enumerate((1, 2, 0, 3)) if n >= number % 4}
    assert isinstance(found[8], StoreRejected)
    assert isinstance(found[150], NotSupported)


async def test_filters_are_checked_without_documents(
    pipelines: DocumentPipelines, database: str
) -> None:
    unusable: list[Document] = [
        {"n": {"$unknown": 1}},
        {"n": {"$near": [1, 2]}},
        {"$text": {"$search": "x"}},
    ]

    found: list[Any] = await pipelines.match_documents(database, [], [{"n": 1}, DIVIDE, *unusable])

    assert found[:2] == [frozenset()] * 2
    assert all(isinstance(one, DocgraphError) for one in found[2:])


async def test_commands_are_bounded_in_count(
    pipelines: DocumentPipelines, database: str, events: list[Event]
) -> None:
    documents = [raw({"n": n}) for n in range(501)]
    filters = [{"n": n} for n in range(1001)]

    found: list[Any] = await pipelines.match_documents(database, documents, filters)

    assert found == [{n} if n < 501 else set() for n in range(1001)]
    assert count_commands(events) == 2 * 3


async def test_commands_are_bounded_in_bytes(
    pipelines: DocumentPipelines, database: str, events: list[Event]
) -> None:
    documents = [raw({"n": n, "text": "x" * (5 * MIB)}) for n in range(4)]
    long = {"n": {"$in": [2, "y" * (10 * MIB)]}}

    found: list[Any] = await pipelines.match_documents(
        database, documents, [{"n": 1}, long, {"n": 3}, long]
    )

    assert found == [{1}, {2}, {3}, {2}]
    assert count_commands(events) > 4


@pytest.mark.parametrize(
    "filter",
    [
        {"k": "v"},
        {"k": {"$gt": "a"}},
        {"$expr": {"$eq": ["$k", "v"]}},
        {"$jsonSchema": {"required": ["k"]}},
        {"a": {"$exists": True}, "$nor": [{"k": 1}]},
    ],
)
async def test_the_largest_and_deepest_documents_are_matched(
    pipelines: DocumentPipelines, database: str, mongo_client: Sync, filter: Document
) -> None:
    inner = bson.encode({})
    for _ in range(178):
        inner = struct.pack("<i", len(inner) + 8) + b"\3a\0" + inner + b"\0"
    rest = bson.encode({"k": "v"})[4:]
    deepest = struct.pack("<i", len(inner) + len(rest) + 7) + b"\3a\0" + inner + rest
    start = {"_id": 2, "a": 1, "k": "v", "text": ""}
    largest = {**start, "text": "x" * (16 * MIB - len(bson.encode(start)))}
    things = mongo_client[database].things
    things.insert_many([RawBSONDocument(deepest), raw(largest)])  # it accepts both
    stored = [RawBSONDocument(deepest), raw(largest)]

    found: list[Any] = await pipelines.match_documents(database, stored, [filter])

    assert found == [{0, 1}]


async def test_the_largest_documents_are_matched_by_large_filters(
    pipelines: DocumentPipelines, database: str
) -> None:
    start = {"k": "v", "text": "", "a": {"b": 1}}
    largest = raw({**start, "text": "x" * (16 * MIB - len(bson.encode(start)))})
    long = ["v", "y" * (1 * MIB)]
    filters: list[Document] = [
        {"k": {"$in": long}},
        {"k": {"$nin": long}},
        {"$or": [{"other": {"$in": long}}, {"a.b": 1}], "$comment": "x"},
        {"$nor": [{"text": {"$exists": True}, "$or": [{"a.b": {"$in": long}}]}], "k": "v"},
        {"text": {"$in": long}},  # that is too much for one command
        {"$expr": {"$in": ["$k", long]}},
        {"k": "v"},
    ]

    found: list[Any] = await pipelines.match_documents(database, [largest], filters)

    assert found[:3] == [{0}, set(), {0}]
    assert all(isinstance(one, DocgraphError) for one in found[3:6]), found
    assert found[6] == {0}


async def test_strings_are_compared_by_the_collation(
    pipelines: DocumentPipelines, database: str, mongo_client: Sync
) -> None:
    collation = {"locale": "en", "strength": 2}
    mongo_client[database].create_collection("things", collation=collation)
    documents = [raw({"a": "X"}), raw({"a": "x"})]
    place: Document = {"collection": "things"}

    exact: list[Any] = await pipelines.match_documents(database, documents, [{"a": "x"}], **place)
    like: list[Any] = await pipelines.match_documents(
        database, documents, [{"a": "x"}], collation=collation, **place
    )

    assert (exact, like) == ([{1}], [{0, 1}])


async def test_an_unreachable_database_is_the_fault_of_no_filter(
    pipelines: DocumentPipelines, database: str, mongo_client: Sync
) -> None:
    with failing(mongo_client, "aggregate", errorCode=UNREACHABLE):
        with pytest.raises(StoreUnavailable):
            await pipelines.match_documents(database, [raw({})], [{"a": 1}, {"a": 2}])
        with pytest.raises(StoreUnavailable):
            await pipelines.run_stages(database, [build_event(1)], [{"$match": {}}])


async def test_rights_to_one_collection_suffice(
    guarded_mongo: GuardedMongo, database: str, events: list[Event]
) -> None:
    admin = guarded_mongo.admin[database]
    resource = {"db": database, "collection": "things"}
    privileges = [{"resource": resource, "actions": ["find", "changeStream"]}]
    admin.command("createRole", "reader", privileges=privileges, roles=[])
    with guarded_mongo.user([{"role": "reader", "db": database}]) as user:
        uri = guarded_mongo.render_uri(user, "secret")
        store = open_store(MClient(min_pool_size=0), AggregationSecurity(), connection_string=uri)
        pipelines = store.streams.pipelines
        for _ in range(2):
            found: list[Any] = await pipelines.match_documents(
                database, [raw({"a": 1})], [{"a": 1}], collection="things"
            )
            assert found == [{0}]
        assert count_commands(events) == 1 + 2  # it first tries `$documents`
        assert not store.waits.denied  # and reports no missing right
        events.clear()
        with pytest.raises(StoreDenied):
            await pipelines.match_documents(database, [raw({})], [{}] * 100, collection="others")
        assert count_commands(events) == 1  # it is the fault of no filter
        assert [one.place for one in store.waits.denied] == [f"{database}.others"]
        await store.close()
    drop(guarded_mongo.admin, database)


@pytest.fixture
async def hurried(mongo_uri: str) -> AsyncIterator[Store]:
    """A store that gives each command two seconds."""
    section = MClient(min_pool_size=0, command_ceiling_ms=2000)
    store = open_store(section, AggregationSecurity(), connection_string=mongo_uri)
    yield store
    await store.close()


async def test_a_slow_filter_is_isolated(hurried: Store, database: str) -> None:
    slow = {"body": "function() { sleep(60000); return true }", "args": [], "lang": "js"}
    filters: list[Document] = [{"a": 1}, {"$expr": {"$function": slow}}]

    found: list[Any] = await hurried.streams.pipelines.match_documents(
        database, [raw({"a": 1})], filters
    )

    assert found[0] == {0}
    assert isinstance(found[1], TimeLimitExceeded)


# --- stages ---------------------------------------------------------------------------------------


async def test_stages_change_remove_and_fail_on_each_event_alone(
    pipelines: DocumentPipelines, database: str
) -> None:
    events = [build_event(n) for n in range(300)]
    stages: list[Document] = [
        {"$match": {"n": {"$ne": 7}}},
        {"$set": {"m": {"$divide": [8, {"$add": ["$n", -8]}]}}},
    ]

    results = await pipelines.run_stages(database, events, stages)

    assert results[7] is None
    assert isinstance(results[8], StoreRejected)
    for number in {*range(300)} - {7, 8}:
        assert results[number] == {**events[number], "m": 8 / (number - 8)}


@pytest.mark.parametrize(
    "stage",
    [
        {"$project": {"_id": 0}},
        {"$set": {"_id": 1}},
        {"$set": {"_id": {"_data": "00000001"}}},
        {"$replaceWith": {"n": "$n"}},
    ],
)
async def test_an_event_whose_id_is_changed_has_failed(
    pipelines: DocumentPipelines, database: str, stage: Document
) -> None:
    ((name, body),) = stage.items()
    only_some = {"$cond": [{"$eq": ["$n", 2]}, body.get("_id"), "$_id"]}
    changed = {name: {"_id": only_some}} if name == "$set" else stage

    results = await pipelines.run_stages(database, [build_event(n) for n in range(4)], [changed])

    is_failed = [isinstance(one, StoreRejected) for one in results]
    assert is_failed == ([False, False, True, False] if name == "$set" else [True] * 4)


async def test_values_are_no_expressions_and_stay_what_they_are(
    pipelines: DocumentPipelines, database: str
) -> None:
    strange = {"a": "$n", "b": {"$add": [1, 2]}, "$c": "$$ROOT", "d.e": [{"$literal": 1}], "": 1}
    undefined = RawBSONDocument(b"\x08\0\0\0\x06u\0\0")

    (result,) = await pipelines.run_stages(
        database,
        [build_event(1, fullDocument=strange, other=undefined)],
        [{"$set": {"kind": {"$type": "$other.u"}}}],
    )

    assert isinstance(result, dict)
    assert result["fullDocument"] == strange
    assert result["kind"] == "undefined"


async def test_many_and_large_events_are_divided(
    pipelines: DocumentPipelines, database: str, events: list[Event]
) -> None:
    many = [build_event(n) for n in range(1001)]
    large = [build_event(n, text="x" * (3 * MIB)) for n in range(8)]
    double = [{"$set": {"again": "$text"}}]

    assert await pipelines.run_stages(database, many, [{"$set": {"a": 1}}]) == [
        {**one, "a": 1} for one in many
    ]
    assert count_commands(events) == 3
    assert await pipelines.run_stages(database, large, double) == [
        {**one, "again": one["text"]} for one in large
    ]


async def test_an_event_that_becomes_too_large_has_failed(
    pipelines: DocumentPipelines, database: str
) -> None:
    events = [build_event(1, text="x" * (10 * MIB)), build_event(2, text="x")]

    large, small = await pipelines.run_stages(database, events, [{"$set": {"again": "$text"}}])

    assert isinstance(large, DocgraphError)
    assert small == {**events[1], "again": "x"}


async def test_servers_without_documents_are_noticed(
    store: Store, database: str, monkeypatch: pytest.MonkeyPatch, events: list[Event]
) -> None:
    pipelines = store.streams.pipelines
    (unknown,) = await pipelines.run_stages(database, [build_event(1)], [{"$unknown": 1}])
    assert isinstance(unknown, StoreRejected)
    assert pipelines._has_documents  # the author's stage was meant
    monkeypatch.setattr(change_visibility, "_DOCUMENTS", "$documentsOfLaterServers")
    events.clear()

    for _ in range(2):
        found: list[Any] = await pipelines.match_documents(database, [raw({"a": 1})], [{"a": 1}])
        assert found == [{0}]

    assert count_commands(events) == 1 + 2
