"""A stream is tried when it is written: stages that cannot work are 400, failing ones a warning."""

from __future__ import annotations

from typing import Any

import pytest

from docgraph.observe.engine_events import CommandFinished
from docgraph.rest.handlers.stream_checks import _StreamChecks
from docgraph.store import open_store
from docgraph.store.sections import AggregationSecurity, MClient
from tests.databases import new_name
from tests.guarded_mongo import GuardedMongo
from tests.http.driver import settle
from tests.http.harness import Document, Reply, listening
from tests.http.rest_harness import Api

pytestmark = pytest.mark.anyio

MERGED = {"$mergeObjects": ["$fullDocument", {"_id": "$_id", "operationType": "$operationType"}]}


async def write(api: Api, *stages: Any, path: str = "/things") -> Reply:
    return await api.put(path, {"streams": [{"uri": "s", "stages": [*stages]}]})


def warnings(reply: Reply) -> list[str]:
    assert reply.status == 200, reply.text
    return reply.json.get("_warnings", []) if reply.text else []


WRONG: list[Document] = [
    {"$match": {"fullDocument.n": {"$foo": 1}}},
    {"$set": {"x": {"$foo": "$operationType"}}},
    {"$set": {"x": {"$divide": ["$fullDocument.n"]}}},
    {"$set": {"x": {"$divide": [{"$var": "n"}]}}},
    {"$set": {"x": {"$subtract": [{"$var": "n"}, {"$var": "m"}, 1]}}},
    {"$ifvar": ["n", {"$set": {"x": {"$divide": [{"$var": "n"}]}}}]},
    {"$ifvar": ["n", {"$match": {"a": 1}}, [{"$set": {"x": {"$divide": [{"$var": "m"}]}}}]]},
]


@pytest.mark.parametrize("stage", WRONG, ids=str)
async def test_a_stage_that_the_database_cannot_run_is_400(api: Api, stage: Document) -> None:
    reply = await write(api, stage)
    assert reply.status == 400, reply.text
    assert reply.json["message"].startswith("streams[0]")
    assert (await api.get("/things/_meta")).json.get("streams") is None


USABLE: list[Document] = [
    {"$match": {"fullDocument.n": {"$in": {"$var": "list"}}}},
    {"$match": {"fullDocument.n": {"$size": {"$var": "number"}}}},
    {"$match": {"fullDocument.n": {"$regex": {"$var": "text"}}}},
    {"$match": {"fullDocument.n": {"$mod": {"$var": "pair"}}}},
    {"$match": {"fullDocument.n": {"$elemMatch": {"$var": "object"}}}},
    {"$match": {"fullDocument.at": {"$geoWithin": {"$geometry": {"$var": "area"}}}}},
    {"$match": {"$expr": {"$in": ["$fullDocument.n", {"$var": "a.list"}]}}},
    {"$set": {"fullDocument.n": {"$arrayElemAt": [{"$var": "list"}, {"$var": "number"}]}}},
    {"$set": {"fullDocument.n": {"$year": {"$var": "@now"}}}},
    {"$set": {"fullDocument.mine": {"$eq": ["$fullDocument.to", {"$var": "@user._id"}]}}},
    {
        "$match": {
            "fullDocument.a": {"$in": {"$var": "list"}},
            "fullDocument.b": {"$size": {"$var": "number"}},
            "fullDocument.c": {"$regex": {"$var": "text"}},
        }
    },
]


@pytest.mark.parametrize("stage", USABLE, ids=str)
async def test_a_variable_that_needs_a_certain_type_is_accepted(api: Api, stage: Document) -> None:
    assert warnings(await write(api, stage)) == []


CHANGING: list[list[Document]] = [
    [{"$replaceRoot": {"newRoot": "$fullDocument"}}],
    [{"$match": {"operationType": "insert"}}, {"$replaceWith": "$fullDocument"}],
    [{"$match": {"fullDocument.room": "blue"}}, {"$replaceWith": {"a": 1}}],
    [{"$match": {"fullDocument.room": {"$var": "room"}}}, {"$replaceWith": {"_id": 1}}],
    [{"$project": {"_id": "$documentKey._id", "operationType": 1}}],
    [{"$project": {"_id": {"$var": "id"}, "operationType": 1}}],
    [{"$redact": {"$cond": [{"$eq": ["$operationType", "insert"]}, "$$DESCEND", "$$PRUNE"]}}],
]


