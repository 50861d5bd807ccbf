"""Bad input for the REST API: never a 5xx, never somebody else's document (reliability 2.6)."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from typing import Any

import pytest
from bson import ObjectId

from tests.chance import IS_LONG
from tests.http.harness import Mongo
from tests.http.hosts import module_application
from tests.http.rest_harness import Api, relative, serving

pytestmark = pytest.mark.anyio

MIB = 1024 * 1024
SEEDS = (
    b'{"_id":{"$oid":"5f0000000000000000000001"},"a":{"$date":{"$numberLong":"0"}},"b":[1,2.5]}',
    b'{"d":{"$numberDecimal":"1.5"},"e":{"$binary":{"base64":"AAEC","subType":"00"}},"f":null}',
    b'{"r":{"$regularExpression":{"pattern":"^a","options":"i"}},"t":{"$timestamp":{"t":1,"i":2}}}',
    b"{_id:ObjectId('5f0000000000000000000001'),d:ISODate('2020-01-01T00:00:00Z'),x:/re/i,u:NaN}",
    b'{"$currentDate":{"at":true},"a.b.0":1,"n":{"$numberInt":"7"},"k":{"$minKey":1}}',
    b'[{"_id":1},{"_id":{"$uuid":"00000000-0000-0000-0000-000000000000"}},{"c":{"$code":"x"}}]',
)
MUTATED = 2500 if IS_LONG else 600
TOKENS = (b"{", b"}", b"[", b"]", b'"', b"'", b":", b",", b"$", b"\\", b"\x00", b"\xff", b"\\ud800")


@module_application
async def api(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri) as one:
        yield one


def mutate(body: bytes, chance: random.Random) -> bytes:
    """Some bytes taken away, put in, doubled or exchanged."""
    changed = bytearray(body)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(changed) + 1)
        match chance.randrange(4):
            case 0:
                del changed[place : place + chance.randint(1, 5)]
            case 1:
                changed[place:place] = chance.choice(TOKENS)
            case 2:
                changed[place:place] = changed[place : place + chance.randint(1, 20)]
            case _:
                changed[place : place + 1] = bytes([chance.randrange(256)])
    return bytes(changed)


@pytest.mark.parametrize("seed", range(len(SEEDS)))
async def test_mutated_bodies_are_taken_or_refused(api: Api, seed: int) -> None:
    chance = random.Random(seed)
    for number in range(MUTATED // len(SEEDS)):
        body = mutate(SEEDS[seed], chance)
        method, path = (("POST", "/things"), ("PUT", "/things/x?wm=upsert"))[number % 2]

        reply = await api.send(method, path, body)

        assert reply.status < 500, (body, reply.text)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b'{"a":' * 100_000, "nested deeper"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested deeper"),
        (b'{"a":' + b"9" * 5000 + b"}", "64 bits"),
        (b'{"a":1e400}', "range of a double"),
        (b'\xef\xbb\xbf{"a":1}', "byte order mark"),
        ('{"a":1}'.encode("utf-16"), "UTF-16"),
        (b'{"a":"\xc3"}', "not UTF-8"),
        (b'{"a":"\\ud800"}', "surrogate"),
        (b'{"a\\u0000b":1}', "NUL"),
        (b'{"a":1,"a":2}', "twice"),
        (b'{"a":1} {"b":2}', "after the end"),
        (b'{"a":{"$oid":"zz"}}', "24 hexadecimal"),
        (b'{"a":{"$date":"soon"}}', "not a date"),
        (b'{"a":{"$numberLong":"1.5"}}', "not an integer"),
    ],
)
async def test_the_edges_of_json_are_400_and_say_where(api: Api, body: bytes, said: str) -> None:
    reply = await api.send("POST", "/things", body)

    assert reply.status == 400
    assert reply.json["message"].startswith("Invalid JSON. line 1, column ")
    assert said in reply.json["message"]


@pytest.mark.parametrize(("depth", "status"), [(90, 201), (100, 400), (180, 400), (250, 400)])
async def test_nesting_is_stored_or_refused(api: Api, depth: int, status: int) -> None:
    body = b'{"a":' * depth + b"1" + b"}" * depth

    reply = await api.send("POST", "/things", b'{"deep":' + body + b"}")

    assert reply.status == status
    if status == 201:
        assert (await api.send("GET", relative(reply.headers["location"]))).status == 200


async def test_large_documents_are_stored_or_refused(api: Api) -> None:
    def sized(size: int) -> bytes:
        frame = b'{"x":"%s"}'
        return frame % (b"x" * (size - len(frame) + 2))

    # The largest body is no document any more, with its _id and _etag.
    for size, expected in ((int(15.9 * MIB), 201), (16 * MIB, 400), (17 * MIB, 413)):
        assert (await api.send("POST", "/things", sized(size))).status == expected


async def test_a_document_cannot_grow_beyond_what_the_database_holds(api: Api) -> None:
    half = b'{"%s":"' + b"x" * (9 * MIB) + b'"}'
    assert (await api.send("PUT", "/things/big?wm=upsert", half % b"a")).status == 201

    reply = await api.send("PATCH", "/things/big", half % b"b")

    assert reply.status == 400
    assert "too large" in reply.json["message"]
    stored = api.things.find_one({"_id": "big"})
    assert stored.keys() == {"_id", "a", "_etag"}


@pytest.mark.parametrize(
    "id",
    [
        '{"$oid":"5f0000000000000000000001"}',
        '"5f0000000000000000000002"',
        '"a b/c?d#e%f+g"',
        '"ünï ☃"',
        '"..x"',
        "1",
        "-1",
        "1.5",
        '{"$numberLong":"9007199254740993"}',
        '{"$date":0}',
        '{"$date":{"$numberLong":"-62135596800001"}}',
        "true",
        "false",
        "null",
        '{"$minKey":1}',
        '{"$maxKey":1}',
    ],
)
async def test_an_id_of_any_type_is_found_where_its_location_says(api: Api, id: str) -> None:
    api.things.delete_many({})
    made = await api.send("POST", "/things", f'{{"_id":{id},"mark":1}}'.encode())
    assert made.status == 201, made.text
    place = relative(made.headers["location"])

    assert (await api.send("GET", place)).json["mark"] == 1
    assert (await api.send("PATCH", place, {"mark": 2})).status == 200
    assert (await api.send("DELETE", place)).status == 204
    assert api.things.count_documents({}) == 0


@pytest.mark.parametrize("segment", ["%7B%22%24ne%22%3A1%7D", "%7B%7D", "$ne", "%5B%5D", "%2A%2A"])
async def test_operators_in_an_id_are_letters(api: Api, segment: str) -> None:
    api.things.delete_many({})
    api.things.insert_one({"_id": "victim"})

    for method, body in (("GET", None), ("PUT", {"a": 1}), ("PATCH", {"a": 1}), ("DELETE", None)):
        assert (await api.send(method, f"/things/{segment}", body)).status == 404

    assert list(api.things.find()) == [{"_id": "victim"}]


@pytest.mark.parametrize("tag", ['{"$ne":1}', '"$gt"', "x,y,z", "\t", "W/", '"'])
async def test_an_etag_is_compared_and_never_interpreted(api: Api, tag: str) -> None:
    api.things.delete_many({})
    etag = ObjectId()
    api.things.insert_one({"_id": "kept", "_etag": etag})

    headers = {"If-Match": tag}
    assert (await api.send("PUT", "/things/kept", {}, headers)).status == 412
    assert (await api.send("DELETE", "/things/kept", None, headers)).status == 412

    assert list(api.things.find()) == [{"_id": "kept", "_etag": etag}]


@pytest.mark.parametrize(
    "body",
    [
        {"_etag": "mine"},
        {"$set": {"_etag": "mine"}},
        [{"$set": {"_etag": "mine"}}],
        [{"$unset": "_etag"}],
        [{"$replaceWith": {"_id": "own", "a": 1}}],
    ],
)
async def test_the_etag_is_never_the_callers(api: Api, body: Any) -> None:
    api.things.replace_one({"_id": "own"}, {"_etag": ObjectId()}, upsert=True)

    reply = await api.patch("/things/own", body)

    stored = api.things.find_one({"_id": "own"})["_etag"]
    assert isinstance(stored, ObjectId)
    if reply.status == 200:
        assert reply.headers["etag"] == str(stored)


@pytest.mark.parametrize(
    "path",
    [
        "/_properties",
        "/%5Fproperties",
        "/%5f%70roperties",
        "/things/../_properties",
        "/things/%2e%2e/_properties",
        "/things/..//_properties//",
        "/./_properties",
        "/_properties/_size",
        "/_properties/_indexes",
        "/system.users",
        "/system%2Eusers",
        "/SYSTEM.users",
        "/things.chunks",
    ],
)
@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
async def test_no_spelling_reaches_a_reserved_name(api: Api, path: str, method: str) -> None:
    reply = await api.send(method, path)

    assert reply.status in (403, 405)


@pytest.mark.parametrize(
    ("parameter", "value"),
    [
        ("page", "9" * 30),
        ("page", "999999999999999999"),
        ("filter", '{"a":' * 150 + "1" + "}" * 150),
        ("filter", '{"a":{"$regex":"("}}'),
        ("filter", '{"$text":{"$search":"x"}}'),
        ("filter", '{"a":{"$near":[1,2]}}'),
        ("filter", '{"$and":1}'),
        ("keys", '{"a":{"$foo":1}}'),
        ("keys", '{"a.$.b.$":1}'),
        ("keys", '{"":1}'),
        ("sort", '{"":1}'),
        ("sort", '{"a.$b":1}'),
        ("sort", '{"a":{"$meta":"nothing"}}'),
        ("hint", "[1]"),
        ("hint", '{"a":"b"}'),
        ("after", "zzz"),
        ("after", "eyJ9"),
        ("shardkey", '{"$where":1}'),
        ("avars", "{"),
    ],
)
async def test_a_bad_parameter_is_the_callers_mistake(api: Api, parameter: str, value: str) -> None:
    reply = await api.get("/things", **{parameter: value})

    assert reply.status in (200, 400, 403, 404), reply.text


async def test_a_view_is_paged_like_a_collection(api: Api) -> None:
    api.things.delete_many({})
    api.things.insert_many({"_id": index, "n": index, "s": "x"} for index in range(5))
    api.mongo[api.db].create_collection("view", viewOn="things", pipeline=[])

    pages = [page async for page in api.follow("/view?sort=-n&pagesize=2&after=")]

    assert [one for page in pages for one in page] == list(api.things.find(sort=[("n", -1)]))
    assert (await api.post("/view", {})).status == 400


async def test_what_a_time_series_cannot_do_is_the_callers_mistake(api: Api) -> None:
    api.mongo[api.db].create_collection("series", timeseries={"timeField": "at"})
    assert (await api.send("POST", "/series", b'{"_id":"a","at":{"$date":0}}')).status == 201

    for method, body in (("PATCH", {"x": 1}), ("PUT", {"x": 1}), ("DELETE", None)):
        assert (await api.send(method, "/series/a", body)).status == 400
    assert (await api.get("/series/a")).json["_id"] == "a"
