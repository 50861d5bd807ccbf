"""Etags: conditional reads, and writes of which only one can win."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from bson import ObjectId

from tests.http.harness import Mongo
from tests.http.rest_harness import Api, serving

pytestmark = pytest.mark.anyio

NOW, OTHER = ObjectId("1" * 24), "2" * 24


@pytest.mark.parametrize(
    "header",
    [str(NOW), f'"{NOW}"', f'W/"{NOW}"', f'"x", {NOW}', "*"],
)
async def test_a_known_document_is_not_sent_again(api: Api, header: str) -> None:
    api.things.insert_one({"_id": "x", "_etag": NOW})

    reply = await api.send("GET", "/things/x", headers={"if-none-match": header})

    assert (reply.status, reply.text) == (304, "")
    assert reply.headers["etag"] == str(NOW)


@pytest.mark.parametrize("header", [OTHER, '""', "nonsense"])
async def test_a_changed_document_is_sent(api: Api, header: str) -> None:
    api.things.insert_one({"_id": "x", "_etag": NOW})

    reply = await api.send("GET", "/things/x", headers={"if-none-match": header})

    assert reply.status == 200


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("header", [str(NOW), f'"{NOW}"', f'W/"{NOW}"', f"{OTHER}, {NOW}", "*"])
async def test_the_right_etag_admits_a_write(api: Api, method: str, header: str) -> None:
    api.things.insert_one({"_id": "x", "_etag": NOW})
    body = None if method == "DELETE" else {"a": 1}

    reply = await api.send(method, "/things/x", body, headers={"if-match": header})

    assert reply.status in (200, 204)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST"])
@pytest.mark.parametrize("mode", ["update", "upsert"])
async def test_a_wrong_etag_is_412_with_the_right_one(api: Api, method: str, mode: str) -> None:
    api.things.insert_one({"_id": "x", "_etag": NOW})
    body = None if method == "DELETE" else {"_id": "x", "a": 1}
    path = "/things" if method == "POST" else "/things/x"

    reply = await api.send(method, path, body, headers={"if-match": OTHER}, wm=mode)

    assert (reply.status, reply.text) == (412, "")
    assert reply.headers["etag"] == str(NOW)
    assert api.things.find_one() == {"_id": "x", "_etag": NOW}


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("PUT", "The document's ETag must be provided using the 'If-Match' header"),
        ("DELETE", "The document's ETag must be provided using the 'If-Match' header"),
        ("POST", "The document's ETag must be provided using the 'If-Match' header."),
        ("PATCH", "The ETag must be provided using the 'If-Match' header"),
    ],
)
@pytest.mark.parametrize("name", ["checkEtag", "checkETag"])
async def test_a_demanded_etag_that_is_missing_is_409(
    api: Api, method: str, message: str, name: str
) -> None:
    api.things.insert_one({"_id": "x", "_etag": NOW})
    body = None if method == "DELETE" else {"_id": "x", "a": 1}
    path = "/things" if method == "POST" else "/things/x"

    reply = await api.send(method, path, body, wm="upsert", **{name: ""})

    assert (reply.status, reply.json["message"]) == (409, message)
    assert reply.headers["etag"] == str(NOW)
    assert api.things.find_one() == {"_id": "x", "_etag": NOW}


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_a_document_without_an_etag_passes_every_check(api: Api, method: str) -> None:
    api.things.insert_one({"_id": "x"})
    body = None if method == "DELETE" else {"a": 1}

    reply = await api.send(method, "/things/x", body, headers={"if-match": OTHER}, checkEtag="true")

    assert reply.status in (200, 204)


@pytest.mark.parametrize("headers", [{}, {"if-match": OTHER}])
async def test_creating_is_never_blocked(api: Api, headers: dict[str, str]) -> None:
    for method, path in (("PUT", "/things/a"), ("PATCH", "/things/b"), ("POST", "/things")):
        reply = await api.send(method, path, {"n": 1}, headers=headers, wm="upsert", checkEtag="")

        assert reply.status == 201


async def test_a_missing_document_is_404_whatever_the_etag(api: Api) -> None:
    for method in ("PUT", "PATCH", "DELETE"):
        body = None if method == "DELETE" else {"a": 1}
        reply = await api.send(method, "/things/x", body, headers={"if-match": OTHER})

        assert reply.status == 404


@pytest.mark.parametrize(
    ("policy", "put", "delete"),
    [("REQUIRED", 409, 409), ("REQUIRED_FOR_DELETE", 200, 409), ("OPTIONAL", 200, 204)],
)
async def test_the_policy_of_the_configuration(
    mongo_client: Mongo, mongo_uri: str, policy: str, put: int, delete: int
) -> None:
    setting = {"mongo": {"etag-check-policy": {"doc": policy}}}
    async with serving(mongo_client, mongo_uri, setting) as api:
        api.things.insert_one({"_id": "x", "_etag": NOW})

        assert (await api.put("/things/x", {})).status == put
        assert (await api.delete("/things/x")).status == delete


async def test_the_policy_of_the_collection_comes_before_that_of_the_database(api: Api) -> None:
    properties = api.mongo[api.db]["_properties"]
    properties.insert_one({"_id": "_properties", "etagDocPolicy": "required"})
    api.things.insert_one({"_id": "x", "_etag": NOW})
    assert (await api.put("/things/x", {})).status == 409

    properties.insert_one({"_id": "_properties.things", "etagDocPolicy": "OPTIONAL"})

    assert (await api.put("/things/x", {}, nocache="")).status == 200


async def test_of_200_writers_with_one_etag_one_wins(api: Api) -> None:
    """Decision 41: atomic etag checks."""
    await api.post("/things", {"_id": "x", "n": 0})

    etag = str(api.things.find_one()["_etag"])
    replies = await asyncio.gather(
        *(
            api.patch("/things/x", {"by": writer, "n": 1}, headers={"if-match": etag})
            for writer in range(200)
        )
    )

    statuses = sorted(reply.status for reply in replies)
    assert statuses == [200] + [412] * 199
    winner = next(i for i, reply in enumerate(replies) if reply.status == 200)
    assert api.things.find_one()["by"] == winner


async def test_of_many_upserts_with_a_wrong_etag_none_writes(api: Api) -> None:
    api.things.insert_one({"_id": "x", "_etag": NOW})

    replies = await asyncio.gather(
        *(
            api.put("/things/x", {"n": n}, headers={"if-match": OTHER}, wm="upsert")
            for n in range(20)
        )
    )

    assert {reply.status for reply in replies} == {412}
    assert api.things.find_one() == {"_id": "x", "_etag": NOW}


async def test_of_many_inserts_of_one_id_one_wins(api: Api) -> None:
    replies = await asyncio.gather(*(api.post("/things", {"_id": "x", "n": n}) for n in range(50)))

    assert sorted(reply.status for reply in replies) == [201] + [409] * 49


@pytest.mark.parametrize(
    ("keys", "shown"),
    [
        ({"a": 1}, {"_id", "a"}),
        ({"a": True, "_id": 0}, {"a"}),
        ({"_id": 1}, {"_id"}),
        ({"_id": 1, "a": 0}, {"_id", "b", "_etag"}),
        ({"a": 1, "_etag": 1}, {"_id", "a", "_etag"}),
        ({"a": 0}, {"_id", "b", "_etag"}),
        ({"b": {"$slice": 1}}, {"_id", "a", "b", "_etag"}),
    ],
)
async def test_an_answer_of_some_keys_has_its_etag_too(
    api: Api, keys: dict[str, Any], shown: set[str]
) -> None:
    etag = ObjectId()
    api.things.insert_one({"_id": "k", "a": 1, "b": [1, 2], "_etag": etag})

    reply = await api.get("/things/k", keys=keys)
    again = await api.send("GET", "/things/k", headers={"if-none-match": str(etag)}, keys=keys)

    assert (reply.status, reply.headers["etag"], set(reply.json)) == (200, str(etag), shown)
    assert (again.status, again.text) == (304, "")