@pytest.mark.parametrize("stages", CHANGING, ids=str)
async def test_a_changed_or_missing_id_is_400(api: Api, stages: list[Document]) -> None:
    reply = await write(api, *stages)
    assert reply.status == 400, reply.text
    number = len(stages) - 1
    assert reply.json["message"] == (
        f"streams[0] 's'.stages[{number}]: changes or removes the _id of an event, its resume token"
    )
    assert "_id" in reply.json["hint"]


async def test_stages_that_leave_the_id_are_accepted(api: Api) -> None:
    kept = [{"$replaceWith": MERGED}, {"$project": {"fullDocument": 1, "operationType": 1}}]
    for stage in kept:
        assert warnings(await write(api, stage)) == []


async def test_a_stage_that_fails_for_some_events_is_a_warning(api: Api) -> None:
    size = {"$set": {"n": {"$size": {"$ifNull": ["$documentKey._ids", "$documentKey"]}}}}
    (warning,) = warnings(await write(api, {"$match": {"operationType": "delete"}}, size))
    assert warning.startswith("streams[0] 's'.stages[1]: fails for delete; ")
    stored = (await api.get("/things/_meta")).json["streams"]
    assert [one["uri"] for one in stored] == ["s"]

    # Each event is tried by itself, and those that an earlier stage left out are not.
    converted = {"$set": {"n": {"$toInt": "$operationType"}}}
    kinds = "insert, update, replace, delete, drop, rename, dropDatabase, invalidate"
    (warning,) = warnings(await write(api, converted))
    assert warning.startswith(f"streams[0] 's'.stages[0]: fails for {kinds}; ")
    chosen = {"$match": {"operationType": {"$in": ["drop", "rename"]}, "fullDocument.a": 1}}
    (warning,) = warnings(await write(api, chosen, converted))
    assert warning.startswith("streams[0] 's'.stages[1]: fails for drop, rename; ")


async def test_a_failure_that_depends_on_the_variable_is_no_warning(api: Api) -> None:
    stage = {"$set": {"n": {"$add": [1, {"$var": "n"}]}}}
    assert warnings(await write(api, stage)) == []


async def test_a_new_collection_is_created_only_with_streams_that_work(api: Api) -> None:
    assert (await write(api, WRONG[0], path="/others")).status == 400
    assert "others" not in api.mongo[api.db].list_collection_names()
    reply = await write(api, {"$replaceWith": MERGED}, path="/others")
    assert reply.status == 201, reply.text


async def test_views_and_time_series_have_no_streams(api: Api) -> None:
    db = api.mongo[api.db]
    db.command({"create": "seen", "viewOn": "things", "pipeline": []})
    db.command({"create": "measured", "timeseries": {"timeField": "at"}})
    for name in ("seen", "measured"):
        for method in ("PUT", "PATCH"):
            body = {"streams": [{"uri": "s", "stages": []}]}
            reply = await api.send(method, f"/{name}", body)
            assert reply.status == 400, reply.text
            assert reply.json["message"] == "streams: views and time series have no change streams"
        assert (await api.send("PATCH", f"/{name}", {"streams": []})).status == 200


async def test_a_stage_that_could_exhaust_the_database_is_never_run(api: Api) -> None:
    trials, place = api.service.app.store.trials, (api.db, "things")
    turns = {"input": {"$range": [0, 30_000]}, "initialValue": [], "in": ["$$value"]}
    events: list[Document] = [{"_id": {"_data": "82"}}]
    with listening(CommandFinished) as commands:
        stage = {"$set": {"a": {"$size": {"$reduce": turns}}}}
        assert await api.service.there(trials.run_over(stage, events, place)) == events
    assert [one.command for one in commands if one.collection == "things"] == []


async def test_a_missing_privilege_is_a_warning(guarded_mongo: GuardedMongo) -> None:
    """The stream may be for another instance, whose database user has the privilege."""
    db = new_name()
    privileges = [{"resource": {"db": db, "collection": ""}, "actions": ["find"]}]
    guarded_mongo.admin.admin.command("createRole", db, privileges=privileges, roles=[])
    try:
        with guarded_mongo.user([db]) as user:
            uri = guarded_mongo.render_uri(user, "secret")
            section = MClient(min_pool_size=0)
            store = open_store(section, AggregationSecurity(), connection_string=uri)
            store.connect()
            await store.available()
            (warning,) = await _StreamChecks(store.trials, db, "things").check_source()
            await settle(store.client)
            await store.close()
    finally:
        guarded_mongo.admin.admin.command("dropRole", db)
    assert warning.startswith("streams: the database opens no change stream here: ")
