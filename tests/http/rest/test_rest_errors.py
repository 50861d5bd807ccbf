"""Errors have one shape, say what is wrong, and say nothing else."""

from __future__ import annotations

import asyncio
import random
from datetime import datetime
from itertools import product
from typing import Any
from urllib.parse import unquote, urlencode

import pytest
from bson import Int64
from hypothesis import given, settings
from hypothesis import strategies as st

from docgraph.observe.engine_events import QueryFailed
from tests.chance import examples
from tests.http.access_harness import ADA, allow, guarded, remove_rules, restore
from tests.http.harness import Mongo, Service, failing, listening
from tests.http.rest_harness import Api, serving, to_json

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


_POINT = {"type": "Point", "coordinates": [0, 0]}
_ODD_FILTERS: list[dict[str, Any]] = [
    {"$text": {"$search": "a"}},
    {"$or": [{"$text": {"$search": "a"}}, {"a": 1}]},
    {"at": {"$near": [0, 0]}},
    {"at": {"$near": {"$geometry": _POINT}}},
    {"at": {"$nearSphere": {"$geometry": _POINT, "$maxDistance": -1}}},
    {"plain": {"$near": {"$geometry": _POINT}}},
    {"at": {"$geoWithin": {"$centerSphere": [[0, 0], "a"]}}},
    {"at": {"$geoIntersects": {"$geometry": {"type": "Point", "coordinates": [999, 999]}}}},
    {"$or": [{"at": {"$near": {"$geometry": _POINT}}}, {"a": 1}]},
    {"a": {"$regex": "("}},
    {"a": {"$regex": "a", "$options": "q"}},
    {"a": {"$in": 1}},
    {"a": {"$in": [{"$regex": "a"}]}},
    {"a": {"$mod": [0, 1]}},
    {"a": {"$mod": [1]}},
    {"a": {"$size": -1}},
    {"a": {"$type": "nope"}},
    {"a": {"$type": 99}},
    {"a": {"$elemMatch": 1}},
    {"a": {"$bitsAllSet": "x"}},
    {"a": {"$not": 1}},
    {"a": {"$not": {}}},
    {"$nor": {}},
    {"$expr": {"$toInt": "$name"}},
    {"$expr": {"$dateToString": {"date": "$name"}}},
    {"$expr": {"$arrayElemAt": ["$name", 0]}},
    {"$expr": {"$add": ["$name", 1]}},
    {"$expr": "$$unknown"},
    {"$expr": {"$getField": "$a"}},
    {"$jsonSchema": {"properties": 1}},
    {"$comment": {"a": 1}},
    {"a": {"$eq": 1, "b": 2}},
    {"a": {"$ref": "x"}},
    {"": 1},
    {"a..b": 1},
    {"a.$": 1},
    {"$a": 1},
]
_ODD_SORTS: list[Any] = [
    {"score": {"$meta": "textScore"}},
    {"score": {"$meta": "geoNearDistance"}},
    {"score": {"$meta": "indexKey"}},
    {"score": {"$meta": "randVal"}},
    {"score": {"$meta": "nope"}},
    {"score": {"$meta": 1}},
    {"a": 2},
    {"a": "x"},
    {"a": None},
    {"a": {}},
    {"a.": 1},
    {".a": 1},
    {"$a": 1},
    {"": 1},
    {"a": 1, "a.b": 1},
    {"items": 1, "tags": 1},
    {"items.0.b": 1},
    {"$natural": 1},
    {"$natural": 5},
    {"$natural": 1, "a": 1},
    {f"p{n}": 1 for n in range(40)},
]
_ODD_KEYS: list[Any] = [
    {"items.$": 1},
    {"items.$": 0},
    {"items.$.b": 1},
    {"a": 1, "b": 0},
    {"a": {"$slice": "x"}},
    {"a": {"$slice": [1, -1]}},
    {"a": {"$elemMatch": 1}},
    {"a": {"$meta": "textScore"}},
    {"a": {"$meta": "sortKey"}},
    {"a": {"$meta": "geoNearDistance"}},
    {"a": {"$meta": "nope"}},
    {"a": {"$toInt": "$name"}},
    {"a": {"$divide": [1, "$zero"]}},
    {"a": "$$unknown"},
    {"a": {"$nope": 1}},
    {"a": 1, "a.b": 1},
    {"a": {}},
    {"": 1},
    {"a.": 1},
    {"$a": 1},
    {"_id": 0, "a": {"b": 1, "c": 0}},
]
_ODD_HINTS: list[Any] = ["nope", {"nope": 1}, {"a": "x"}, {"": 1}, {"$natural": 2}, {"at": 1}, {}]


