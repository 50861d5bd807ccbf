"""A value that a caller supplies never names a field: not when written, not when run."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.codec import escape_keys
from tests.http.harness import Document, Mongo, build_definition
from tests.http.hosts import module_application
from tests.http.rest_harness import Api, serving

pytestmark = pytest.mark.anyio

SCHEMA = "type Query { items(x: String): [Item] } type Item { v: String }"


@module_application
async def api(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    loose = {"mongo": {"aggregation-check-operators": False}}
    async with serving(mongo_client, mongo_uri, loose) as one:
        await one.service.there(one.service.app.store.available())
        assert (await one.put("/gql-apps")).status == 201
        one.things.insert_one({"_id": 1, "name": "one", "secret": "hush"})
        yield one


def namings(supplied: Document) -> tuple[list[Document], ...]:
    """Pipelines in which what is supplied would be the name of a field."""
    named = {"field": supplied, "input": "$$ROOT"}
    computed = {"$concat": ["sec", supplied]}
    let = {"vars": {"n": supplied}, "in": {"$getField": "$$n"}}
    each = {"input": [supplied], "as": "n", "in": {"$getField": "$$n"}}
    return (
        [{"$project": {"v": {"$getField": supplied}}}],
        [{"$project": {"v": {"$getField": named}}}],
        [{"$project": {"v": {"$getField": {"$literal": supplied}}}}],
        [{"$project": {"v": {"$getField": computed}}}],
        [{"$project": {"v": {"$let": let}}}],
        [{"$project": {"v": {"$map": each}}}],
        [{"$set": {"n": supplied}}, {"$project": {"v": {"$getField": "$n"}}}],
        [{"$replaceWith": {"$setField": {**named, "value": "$secret"}}}],
        [{"$replaceWith": {"$unsetField": named}}],
        [{"$match": {"$expr": {"$eq": [{"$getField": supplied}, "hush"]}}}],
        [{"$facet": {"f": [{"$group": {"_id": {"$getField": supplied}}}]}}],
        [{"$lookup": {"from": "things", "as": "c", "let": {"a": {"$getField": supplied}}}}],
        [{"$match": {"$jsonSchema": {"required": [supplied]}}}],
        [{"$match": {"$nor": [{"$jsonSchema": {"required": [supplied]}}]}}],
        [{"$project": {"v": {"$meta": supplied}}}],
        [{"$geoNear": {"near": [0, 0], "key": supplied, "distanceField": "d"}}],
        [{"$search": {"text": {"path": supplied, "query": "hush"}}}],
    )


CASES = range(len(namings({})))


@pytest.mark.parametrize("case", CASES)
async def test_an_aggregation_that_lets_callers_name_fields_is_refused(api: Api, case: int) -> None:
    for supplied in ({"$var": "x"}, {"$var": ["x", "name"]}, {"$var": "@request.path"}):
        stages = namings(supplied)[case]
        for pipeline in (stages, [{"$ifvar": ["y", stages]}]):
            body = {"aggrs": [{"uri": "a", "stages": pipeline}]}
            reply = await api.put("/things", body)
            assert (reply.status, reply.json["code"]) == (400, "invalid-definition"), reply.text
            assert "aggrs[0].stages[" in reply.json["message"]


@pytest.mark.parametrize("case", CASES)
async def test_and_is_not_run_when_it_came_another_way(api: Api, case: int) -> None:
    stages = namings({"$var": "x"})[case]
    stored = escape_keys({"aggrs": [{"uri": "a", "stages": stages}]})
    metadata = api.mongo[api.db]["_properties"]
    metadata.replace_one({"_id": "_properties.things"}, stored, upsert=True)
    reply = await api.get("/things/_aggrs/a", avars={"x": "secret"}, nocache="")
    assert (reply.status, reply.json["code"]) == (422, "invalid-aggregation"), reply.text
    assert "hush" not in reply.text


@pytest.mark.parametrize("case", CASES)
async def test_an_app_that_lets_callers_name_fields_is_refused(api: Api, case: int) -> None:
    for supplied in ({"$arg": "x"}, {"$arg": ["x", "name"]}):
        mapping = {"db": api.db, "collection": "things", "stages": namings(supplied)[case]}
        definition = build_definition("named", SCHEMA, {"Query": {"items": mapping}})
        reply = await api.post("/gql-apps", definition)
        assert reply.status == 400, reply.text
        assert "mappings.Query.items.stages[" in reply.json["message"]
        await api.service.smuggle(definition)
        answer = await api.service.query("named", '{ items(x: "secret") { v } }')
        assert answer.status == 400, answer.text
        assert "hush" not in answer.text


@pytest.mark.parametrize(
    "find",
    [
        {"$expr": {"$eq": [{"$getField": {"$arg": "x"}}, "hush"]}},
        {"$or": [{"$jsonSchema": {"required": [{"$arg": "x"}]}}]},
    ],
)
async def test_nor_does_a_find(api: Api, find: Document) -> None:
    mapping = {"db": api.db, "collection": "things", "find": find}
    definition = build_definition("named", SCHEMA, {"Query": {"items": mapping}})
    assert (await api.post("/gql-apps", definition)).status == 400


@pytest.mark.parametrize("value", ["$secret", "$$ROOT", {"$getField": "secret"}, ["$secret"]])
async def test_a_value_stays_a_value(api: Api, value: Any) -> None:
    stages = [{"$project": {"_id": 0, "v": {"$var": "x"}, "w": {"$getField": "name"}}}]
    body = {"aggrs": [{"uri": "a", "stages": stages}]}
    assert (await api.put("/things", body)).status == 200
    reply = await api.get("/things/_aggrs/a", avars={"x": value})
    assert (reply.status, reply.json) == (200, [{"v": value, "w": "one"}]), reply.text
