"""App definitions through the REST API: checked however they are written (decisions 4 to 6)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.harness import Mongo
from tests.http.rest_harness import Api, serving

pytestmark = pytest.mark.anyio


@pytest.fixture
async def api(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri) as api:
        yield api


@pytest.fixture
def definitions(api: Api) -> Any:
    api.mongo[api.db].create_collection("gql-apps")
    return api.mongo[api.db]["gql-apps"]


def _definition(api: Api, id: str = "blog", **others: Any) -> dict[str, Any]:
    return {
        "_id": id,
        "schema": "type Query { things(min: Int!): [Thing] } type Thing { n: Int }",
        "mappings": {
            "Query": {
                "things": {
                    "db": api.db,
                    "collection": "things",
                    "find": {"n": {"$gte": {"$arg": "min"}}},
                }
            }
        },
        **others,
    }


async def _query(api: Api, app: str = "blog") -> Any:
    return await api.service.query(app, "{ things(min: 0) { n } }")


async def test_a_definition_serves_at_once_and_comes_back_as_it_was_written(
    api: Api, definitions: Any
) -> None:
    """Decision 6."""
    api.things.insert_one({"n": 1})

    assert (await api.post("/gql-apps", _definition(api))).status == 201

    assert (await _query(api)).data == {"things": [{"n": 1}]}
    read = (await api.get("/gql-apps/blog")).json
    assert read.pop("_etag")
    assert read == _definition(api)
    assert "_$gte" in str(definitions.find_one())


async def test_an_invalid_definition_is_never_stored(api: Api, definitions: Any) -> None:
    """Decision 4: POST, PUT, PATCH and array POST alike; an array is all or nothing."""
    assert (await api.post("/gql-apps", _definition(api))).status == 201
    broken = _definition(api, "other") | {"schema": "type Query {"}
    before = list(definitions.find())

    replies = [
        await api.post("/gql-apps", broken),
        await api.post("/gql-apps", [_definition(api, "third"), broken]),
        await api.put("/gql-apps/blog", {"schema": 1}),
        await api.put("/gql-apps/new", broken | {"_id": "new"}, wm="upsert"),
        await api.patch("/gql-apps/blog", {"schema": "type Query {"}),
        await api.patch("/gql-apps/blog", {"$unset": {"mappings": ""}}),
        await api.patch("/gql-apps/new", {"schema": "type Query {"}, wm="upsert"),
    ]

    for reply in replies:
        assert reply.status == 400, reply.text
        assert reply.json["message"].startswith("Wrong GraphQL App definition")
    assert list(definitions.find()) == before


async def test_a_patched_definition_serves_at_once(api: Api, definitions: Any) -> None:
    api.things.insert_many([{"n": 1}, {"n": 5}])
    await api.post("/gql-apps", _definition(api))

    reply = await api.patch(
        "/gql-apps/blog", {"mappings.Query.things.find": {"n": {"$gt": {"$arg": "min"}}, "m": None}}
    )

    assert reply.status == 200
    assert (await api.get("/gql-apps/blog")).json["mappings"]["Query"]["things"]["find"] == {
        "n": {"$gt": {"$arg": "min"}},
        "m": None,
    }
    assert reply.headers["etag"] == (await api.get("/gql-apps/blog")).headers["etag"]
    assert len((await _query(api)).data["things"]) == 2


async def test_a_patch_respects_the_etag(api: Api, definitions: Any) -> None:
    posted = await api.post("/gql-apps", _definition(api))
    wrong, right = {"if-match": "1" * 24}, {"if-match": posted.headers["etag"]}
    change = {"descriptor": {"enabled": False}}

    assert (await api.patch("/gql-apps/blog", change, headers=wrong)).status == 412
    assert (await api.patch("/gql-apps/blog", change, headers=right)).status == 200
    assert (await api.patch("/gql-apps/blog", change, headers=right)).status == 412
    assert (await api.patch("/gql-apps/none", change)).status == 404
    assert (await _query(api)).status == 404


async def test_patches_at_the_same_time_are_all_kept(api: Api, definitions: Any) -> None:
    await api.post("/gql-apps", _definition(api))

    replies = await asyncio.gather(
        *(api.patch("/gql-apps/blog", {f"note{n}": n}) for n in range(5))
    )

    assert [reply.status for reply in replies] == [200] * 5
    stored = definitions.find_one()
    assert [stored[f"note{n}"] for n in range(5)] == list(range(5))


async def test_one_uri_has_one_app(api: Api, definitions: Any) -> None:
    """Decision 5."""
    await api.post("/gql-apps", _definition(api))

    reply = await api.post("/gql-apps", _definition(api, "other", descriptor={"uri": "blog"}))

    assert reply.status == 409
    assert reply.json["message"] == (
        "URI collision: another GraphQL app is already accessible at /blog"
    )


async def test_bulk_patches_are_refused_before_they_change_anything(
    api: Api, definitions: Any
) -> None:
    """Decision 4: bulk PATCH is 501; bulk DELETE removes the apps."""
    await api.post("/gql-apps", [_definition(api), _definition(api, "second")])
    before = list(definitions.find())

    refused = await api.patch("/gql-apps/*", {"a": 1}, filter={"_id": "blog"})
    piped = await api.patch("/gql-apps/blog", [{"$set": {"a": 1}}])

    assert (refused.status, piped.status) == (501, 400)
    assert list(definitions.find()) == before
    assert (await api.delete("/gql-apps/*", filter={"_id": "blog"})).json["deleted"] == 1
    assert (await _query(api)).status == 404
    assert (await _query(api, "second")).status == 200


async def test_a_put_makes_an_app_and_a_delete_ends_it(api: Api, definitions: Any) -> None:
    body = {key: value for key, value in _definition(api).items() if key != "_id"}

    assert (await api.put("/gql-apps/blog", body)).status == 404
    assert (await api.put("/gql-apps/blog", body, wm="upsert")).status == 201
    assert (await _query(api)).status == 200
    assert (await api.delete("/gql-apps/blog")).status == 204
    assert (await _query(api)).status == 404
