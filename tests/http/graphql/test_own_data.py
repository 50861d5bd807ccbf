"""What docgraph keeps for itself is seen by no way: its own collections, its own properties."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.expect import present
from tests.http.harness import Document, Mongo, build_definition
from tests.http.hosts import module_application
from tests.http.rest_harness import Api, serving

pytestmark = [pytest.mark.anyio, pytest.mark.json]

RESERVED = (
    *("_properties", "_revocations", "_digestNonces", "_cursorKeys", "fs.chunks"),
    "system.profile",
)
SCHEMA = "type Query { items(x: String): [Item] } type Item { name: String }"


@module_application
async def api(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri) as one:
        await one.service.there(one.service.app.store.available())
        assert (await one.put("/gql-apps")).status == 201
        definition = app(one, {"collection": "things", "find": {}}, "known")
        posted = await one.post("/gql-apps", {**definition, "descriptor": {"uri": "secret-uri"}})
        assert posted.status == 201
        one.mongo[one.db]["_revocations"].insert_one({"_id": "ada", "name": "ada"})
        one.things.insert_one({"_id": 1, "name": "one"})
        yield one


def app(api: Api, mapping: Document, id: str = "shop") -> Document:
    return build_definition(id, SCHEMA, {"Query": {"items": {"db": api.db, **mapping}}})


def joins(name: str) -> tuple[list[Document], ...]:
    graph = {"startWith": "$a", "connectFromField": "a", "connectToField": "b", "as": "c"}
    return (
        [{"$lookup": {"from": name, "pipeline": [], "as": "c"}}],
        [{"$lookup": {"from": name, "localField": "a", "foreignField": "b", "as": "c"}}],
        [{"$unionWith": name}],
        [{"$unionWith": {"coll": name, "pipeline": [{"$limit": 1}]}}],
        [{"$graphLookup": {"from": name, **graph}}],
        [{"$facet": {"f": [{"$lookup": {"from": name, "pipeline": [], "as": "c"}}]}}],
        [{"$lookup": {"from": "things", "pipeline": [{"$unionWith": name}], "as": "c"}}],
    )


# --- our own collections --------------------------------------------------------------------------


@pytest.mark.parametrize("name", RESERVED)
async def test_an_app_does_not_map_them(api: Api, name: str) -> None:
    mappings: list[Document] = [
        {"collection": name, "find": {}},
        {"collection": name, "stages": []},
        *({"collection": "things", "stages": stages} for stages in joins(name)),
    ]
    for mapping in mappings:
        reply = await api.post("/gql-apps", app(api, mapping))
        assert reply.status == 400, reply.text
        assert "mappings.Query.items" in reply.json["message"]


@pytest.mark.parametrize("name", ["_properties", "_revocations"])
async def test_nor_when_the_definition_came_another_way(api: Api, name: str) -> None:
    for mapping in (
        {"collection": name, "find": {}},
        {"collection": name, "stages": [{"$limit": 1}]},
        {"collection": "things", "stages": joins(name)[0]},
        {"collection": "things", "stages": joins(name)[2]},
    ):
        await api.service.smuggle(app(api, mapping, "smuggled"))
        reply = await api.service.query("smuggled", "{ items { name } }")
        assert reply.status == 400, reply.text
        assert "ada" not in reply.text
    api.mongo[api.db]["gql-apps"].delete_one({"_id": "smuggled"})


@pytest.mark.parametrize("name", RESERVED)
async def test_a_stored_aggregation_does_not_join_them(api: Api, name: str) -> None:
    for stages in joins(name):
        for pipeline in (stages, [{"$ifvar": ["x", stages]}]):
            body = {"aggrs": [{"uri": "a", "stages": pipeline}]}
            reply = await api.put("/things", body)
            assert reply.status in (400, 403), reply.text
            assert "aggrs[0].stages" in reply.json["message"]


async def test_nor_when_it_came_another_way(api: Api) -> None:
    metadata = api.mongo[api.db]["_properties"]
    for stages in joins("_revocations"):
        escaped = [{f"_{name}": body for name, body in stage.items()} for stage in stages]
        aggregation = {"uri": "a", "stages": escaped}
        metadata.replace_one({"_id": "_properties.things"}, {"aggrs": [aggregation]}, upsert=True)
        reply = await api.get("/things/_aggrs/a", nocache="")
        assert reply.status in (403, 422), reply.text
        assert "ada" not in reply.text
    metadata.delete_one({"_id": "_properties.things"})


# --- our own properties ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parameters",
    [
        {"filter": {"_uris": "secret-uri"}},
        {"filter": {"_uris": {"$exists": True}}},
        {"filter": {"_uris.0": "known"}},
        {"filter": {"$or": [{"_uris": {"$regex": "^s"}}]}},
        {"filter": {"$expr": {"$in": ["secret-uri", "$_uris"]}}},
        {"sort": {"_uris": 1}},
        {"sort": "-_uris"},
        {"sort": "_uris", "after": ""},
        {"keys": {"_uris": 1}},
        {"keys": {"x": "$_uris"}},
        {"hint": {"_uris": 1}},
        {"hint": "_uris_1"},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["/gql-apps", "/gql-apps/_size", "/gql-apps/*"])
async def test_claimed_uris_cannot_be_asked_for(
    api: Api, path: str, parameters: dict[str, Any]
) -> None:
    if path == "/gql-apps" or "filter" in parameters:
        method = "DELETE" if path.endswith("*") else "GET"
        reply = await api.send(method, path, **parameters)
        assert reply.status == 403, reply.text
    assert api.mongo[api.db]["gql-apps"].count_documents({"_uris": "secret-uri"}) == 1


async def test_claimed_uris_are_in_no_answer(api: Api) -> None:
    for path in ("/gql-apps", "/gql-apps/known"):
        reply = await api.get(path)
        assert reply.status == 200
        assert "_uris" not in reply.text


@pytest.mark.parametrize("place", ["things", "gql-apps"])
async def test_claimed_uris_are_in_no_join(api: Api, place: str) -> None:
    graph = {
        "from": "gql-apps",
        "startWith": "known",
        "connectFromField": "_id",
        "connectToField": "_id",
        "as": "c",
    }
    aggrs = [
        {"uri": "lookup", "stages": joins("gql-apps")[0]},
        {"uri": "union", "stages": joins("gql-apps")[2]},
        {"uri": "graph", "stages": [{"$graphLookup": graph}]},
        {"uri": "whole", "stages": [{"$set": {"all": {"$objectToArray": "$$ROOT"}}}]},
    ]
    assert (await api.put(f"/{place}", {"aggrs": aggrs})).status == 200
    for one in aggrs:
        reply = await api.get(f"/{place}/_aggrs/{one['uri']}")
        assert reply.status == 200, reply.text
        assert "_uris" not in reply.text
        if one["uri"] in ("lookup", "union", "graph"):
            assert "secret-uri" in reply.text  # of the descriptor, which is shown


@pytest.mark.parametrize(
    "stages",
    [
        [{"$group": {"_id": "$_uris"}}],
        [{"$match": {"_uris": "secret-uri"}}],
        [{"$unwind": "$_uris"}],
    ],
)
async def test_an_aggregation_cannot_name_them(api: Api, stages: list[Document]) -> None:
    refused = await api.put("/gql-apps", {"aggrs": [{"uri": "a", "stages": stages}]})
    assert refused.status == 403
    assert "'_uris'" in refused.json["message"]
    escaped = [{f"_{name}": body for name, body in stage.items()} for stage in stages]
    stored = {"aggrs": [{"uri": "a", "stages": escaped}]}
    metadata = api.mongo[api.db]["_properties"]
    metadata.replace_one({"_id": "_properties.gql-apps"}, stored, upsert=True)
    reply = await api.get("/gql-apps/_aggrs/a", nocache="")
    assert "secret-uri" not in reply.text
    metadata.delete_one({"_id": "_properties.gql-apps"})


async def test_an_app_over_the_definitions_does_not_show_them(api: Api) -> None:
    schema = "type Query { items: [Item] } type Item { _id: String claims: [String] }"
    mappings = {
        "Query": {"items": {"db": api.db, "collection": "gql-apps", "find": {}}},
        "Item": {"claims": "_uris"},
    }
    definition = build_definition("meta", schema, mappings)
    assert (await api.post("/gql-apps", definition)).status == 400
    await api.service.smuggle(definition)
    reply = await api.service.query("meta", "{ items { _id claims } }")
    assert (await api.delete("/gql-apps/meta")).status == 204  # its own text has the name in it
    assert reply.json["data"] == {"items": None}
    assert "secret-uri" not in reply.text


async def test_definitions_are_patched_as_wholes_and_keep_their_claims(api: Api) -> None:
    reply = await api.patch("/gql-apps/known", {"descriptor.description": "x"})
    assert reply.status == 200, reply.text
    stored = present(api.mongo[api.db]["gql-apps"].find_one("known"))
    assert stored["_uris"] == ["known", "secret-uri"]
    taken = app(api, {"collection": "things", "find": {}}, "other")
    reply = await api.post("/gql-apps", {**taken, "descriptor": {"uri": "secret-uri"}})
    assert reply.status == 409
