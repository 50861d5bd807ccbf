"""Etags: conditional reads, and writes of which only one can win."""

from __future__ import annotations

import asyncio
from datetime import datetime
from typing import Any

import pytest
from bson import Int64, ObjectId, Regex

from tests.databases import drop
from tests.http.harness import Mongo, Reply
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

    demand: dict[str, Any] = {name: ""}
    reply = await api.send(method, path, body, wm="upsert", **demand)

    assert (reply.status, reply.json["message"]) == (409, message)
    assert reply.headers["etag"] == str(NOW)
    assert api.things.find_one() == {"_id": "x", "_etag": NOW}


@pytest.mark.parametrize("mode", ["update", "upsert"])
@pytest.mark.parametrize("stored", [{}, {"_etag": None}], ids=["none", "null"])
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "POST"])
async def test_an_etag_is_412_for_a_document_that_has_none(
    api: Api, method: str, stored: dict[str, Any], mode: str
) -> None:
    """Decision 47: whoever wrote it by other means has changed what the caller knew."""
    api.things.insert_one({"_id": "x", **stored})
    body = None if method == "DELETE" else {"_id": "x", "a": 1}
    path = "/things" if method == "POST" else "/things/x"

    reply = await api.send(method, path, body, headers={"if-match": OTHER}, wm=mode)

    assert (reply.status, reply.text) == (412, "")
    assert api.things.find_one() == {"_id": "x", **stored}


_NO_ETAGS = [5, 5.5, Int64(5), True, ["5"], [None], [], {"a": 1}, None, Regex("5"), datetime.max]
_WRITES = [
    ("PUT", "/things/x"),
    ("PATCH", "/things/x"),
    ("DELETE", "/things/x"),
    ("PATCH", '/things/*?filter={"_id":"x"}'),
    ("DELETE", '/things/*?filter={"_id":"x"}'),
]


@pytest.mark.parametrize(
    ("method", "path", "has_schema"),
    [
        ("GET", "/things/x", False),
        *((*write, False) for write in _WRITES),
        ("PATCH", "/things/x", True),
    ],
)
async def test_a_value_that_is_no_etag_is_412_whatever_is_given(
    api: Api, method: str, path: str, has_schema: bool
) -> None:
    """Decision 47: an etag is an ObjectId or a text; other values match no tag."""
    if has_schema:
        assert (await api.put("/_schemas", {})).status == 201
        assert (await api.post("/_schemas", {"_id": "any", "type": "object"})).status == 201
        assert (await api.put("/things", {"jsonSchema": {"schemaId": "any"}})).status == 200
    body = None if method in ("GET", "DELETE") else {"a": 1}
    for value in _NO_ETAGS:
        api.things.delete_many({})
        api.things.insert_one({"_id": "x", "_etag": value})
        stored = api.things.find_one()
        for given in {"5", "x", str(value)} - {""}:
            reply = await api.send(method, path, body, headers={"if-match": f'"{given}"'})

            assert (reply.status, reply.text) == (412, ""), (value, given)
            assert api.things.find_one() == stored
        reply = await api.send(method, path, body, headers={"if-none-match": f'"{value}"'})
        assert reply.status in (200, 204), value
    api.things.delete_many({})
    api.things.insert_one({"_id": "x", "_etag": "5"})
    assert (await api.send(method, path, body, headers={"if-match": "5"})).status in (200, 204)


async def test_an_array_of_documents_tells_which_has_another_etag(api: Api) -> None:
    """Decision 47: the values that are no etags among them."""
    values = [*_NO_ETAGS, "5"]
    api.things.insert_many({"_id": n, "_etag": value} for n, value in enumerate(values))

    bodies = [{"_id": n, "a": 1} for n in range(len(values))]
    reply = await api.post("/things", bodies, headers={"if-match": "5"}, wm="update")

    assert reply.status == 207
    statuses = [one["httpStatus"] for one in reply.json["results"]]
    assert statuses == [412] * len(_NO_ETAGS) + [200]


@pytest.mark.parametrize(
    ("header", "keys", "status"),
    [
        (str(NOW), None, 200),
        (str(NOW), {"_etag": 0}, 200),
        (str(NOW), {"a": 1}, 200),
        ("*", None, 200),
        (OTHER, None, 412),
        (OTHER, {"_etag": 0}, 412),
    ],
)
async def test_a_document_is_read_only_with_the_etag_that_is_demanded(
    api: Api, header: str, keys: Any, status: int
) -> None:
    """Decision 47: as RFC 9110 has it, of every method."""
    api.things.insert_one({"_id": "x", "_etag": NOW, "a": 1})

    query = {} if keys is None else {"keys": keys}
    reply = await api.send("GET", "/things/x", headers={"if-match": header}, **query)

    assert reply.status == status


