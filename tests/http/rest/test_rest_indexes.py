"""Indexes of a collection (rest-behaviour 5.5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.http.rest_harness import Api

pytestmark = pytest.mark.anyio


async def test_indexes_are_listed_with_their_name_as_id(api: Api) -> None:
    api.things.create_index([("a", 1), ("b", -1)], name="ab")
    reply = await api.get("/things/_indexes")

    assert reply.status == 200
    assert reply.json == [
        {"v": 2, "key": {"_id": 1}, "_id": "_id_"},
        {"v": 2, "key": {"a": 1, "b": -1}, "_id": "ab"},
    ]


async def test_put_makes_an_index_and_the_same_again_is_fine(api: Api) -> None:
    body = {"keys": {"a": 1}, "ops": {"unique": True, "name": "other", "background": True}}
    first = await api.put("/things/_indexes/by-a", body)
    again = await api.put("/things/_indexes/by-a", body)
    index = api.things.index_information()["by-a"]

    assert (first.status, first.text) == (201, "")
    assert again.status == 201
    assert index["unique"] is True
    assert index["key"] == [("a", 1)]


async def test_if_none_match_is_for_an_index_that_is_not_there(api: Api) -> None:
    only_new = {"If-None-Match": "*"}
    body = {"keys": {"a": 1}}

    first = await api.put("/things/_indexes/by-a", body, headers=only_new)
    same = await api.put("/things/_indexes/by-a", body, headers=only_new)
    other = await api.put("/things/_indexes/by-a", {"keys": {"b": 1}}, headers=only_new)
    kept = await api.delete("/things/_indexes/by-a", headers=only_new)

    assert [one.status for one in (first, same, other, kept)] == [201, 412, 412, 412]
    assert api.things.index_information()["by-a"]["key"] == [("a", 1)]
    tagged = {"If-None-Match": '"5f0f"'}  # an index has no etag
    assert (await api.put("/things/_indexes/by-a", body, headers=tagged)).status == 201


async def test_of_several_who_make_an_index_only_if_it_is_new_one_does(api: Api) -> None:
    only_new = {"If-None-Match": "*"}

    async def make() -> int:
        reply = await api.put("/things/_indexes/by-a", {"keys": {"a": 1}}, headers=only_new)
        return reply.status

    assert sorted(await asyncio.gather(*(make() for _ in range(4)))) == [201, 412, 412, 412]


async def test_the_options_reach_the_database(api: Api) -> None:
    options: dict[str, Any] = {
        "expireAfterSeconds": 60,
        "sparse": True,
        "collation": {"locale": "de", "collationStrength": 2},
    }
    reply = await api.put("/things/_indexes/all", {"keys": {"at": 1}, "ops": options})
    index = api.things.index_information()["all"]

    assert reply.status == 201, reply.text
    assert index["expireAfterSeconds"] == 60
    assert index["sparse"] is True
    assert index["collation"]["strength"] == 2
    partial = {"partialFilterExpression": {"n": {"$gt": 1}}}
    assert (
        await api.put("/things/_indexes/part", {"keys": {"n": 1}, "ops": partial})
    ).status == 201
    text = {"keys": {"t": "text"}, "ops": {"weights": {"t": 3}, "default_language": "none"}}
    assert (await api.put("/things/_indexes/text", text)).status == 201


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "keys must be a json object"),
        ({"keys": "a"}, "keys must be a json object"),
        ({"keys": {}}, "keys must be a json object"),
        ({"keys": {"a": 1}, "ops": 3}, "ops must be a json object"),
        ({"keys": {"a": 1}, "ops": {"uniqe": True}}, "the option 'uniqe' of an index is not known"),
    ],
)
async def test_what_is_no_index_is_400(api: Api, body: Any, message: str) -> None:
    reply = await api.put("/things/_indexes/x", body)

    assert (reply.status, reply.json["message"]) == (400, message)


@pytest.mark.parametrize(
    "body",
    [
        {"keys": {"a": "nonsense"}},
        {"keys": {"a": 0}},
        {"keys": {"a": 1}, "ops": {"expireAfterSeconds": "soon"}},
        {"keys": {"a": 1}, "ops": {"partialFilterExpression": {"$nor": []}}},
    ],
)
async def test_what_the_database_refuses_is_400(api: Api, body: Any) -> None:
    reply = await api.put("/things/_indexes/x", body)

    assert reply.status == 400, reply.text
    assert reply.json["message"].startswith("error creating the index")


async def test_indexes_cannot_be_changed(api: Api) -> None:
    await api.put("/things/_indexes/x", {"keys": {"a": 1}})
    reply = await api.put("/things/_indexes/x", {"keys": {"b": 1}})

    assert reply.status == 400
    assert "exists and is another one" in reply.json["message"]


async def test_a_unique_index_on_what_is_not_unique_is_400(api: Api) -> None:
    api.things.insert_many([{"a": 1}, {"a": 1}])
    reply = await api.put("/things/_indexes/x", {"keys": {"a": 1}, "ops": {"unique": True}})

    assert reply.status == 400
    assert reply.json["message"].startswith("error creating the index: duplicate key")


async def test_names_that_begin_with_an_underscore_belong_to_the_database(api: Api) -> None:
    created = await api.put("/things/_indexes/_x", {"keys": {"a": 1}})
    deleted = await api.delete("/things/_indexes/_id_")

    assert (created.status, created.json["message"]) == (400, "index name cannot start with _")
    assert deleted.status == 403
    assert deleted.json["message"] == "_id_ is a default index and cannot be deleted"


async def test_delete_removes_an_index(api: Api) -> None:
    api.things.create_index("a", name="x")
    api.things.create_index("b", name="y")
    removed = await api.delete("/things/_indexes/x")
    again = await api.delete("/things/_indexes/x")
    every = await api.delete("/things/_indexes/*")

    assert (removed.status, removed.text) == (204, "")
    assert (again.status, again.json["message"]) == (404, "index 'x' does not exist")
    assert every.status == 404
    assert set(api.things.index_information()) == {"_id_", "y"}


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/no/_indexes"), ("PUT", "/no/_indexes/x"), ("DELETE", "/no/_indexes/x")],
)
async def test_a_missing_collection_is_404_and_stays_missing(
    api: Api, method: str, path: str
) -> None:
    reply = await api.send(method, path, {"keys": {"a": 1}} if method == "PUT" else None)

    assert (reply.status, reply.json["message"]) == (404, "Collection 'no' does not exist")
    assert "no" not in api.mongo[api.db].list_collection_names()


async def test_a_view_has_no_indexes(api: Api) -> None:
    api.mongo[api.db].command("create", "seen", viewOn="things", pipeline=[])

    assert (await api.get("/seen/_indexes")).status == 400
    assert (await api.put("/seen/_indexes/x", {"keys": {"a": 1}})).status == 400


async def test_other_methods_are_405(api: Api) -> None:
    assert (await api.post("/things/_indexes", {})).status == 405
    assert (await api.get("/things/_indexes/x")).status == 405