_ODD = {"filter": _ODD_FILTERS, "sort": _ODD_SORTS, "keys": _ODD_KEYS, "hint": _ODD_HINTS}
_COMPANIONS: list[dict[str, str]] = [
    {},
    {"hint": '{"a":1}', "count": "true"},
    {"filter": '{"at":{"$near":[0,0]}}', "count": "true"},
]
_READS = ("/odd?", "/odd?after=&", "/odd/_size?", "/odd/1?", "/odd/_aggrs/all?")


@pytest.mark.parametrize("name", _ODD)
async def test_nothing_that_a_caller_asks_for_is_a_fault_of_the_server(
    mongo_client: Mongo, mongo_uri: str, name: str
) -> None:
    """Decision 41: what the database finds wrong with a request is the caller's to correct."""
    companions = [one for one in _COMPANIONS if name not in one]
    # Every value on every path, and every value and path with each companion and each rule.
    targets: tuple[list[str], list[str]] = [], []
    for (p, path), (v, value) in product(enumerate(_READS), enumerate(_ODD[name])):
        query = urlencode({name: _to_text(value), **companions[(p + v) % len(companions)]})
        targets[(p + v) // len(companions) % 2].append(f"{path}{query}")
    faults = []
    async with guarded(mongo_client, mongo_uri) as service:
        _prepare_odd_collection(service)
        for rule, mongo in enumerate(({}, {"readFilter": {"owner": "ada"}})):
            await remove_rules(service)
            await allow(service, "path-prefix('/odd')", "user", mongo=mongo)
            for target in targets[rule]:
                reply = await service.request("GET", target, headers=ADA)
                if reply.status >= 500:
                    faults.append((unquote(target), reply.status, reply.json["message"]))

    assert not faults, "\n".join(map(str, faults))


@pytest.mark.parametrize(
    ("query", "hint"),
    [
        ({"sort": '{"score":{"$meta":"textScore"}}'}, "$meta needs $text or $near"),
        ({"keys": '{"score":{"$meta":"geoNearDistance"}}'}, "$meta needs $text or $near"),
        ({"keys": '{"items.$":1}'}, "add a condition on that array"),
        ({"keys": '{"items.$":1}', "filter": '{"a":0}'}, "add a condition on that array"),
        ({"sort": "items.0.b"}, "sort by another path"),
        ({"filter": '{"at":{"$near":[0,0]}}', "hint": '{"a":1}', "count": "true"}, ""),
    ],
)
async def test_what_a_caller_asks_for_wrongly_is_told_with_what_to_do(
    mongo_client: Mongo, mongo_uri: str, query: dict[str, str], hint: str
) -> None:
    async with guarded(mongo_client, mongo_uri) as service:
        _prepare_odd_collection(service)
        for mongo in ({}, {"readFilter": {"owner": "ada"}}):
            await remove_rules(service)
            await allow(service, "path-prefix('/odd')", "user", mongo=mongo)
            reply = await service.request("GET", f"/odd?{urlencode(query)}", headers=ADA)

            assert reply.status == 400, reply.text
            assert reply.json.get("hint", "").startswith(hint), reply.text
            assert "upsert" not in reply.text


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value).decode()


