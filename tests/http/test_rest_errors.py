"""Errors have one shape, say what is wrong, and say nothing else."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from docgraph.observe.events import QueryFailed
from tests.chance import examples
from tests.http.harness import Mongo, failing, listening
from tests.http.rest_harness import Api, serving

pytestmark = pytest.mark.anyio


async def test_an_error_has_the_keys_of_the_data_service(api: Api) -> None:
    """Decision 41: its keys plus `code` and `hint`, never exception names."""
    reply = await api.put("/things/x", {})

    assert reply.headers["content-type"].startswith("application/json")
    assert reply.json == {
        "http status code": 404,
        "http status description": "Not Found",
        "message": "document 'x' does not exist",
        "code": "not-found",
        "hint": "wm=upsert creates it",
    }


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        (b"{", 400, "Invalid JSON. line 1, column 2: "),
        (b'{"a": 1e400}', 400, "Invalid JSON. "),
        (b'{"a": ' + b"9" * 5000 + b"}", 400, "Invalid JSON. "),
        (b"\xef\xbb\xbf{}", 400, "Invalid JSON. "),
        ('{"a":1}'.encode("utf-16"), 400, "Invalid JSON. "),
        (b'{"a":"\xc3"}', 400, "Invalid JSON. "),
        (b"[" * 100_000, 400, "Invalid JSON. "),
        (b'{"a":' * 250 + b"1" + b"}" * 250, 400, "Invalid JSON. "),
        (b'{"a":{"$oid":"x"}}', 400, "Invalid JSON. "),
        (b'{"a":1,"a":2}', 400, "Invalid JSON. "),
        (b'{"x":[{"a":1,"a":2}]}', 400, "Invalid JSON. "),
        (b"7", 400, "request data must be either a json object or an array, got INT32"),
        (b'{"_id":[1]}', 400, "the type of _id in request data is not supported: ARRAY"),
    ],
)
async def test_bad_bodies_are_told_what_is_wrong(
    api: Api, body: bytes, status: int, message: str
) -> None:
    reply = await api.post("/things", body)

    assert reply.status == status
    assert reply.json["message"].startswith(message)
    assert api.things.count_documents({}) == 0


async def test_a_body_above_the_limit_is_413(api: Api) -> None:
    reply = await api.post("/things", b'{"a":"' + b"x" * (16 * 1024 * 1024) + b'"}')

    assert (reply.status, reply.json["code"]) == (413, "body-too-large")


@pytest.mark.parametrize("size", [15_900_000, 16_500_000])
async def test_a_document_near_the_limit_is_stored_or_refused(api: Api, size: int) -> None:
    numbers = b'{"a":[' + b",".join([b"1"] * (size // 13)) + b"]}"  # 13 bytes each in BSON

    reply = await api.post("/things", numbers)

    assert reply.status in (201, 400, 413)
    assert (reply.status == 201) is (api.things.count_documents({}) == 1)


@pytest.mark.parametrize(
    "update",
    [
        {"s.x": 1},
        {"$inc": {"s": 1}},
        {"$push": {"s": 1}},
        {"$nonsense": {"a": 1}},
        {"$inc": 1},
        {"$inc": {"l.5000000": 1}},
        {"$rename": {"s": "s"}},
        {"$set": {"": 1}},
        {"$set": {"a.$": 1}},
        {"a": 1, "a.b": 1},
        [{"$set": {"a": {"$divide": [1, 0]}}}],
        [{"$set": {"a": {"$nonsense": 1}}}],
        [{"$replaceWith": 1}],
        [{}],
    ],
)
async def test_an_update_that_cannot_be_is_400_and_changes_nothing(api: Api, update: Any) -> None:
    before = {"_id": "x", "s": "text", "l": [1]}
    api.things.insert_one(before)

    reply = await api.patch("/things/x", update)

    assert reply.status == 400, reply.text
    assert api.things.find_one() == before


async def test_nothing_of_the_database_is_told(api: Api) -> None:
    api.things.insert_one({"_id": "secret", "s": 1})
    replies = [
        await api.post("/things", {"_id": "secret"}),
        await api.patch("/things/secret", {"s.x": 1}),
        await api.get("/things", filter={"$unheard": 1}),
        await api.get("/things", hint="nonsense"),
    ]

    for reply in replies:
        assert 400 <= reply.status < 500
        for word in ("E11000", api.db, "Mongo", "pymongo", "Traceback", "nonsense", "top level"):
            assert word not in reply.text, reply.text


@pytest.mark.parametrize("name", ["a..b", ".a", "a.", "a...b", "a" * 256])
async def test_a_name_that_cannot_be_is_400_for_every_request(api: Api, name: str) -> None:
    for method, path, body in [
        ("PUT", "", {}),
        ("GET", "", None),
        ("POST", "", {"a": 1}),
        ("PATCH", "", {"a": 1}),
        ("DELETE", "", None),
        ("GET", "/x", None),
        ("PUT", "/x", {}),
        ("PUT", "/_indexes/i", {"keys": {"a": 1}}),
        ("GET", "/_size", None),
    ]:
        reply = await api.send(method, f"/{name}{path}", body)

        assert reply.status == 400, (method, path, reply.text)


@pytest.mark.parametrize(
    "filter",
    [
        {"$text": {}},
        {"$text": {"a": 1}},
        {"$text": {"$search": 1}},
        {"$and": []},
        {"a": {"$near": {}}},
        {"a": {"$geoWithin": {}}},
        {"$expr": {"$divide": [1, 0]}},
        {"$jsonSchema": {"bsonType": "nope"}},
    ],
)
async def test_a_filter_that_cannot_be_is_400_wherever_it_stands(
    api: Api, filter: dict[str, Any]
) -> None:
    api.things.insert_one({"_id": "x"})

    for method, path, body in [
        ("GET", "/things", None),
        ("GET", "/things/_size", None),
        ("GET", "/things/x", None),
        ("PUT", "/things/x", {}),
        ("PATCH", "/things/x", {"a": 1}),
        ("DELETE", "/things/x", None),
        ("PATCH", "/things/*", {"a": 1}),
        ("DELETE", "/things/*", None),
    ]:
        reply = await api.send(method, path, body, filter=filter)

        assert reply.status == 400, (method, path, reply.text)


async def test_a_document_that_no_index_can_hold_is_400(api: Api) -> None:
    api.things.create_index([("a", 1), ("b", 1)])

    one = await api.post("/things", {"a": [1], "b": [1]})
    several = await api.post("/things", [{"a": [1], "b": [1]}, {"a": 1}])

    assert (one.status, one.json["code"]) == (400, "rejected-by-database")
    assert [each["httpStatus"] for each in several.json["results"]] == [400, 201]


async def test_what_the_log_has_the_reason_of_stands_in_the_log(api: Api) -> None:
    unknown = 8
    with (
        failing(api.mongo, "find", namespace=f"{api.db}.things", errorCode=unknown),
        listening(QueryFailed) as failures,
    ):
        reply = await api.get("/things")

    (failure,) = failures
    assert (reply.status, reply.json["hint"]) == (500, "the log has the reason")
    assert reply.json["details"] == {"id": failure.id}
    assert (failure.level.name, failure.code) == ("WARNING", "database-error")
    assert "failCommand" in failure.reason
    assert "failCommand" not in reply.text


async def test_the_reason_of_a_failed_aggregation_stands_in_the_log(api: Api) -> None:
    stages = [{"$project": {"x": {"$add": ["$name", 1]}}}]
    await api.put("/things", {"aggrs": [{"uri": "sum", "stages": stages}]})
    api.things.insert_one({"name": "a text"})
    with listening(QueryFailed) as failures:
        reply = await api.get("/things/_aggrs/sum")

    (failure,) = failures
    assert (reply.status, reply.json["hint"]) == (422, "the log has the reason")
    assert reply.json["details"] == {"id": failure.id}
    assert failure.code == "aggregation-failed"
    assert "$add" in failure.reason
    assert "$add" not in reply.text


@pytest.mark.parametrize("code", [14031, 11601])
async def test_a_database_in_trouble_is_not_the_callers_mistake(api: Api, code: int) -> None:
    with failing(api.mongo, "find", namespace=f"{api.db}.things", errorCode=code):
        reply = await api.get("/things")

    assert (reply.status, reply.json["code"]) == (500, "database-unavailable")


async def test_a_database_that_is_away_is_500_without_its_address(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    away = {
        "mclient": {
            "connection-string": "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=200",
        }
    }
    async with serving(mongo_client, mongo_uri, away) as api:
        replies = await asyncio.gather(api.get("/things"), api.post("/things", {}))

    for reply in replies:
        assert (reply.status, reply.json["code"]) == (500, "database-unavailable")
        assert "127.0.0.1" not in reply.text


SEEDS = [
    b'{"_id":{"$oid":"5f7f7f7f7f7f7f7f7f7f7f7f"},"a":[1,2.5,{"$numberLong":"5"}]}',
    b'{"d":{"$date":{"$numberLong":"0"}},"b":{"$binary":{"base64":"AAAA","subType":"00"}}}',
    b"{a: ObjectId('5f7f7f7f7f7f7f7f7f7f7f7f'), 'b': /x/i, c: ISODate('2020-01-01')}",
    b'[{"_id":1},{"_id":{"$numberDecimal":"1.5"}},{"r":{"$regex":"x","$options":"i"}}]',
]


@settings(max_examples=examples(60))
@given(seed=st.sampled_from(SEEDS), mutations=st.integers(0, 2**32))
async def test_mutated_bodies_are_stored_or_refused(api: Api, seed: bytes, mutations: int) -> None:
    body = bytearray(seed)
    chance = random.Random(mutations)
    for _ in range(chance.randint(1, 4)):
        body[chance.randrange(len(body))] = chance.randrange(256)

    for method, path in (("POST", "/things"), ("PATCH", "/things/x"), ("PUT", "/things/x")):
        reply = await api.send(method, path, bytes(body), wm="upsert")

        assert reply.status < 500, (method, bytes(body), reply.text)


async def test_what_the_database_alone_understands_is_refused_with_where_to_look(api: Api) -> None:
    reply = await api.get("/things", filter={"a": {"$geoWithin": {"$center": [[0, 0], -1]}}})

    assert reply.status == 400
    assert "cannot be" not in f"{reply.json['message']} {reply.json.get('hint')}"


@pytest.mark.parametrize(
    ("method", "path", "body", "operator"),
    [
        ("GET", "/things?filter={a:{$gtt:1}}", None, "$gtt"),
        ("GET", "/things?filter=%7Ba%3A%7B%24gtt%3A1%7D%7D", None, "$gtt"),
        ("GET", "/things?filter={$ore:[]}", None, "$ore"),
        ("PATCH", "/things/a", {"$incc": {"n": 1}}, "$incc"),
        ("PATCH", "/things/*?filter={a:1}", {"$incc": {"n": 1}}, "$incc"),
    ],
)
async def test_an_operator_that_the_database_does_not_know_is_named(
    api: Api, method: str, path: str, body: Any, operator: str
) -> None:
    api.things.insert_one({"_id": "a", "a": 1})

    reply = await api.send(method, path, body)

    assert (reply.status, reply.json["code"]) == (400, "rejected-by-database")
    assert reply.json["hint"] == f"it has no operator {operator} there"