@pytest.mark.parametrize("headers", [{}, {"if-match": "*"}], ids=["without", "any"])
@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_a_document_without_an_etag_is_written_without_one(
    api: Api, method: str, headers: dict[str, str]
) -> None:
    """Decision 47: also where the request or the policy demands etags."""
    api.things.insert_one({"_id": "x"})
    body = None if method == "DELETE" else {"a": 1}

    reply = await api.send(method, "/things/x", body, headers=headers, checkEtag="true")

    assert reply.status in (200, 204)


@pytest.mark.parametrize("headers", [{"if-match": OTHER}, {"if-match": "*"}, {}])
async def test_a_patch_that_is_checked_as_a_whole_compares_the_same(
    api: Api, headers: dict[str, str]
) -> None:
    assert (await api.put("/_schemas", {})).status == 201
    assert (await api.post("/_schemas", {"_id": "any", "type": "object"})).status == 201
    assert (await api.put("/things", {"jsonSchema": {"schemaId": "any"}})).status == 200
    api.things.insert_one({"_id": "x", "name": "a"})

    reply = await api.patch("/things/x", {"name": "b"}, headers=headers)

    assert reply.status == (412 if OTHER in headers.values() else 200)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_a_collection_without_an_etag_has_none_of_those_given(api: Api, method: str) -> None:
    """Decision 47: with metadata that has no etag, and without metadata."""
    properties = api.mongo[api.db]["_properties"]
    body = None if method == "DELETE" else {"a": 1}
    for stored in ({"_id": "_properties.things", "n": 1}, None):
        properties.delete_many({})
        if stored:
            properties.insert_one(stored)

        reply = await api.send(method, "/things", body, headers={"if-match": OTHER}, nocache="")

        assert (reply.status, reply.text) == (412, "")
        assert properties.find_one() == stored
    passed = await api.send(method, "/things", body, headers={"if-match": "*"}, nocache="")
    assert passed.status in (200, 204)


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


async def test_of_200_writers_with_one_etag_one_wins(mongo_client: Mongo, mongo_uri: str) -> None:
    """Decision 41: atomic etag checks. Decision 51: a busy pool is 503, never 500."""
    names = ("connect-timeout-ms", "heartbeat-frequency-ms", "server-selection-timeout-ms")
    patient = {
        "core": {"wait-timeout-ms": 3_600_000},
        "mclient": {"command-ceiling-ms": 0, **dict.fromkeys(names, 600_000)},
    }
    async with serving(mongo_client, mongo_uri, patient) as api:
        await api.post("/things", {"_id": "x", "n": 0})
        etag = str(api.things.find_one()["_etag"])

        async def write(writer: int) -> Reply:
            """On a busy machine some get no connection of the pool in time: nothing is written."""
            for _ in range(100):
                body = {"by": writer, "n": 1}
                reply = await api.patch("/things/x", body, headers={"if-match": etag})
                if reply.status != 503:
                    break
                assert (reply.json["code"], reply.headers["retry-after"]) == ("overloaded", "1")
            return reply

        replies = await asyncio.gather(*map(write, range(200)))

        assert not [reply.json for reply in replies if reply.status not in (200, 412)]
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


@pytest.mark.parametrize("header", ["*", str(NOW), f'"{NOW}"', f'W/"{NOW}", "x"'])
@pytest.mark.parametrize("mode", ["insert", "update", "upsert"])
@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST"])
async def test_a_write_that_must_not_find_the_document_is_412(
    api: Api, method: str, mode: str, header: str
) -> None:
    api.things.insert_one({"_id": "x", "_etag": NOW})
    path = "/things" if method == "POST" else "/things/x"

    reply = await api.send(
        method, path, {"_id": "x", "a": 1}, headers={"if-none-match": header}, wm=mode
    )

    assert (reply.status, reply.text) == (412, "")
    assert reply.headers["etag"] == str(NOW)
    assert api.things.find_one() == {"_id": "x", "_etag": NOW}