def _prepare_odd_collection(service: Service) -> None:
    collection = service.mongo[service.db]["odd"]
    restore(
        service,
        "odd",
        *(
            {"_id": n, "owner": owner, "name": "x", "zero": 0, "at": [n, n], "a": n,
             "items": [{"b": n, "0": {"b": 1}}], "tags": [n]}
            for n, owner in enumerate(("ada", "bob", "ada"))
        ),
    )  # fmt: skip
    collection.create_index([("at", "2dsphere")])
    collection.create_index([("a", 1)])
    stored = {"_id": "_properties.odd", "aggrs": [{"uri": "all", "type": "pipeline", "stages": []}]}
    service.mongo[service.db]["_properties"].replace_one(
        {"_id": stored["_id"]}, stored, upsert=True
    )


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


@pytest.mark.parametrize(
    ("method", "path", "body", "message", "hint"),
    [
        ("POST", "/series", {"m": 1}, "a date in the time field", "timeField"),
        ("PATCH", "/series/a", {"m": 2}, "a time series cannot", "metaField"),
        ("PUT", "/series/a", {"t": datetime(2026, 1, 1)}, "a time series cannot", "metaField"),
        ("DELETE", "/series/a", None, "a time series cannot", "metaField"),
        ("PATCH", '/series/*?filter={"m":1}', {"x": 2}, "a time series cannot", "metaField"),
        ("DELETE", '/series/*?filter={"x":1}', None, "a time series cannot", "metaField"),
        ("POST", "/view", {"a": 1}, "a view does not support this", "collection"),
        ("PATCH", "/view/a", {"a": 1}, "a view does not support this", "collection"),
        ("DELETE", "/view/a", None, "a view does not support this", "collection"),
        ("PATCH", "/things/a", {"$inc": {"s": 1}}, "no number", "$set"),
        ("PATCH", "/things/a", {"$mul": {"s": 1}}, "no number", "$set"),
        ("PATCH", "/things/a", {"$bit": {"s": {"and": 1}}}, "no number", "$set"),
        ("PATCH", "/things/a", {"$push": {"s": 1}}, "changes a list", "$set"),
        ("PATCH", "/things/a", {"$addToSet": {"s": 1}}, "changes a list", "$set"),
        ("PATCH", "/things/a", {"$pull": {"s": 1}}, "changes a list", "$set"),
        ("PATCH", "/things/a", {"$pop": {"s": 1}}, "changes a list", "$set"),
        ("PATCH", "/things/a", {"list.$": 1}, "which elements of the list", "$[]"),
        ("PATCH", "/things/a", {"list.$[x]": 1}, "which elements of the list", "$[]"),
        ("PATCH", "/things/a", {"$inc": {"n": Int64((1 << 63) - 1)}}, "more than 64 bits", ""),
        ("PATCH", "/things/a", {"$set": {"_id": "b"}}, "would change _id", "new document"),
        ("PATCH", "/things/a", {"$push": {"list": "x" * (9 << 20)}}, "too large", "16 MiB"),
    ],
)
async def test_a_write_that_the_database_rejects_says_what_to_do(
    api: Api, method: str, path: str, body: Any, message: str, hint: str
) -> None:
    database = api.things.database
    database.create_collection("series", timeseries={"timeField": "t", "metaField": "m"})
    database.create_collection("view", viewOn="things")
    database["series"].insert_one({"_id": "a", "m": 1, "t": datetime(2026, 1, 1)})
    large = ["x" * (9 << 20)] if message == "too large" else []
    stored = {"_id": "a", "s": "text", "n": 1, "list": [1, *large]}
    api.things.insert_one(stored)

    reply = await api.send(method, path, body)

    assert reply.status in (400, 403)
    assert message in reply.json["message"]
    assert hint in reply.json.get("hint", "")
    assert api.things.find_one() == stored
    if method == "POST":
        several = await api.send(method, path, [body])
        assert message in several.json["errors"][0]["message"]