@pytest.mark.parametrize("header", ["*", str(NOW)])
async def test_a_removal_that_must_not_find_the_document_is_412(api: Api, header: str) -> None:
    api.things.insert_one({"_id": "x", "_etag": NOW})

    reply = await api.delete("/things/x", headers={"if-none-match": header})

    assert (reply.status, api.things.count_documents({})) == (412, 1)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE"])
async def test_another_etag_than_the_excluded_one_admits_a_write(api: Api, method: str) -> None:
    api.things.insert_one({"_id": "x", "_etag": NOW})
    body = None if method == "DELETE" else {"a": 1}

    reply = await api.send(method, "/things/x", body, headers={"if-none-match": OTHER})

    assert reply.status in (200, 204)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST"])
@pytest.mark.parametrize("mode", ["insert", "upsert"])
async def test_what_is_not_there_is_created_with_if_none_match(
    api: Api, method: str, mode: str
) -> None:
    path = "/things" if method == "POST" else "/things/x"

    reply = await api.send(method, path, {"_id": "x"}, headers={"if-none-match": "*"}, wm=mode)

    assert reply.status == 201
    assert api.things.find_one()["_id"] == "x"


async def test_an_update_of_nothing_is_404_with_if_none_match(api: Api) -> None:
    for method in ("PUT", "PATCH"):
        reply = await api.send(method, "/things/x", {"a": 1}, headers={"if-none-match": "*"})

        assert reply.status == 404


async def test_both_conditions_have_to_hold(api: Api) -> None:
    api.things.insert_one({"_id": "x", "_etag": NOW})
    right, wrong = {"if-match": str(NOW), "if-none-match": OTHER}, {"if-match": str(NOW)}

    assert (await api.put("/things/x", {}, headers={**wrong, "if-none-match": "*"})).status == 412
    assert (await api.put("/things/x", {}, headers=right)).status == 200


async def test_a_collision_in_a_unique_index_stays_409_with_if_none_match(api: Api) -> None:
    api.things.create_index("a", unique=True)
    api.things.insert_one({"_id": "x", "a": 1})

    for method, path in (("POST", "/things"), ("PUT", "/things/y"), ("PATCH", "/things/y")):
        for mode in ("insert", "upsert"):
            reply = await api.send(
                method, path, {"_id": "y", "a": 1}, headers={"if-none-match": "*"}, wm=mode
            )

            assert reply.status == 409


@pytest.mark.parametrize("method", ["PUT", "PATCH", "POST"])
async def test_of_many_who_create_with_if_none_match_one_wins(api: Api, method: str) -> None:
    path = "/things" if method == "POST" else "/things/x"
    replies = await asyncio.gather(
        *(
            api.send(
                method, path, {"_id": "x", "n": n}, headers={"if-none-match": "*"}, wm="upsert"
            )
            for n in range(50)
        )
    )

    assert sorted(reply.status for reply in replies) == [201] + [412] * 49
    winner = next(i for i, reply in enumerate(replies) if reply.status == 201)
    assert api.things.find_one()["n"] == winner


async def test_a_collection_that_must_not_be_there_is_made_once(api: Api) -> None:
    headers = {"if-none-match": "*"}
    made = await asyncio.gather(*(api.put("/new", {"n": n}, headers=headers) for n in range(8)))
    before = (await api.get("/new/_meta")).json

    assert sorted(reply.status for reply in made) == [201] + [412] * 7
    assert (await api.patch("/new", {"n": 9}, headers=headers)).status == 412
    assert (await api.delete("/new", headers=headers)).status == 412
    assert (await api.get("/new/_meta")).json == before
    assert (await api.put("/things", {}, headers=headers)).status == 412  # it has no metadata


async def test_a_collection_is_not_changed_with_the_excluded_etag(api: Api) -> None:
    etag = (await api.put("/new", {"n": 1})).headers["etag"]
    current, other = {"if-none-match": etag}, {"if-none-match": OTHER}

    assert (await api.put("/new", {"n": 2}, headers=current)).status == 412
    assert (await api.patch("/new", {"n": 2}, headers=current)).status == 412
    assert (await api.delete("/new", headers={**current, "if-match": etag})).status == 412
    assert (await api.patch("/new", {"n": 2}, headers=other)).status == 200


async def test_a_database_that_must_not_be_there_is_made_once(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    everything = [{"what": "*", "where": "/"}]
    async with serving(mongo_client, mongo_uri, mounts=everything) as api:
        made, headers = f"{api.db}_made", {"if-none-match": "*"}
        try:
            replies = await asyncio.gather(*(api.put(f"/{made}", headers=headers) for _ in "12345"))

            assert sorted(reply.status for reply in replies) == [201] + [412] * 4
            assert (await api.put(f"/{api.db}", {}, headers=headers)).status == 412
            assert (await api.patch(f"/{made}", {"a": 1}, headers=headers)).status == 412
        finally:
            drop(mongo_client, made)


# --- writes to many documents ---------------------------------------------------------------------

BULK_DEMAND = "The documents' ETags must be provided using the 'If-Match' header"


async def _demand(api: Api, policy: str, *, of_database: bool = False) -> None:
    id = "_properties" if of_database else "_properties.things"
    api.mongo[api.db]["_properties"].insert_one({"_id": id, "etagDocPolicy": policy})


@pytest.mark.parametrize("of_database", [False, True])
@pytest.mark.parametrize("mode", ["upsert", "update"])
@pytest.mark.parametrize("ids", [["x"], ["x", "y"], ["x", "bare", "y"]], ids=len)
async def test_an_array_cannot_pass_by_a_demanded_etag(
    api: Api, mode: str, ids: list[str], of_database: bool
) -> None:
    await _demand(api, "Required", of_database=of_database)
    stored = [{"_id": "x", "_etag": NOW, "a": 0}, {"_id": "y", "_etag": NOW}, {"_id": "bare"}]
    api.things.insert_many(stored)
    body = [{"_id": id, "a": 1} for id in ids]

    reply = await api.post("/things", body, wm=mode)

    assert reply.status == 207, reply.text
    told = [(one["index"], one["httpStatus"], one["message"]) for one in reply.json["errors"]]
    demand = "The document's ETag must be provided using the 'If-Match' header."
    expected = [(index, 409, demand) for index, id in enumerate(ids) if id != "bare"]
    assert sorted(told) == expected
    assert list(api.things.find({"_id": {"$in": ["x", "y"]}})) == stored[:2]
    assert api.things.find_one("bare").get("a") == (1 if "bare" in ids else None)


async def test_an_array_creates_and_replaces_with_the_etags_of_all(api: Api) -> None:
    await _demand(api, "REQUIRED")
    api.things.insert_many([{"_id": "x", "_etag": NOW}, {"_id": "y", "_etag": ObjectId(OTHER)}])
    body = [{"_id": id, "a": 1} for id in ("x", "y", "new")]

    reply = await api.post("/things", body, headers={"if-match": f"{NOW}, {OTHER}"}, wm="upsert")

    assert (reply.status, reply.json["matched"], reply.json["inserted"]) == (200, 2, 1)
    assert api.things.count_documents({"a": 1}) == 3
    assert (await api.post("/things", [{"_id": "z"}, {"_id": "w"}])).status == 200


@pytest.mark.parametrize("mode", ["upsert", "update"])
async def test_a_wrong_etag_of_an_array_is_412_for_its_element(api: Api, mode: str) -> None:
    """`If-Match` counts without any policy."""
    api.things.insert_many([{"_id": "x", "_etag": NOW}, {"_id": "y", "_etag": ObjectId(OTHER)}])
    body = [{"_id": "x", "a": 1}, {"_id": "y", "a": 1}]

    reply = await api.post("/things", body, headers={"if-match": OTHER}, wm=mode)

    assert reply.status == 207
    assert [(one["index"], one["httpStatus"]) for one in reply.json["errors"]] == [(0, 412)]
    assert [one["_id"] for one in api.things.find({"a": 1})] == ["y"]


@pytest.mark.parametrize(
    ("policy", "patch", "delete"),
    [("REQUIRED", 409, 409), ("required_for_delete", 200, 409), ("OPTIONAL", 200, 200)],
)
async def test_a_bulk_write_cannot_pass_by_a_demanded_etag(
    api: Api, policy: str, patch: int, delete: int
) -> None:
    await _demand(api, policy)
    api.things.insert_many([{"_id": "x", "_etag": NOW, "n": 1}, {"_id": "y", "n": 1}])

    patched = await api.patch("/things/*", {"n": 1}, filter={"n": 1})
    deleted = await api.delete("/things/*", filter={"n": 1})

    assert (patched.status, deleted.status) == (patch, delete)
    for reply in (patched, deleted):
        assert reply.status == 200 or reply.json["message"] == BULK_DEMAND
    assert api.things.count_documents({}) == (0 if delete == 200 else 2)


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_a_bulk_write_touches_documents_of_the_given_etags_only(
    api: Api, method: str
) -> None:
    await _demand(api, "REQUIRED")
    api.things.insert_many(
        [
            {"_id": "x", "_etag": NOW, "n": 1},
            {"_id": "y", "_etag": ObjectId(OTHER), "n": 1},
            {"_id": "bare", "n": 1},
        ]
    )
    body = {"n": 2} if method == "PATCH" else None
    path = "/things/*"

    some = await api.send(method, path, body, headers={"if-match": f'"{NOW}"'}, filter={"n": 1})
    wrong = await api.send(method, path, body, headers={"if-match": "3" * 24}, filter={"n": 1})
    none = await api.send(method, path, body, headers={"if-match": "3" * 24}, filter={"n": 7})
    left = [one["_id"] for one in api.things.find({"n": 1})]
    every = await api.send(method, path, body, headers={"if-match": "*"}, filter={"n": 1})

    counted = "matched" if method == "PATCH" else "deleted"
    assert (some.status, some.json[counted]) == (200, 1)
    assert (wrong.status, wrong.text) == (412, "")
    assert (none.status, none.json[counted]) == (200, 0)
    assert left == ["y", "bare"]
    assert (every.status, every.json[counted]) == (200, 2)


@pytest.mark.parametrize("mode", ["upsert", "update"])
async def test_an_element_that_has_no_etag_is_412(api: Api, mode: str) -> None:
    """Decision 47."""
    api.things.insert_many([{"_id": "x", "_etag": NOW}, {"_id": "bare"}])
    body = [{"_id": "x", "a": 1}, {"_id": "bare", "a": 1}]

    reply = await api.post("/things", body, headers={"if-match": str(NOW)}, wm=mode)

    assert reply.status == 207
    assert [(one["index"], one["httpStatus"]) for one in reply.json["errors"]] == [(1, 412)]
    assert api.things.find_one("bare") == {"_id": "bare"}


@pytest.mark.parametrize("name", ["checkEtag", "checkETag"])
async def test_a_request_can_demand_etags_of_its_own_bulk_write(api: Api, name: str) -> None:
    api.things.insert_one({"_id": "x", "_etag": NOW})

    for reply in (
        await api.patch("/things/*", {"n": 1}, filter={"_id": "x"}, **{name: ""}),
        await api.delete("/things/*", filter={"_id": "x"}, **{name: ""}),
    ):
        assert (reply.status, reply.json["message"]) == (409, BULK_DEMAND)
    assert api.things.find_one() == {"_id": "x", "_etag": NOW}


@pytest.mark.parametrize("mode", ["insert", "upsert"])
async def test_an_array_that_must_find_nothing_creates_what_is_missing(api: Api, mode: str) -> None:
    api.things.insert_one({"_id": "x", "_etag": NOW})

    reply = await api.post(
        "/things", [{"_id": "x", "a": 1}, {"_id": "y"}], headers={"if-none-match": "*"}, wm=mode
    )

    assert [one["httpStatus"] for one in reply.json["results"]] == [412, 201]
    assert (reply.status, api.things.find_one({"_id": "x"})) == (207, {"_id": "x", "_etag": NOW})


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_a_bulk_write_passes_over_the_excluded_etags(api: Api, method: str) -> None:
    api.things.insert_many([{"_id": 1, "_etag": NOW}, {"_id": 2, "_etag": ObjectId(OTHER)}])
    body = {"a": 1} if method == "PATCH" else None
    everything = {"_id": {"$gt": 0}}

    none = await api.send(
        method, "/things/*", body, headers={"if-none-match": "*"}, filter=everything
    )
    some = await api.send(
        method, "/things/*", body, headers={"if-none-match": str(NOW)}, filter=everything
    )

    assert (none.status, some.status) == (412, 200)
    assert some.json["modified"] + some.json["deleted"] == 1
    assert api.things.find_one({"_id": 1}) == {"_id": 1, "_etag": NOW}


async def test_a_write_mode_does_not_lift_the_policy_of_bulk_writes(api: Api) -> None:
    api.things.insert_one({"_id": 1, "_etag": NOW})

    reply = await api.patch("/things/*", {"a": 1}, filter={"_id": 1}, wm="insert", checkEtag="")

    assert reply.status == 409
