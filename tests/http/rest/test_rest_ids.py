"""Ids of every type, in paths and in addresses."""

from __future__ import annotations

import re
from datetime import datetime
from math import inf, nan
from typing import Any

import pytest
from bson import (
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Timestamp,
)
from bson.raw_bson import RawBSONDocument

from docgraph.store.driver.lenient_decode import encode_bson
from tests.http.rest_harness import Api, relative

pytestmark = [pytest.mark.anyio, pytest.mark.json]

OID = ObjectId("5" * 24)


@pytest.mark.parametrize(
    ("id", "path"),
    [
        (OID, f"/things/{OID}"),
        ("abc", "/things/abc"),
        ("a/b", "/things/a%2Fb"),
        ("a b+c", "/things/a%20b%2Bc"),
        ("日本", "/things/%E6%97%A5%E6%9C%AC"),
        (str(OID), f"/things/{OID}?id_type=STRING"),
        (5, "/things/5?id_type=NUMBER"),
        (Int64(1 << 40), "/things/1099511627776?id_type=NUMBER"),
        (1.5, "/things/1.5?id_type=NUMBER"),
        (datetime(1970, 1, 1, 0, 0, 1), "/things/1000?id_type=DATE"),
        (True, "/things/_true"),
        (False, "/things/_false"),
        (None, "/things/_null"),
        (MinKey(), "/things/_MinKey"),
        (MaxKey(), "/things/_MaxKey"),
    ],
)
async def test_a_document_is_found_at_the_address_it_was_given(
    api: Api, id: Any, path: str
) -> None:
    posted = await api.post("/things", {"_id": id, "here": True})
    assert relative(posted.headers["location"]) == path

    assert (await api.get(path)).json["here"] is True
    assert (await api.patch(path, {"more": 1})).status == 200
    assert (await api.put(path, {"all": 1})).status == 200
    assert api.things.find_one({}, {"_etag": 0}) == {"_id": id, "all": 1}
    assert (await api.delete(path)).status == 204


async def test_a_document_as_id_has_no_address_but_is_found_by_filter(api: Api) -> None:
    posted = await api.post("/things", {"_id": {"a": 1}})

    assert posted.status == 201
    assert "location" not in posted.headers
    assert len((await api.get("/things", filter={"_id": {"a": 1}})).json) == 1


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("/things/x?id_type=NUMBER", "wrong document id format: not a valid NUMBER"),
        ("/things/x?id_type=oid", "wrong document id format: not a valid OID"),
        ("/things/x?id_type=DATE", "wrong document id format: not a valid DATE"),
        ("/things/x?id_type=guid", "illegal id_type parameter; must be [OID, STRING_OID, "),
    ],
)
async def test_an_id_that_is_not_of_its_type_is_400(api: Api, path: str, message: str) -> None:
    reply = await api.get(path)

    assert reply.status == 400
    assert reply.json["message"].startswith(message)


async def test_an_id_is_made_only_where_object_ids_are_meant(api: Api) -> None:
    assert (await api.post("/things", {}, id_type="OID")).status == 201

    reply = await api.post("/things", {}, id_type="NUMBER")

    assert (reply.status, reply.json["message"]) == (
        400,
        "_id in content body is mandatory for documents with id type NUMBER",
    )


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("PUT", "/things/_properties"),
        ("GET", "/things/_properties.things"),
        ("GET", "/_properties"),
        ("GET", "/system.users"),
        ("POST", "/x.chunks"),
    ],
)
async def test_reserved_names_are_403(api: Api, method: str, path: str) -> None:
    reply = await api.send(method, path, {} if method != "GET" else None, wm="upsert")

    assert (reply.status, reply.json["message"]) == (403, "reserved resource")


@pytest.mark.parametrize(
    ("segment", "name"),
    [
        ("x", "'x'"),
        (str(OID), str(OID)),
        ("5?id_type=NUMBER", "5"),
        ("5?id_type=DATE", "{'$date':5}"),
        ("_null", "null"),
        ("_true", "true"),
        ("_MinKey", "{'$minKey':1}"),
    ],
)
async def test_a_missing_document_is_named(api: Api, segment: str, name: str) -> None:
    """A text in quotes, an ObjectId without, others as JSON; quotes in messages are single ones."""
    for method in ("GET", "DELETE"):
        reply = await api.send(method, f"/things/{segment}")

        assert (reply.status, reply.json["message"]) == (404, f"document {name} does not exist")


async def test_a_document_with_a_reserved_id_is_a_reserved_resource(api: Api) -> None:
    """An array tells which one of its elements is meant."""
    one = await api.post("/things", {"_id": "_properties.x"})
    many = await api.post("/things", [{"_id": "_properties.x"}])

    assert (one.status, one.json["message"]) == (403, "reserved resource")
    assert (many.status, many.json["message"]) == (403, "id is reserved: _properties.x")


UNADDRESSED = [
    *("", ".", "..", "*", "_size", "_meta", "_indexes", "_aggrs", "_streams", "_SIZE", "_Schemas"),
    *("_null", "_true", "_false", "_MinKey", "_maxkey", "_NULL", "a\0b"),
]


@pytest.mark.parametrize("id", UNADDRESSED)
async def test_a_text_that_no_path_leads_to_cannot_become_an_id(api: Api, id: str) -> None:
    for mode in ("insert", "upsert"):
        one = await api.post("/things", {"_id": id}, wm=mode)
        several = await api.post("/things", [{"_id": "fine"}, {"_id": id}], wm=mode)

        assert (one.status, several.status) == (400, 400)
        assert several.json["details"] == {"index": 1}
    assert api.things.count_documents({}) == 0


@pytest.mark.parametrize("id", ["_x", "_schemas", "_sizes", "...", "**", "_sessions", "a*"])
async def test_a_text_that_only_looks_like_one_of_those_is_an_id(api: Api, id: str) -> None:
    made = await api.post("/things", {"_id": id})

    assert made.status == 201
    assert (await api.get(relative(made.headers["location"]))).json["_id"] == id


@pytest.mark.parametrize("id", [float("nan"), float("inf")])
async def test_a_number_that_no_path_leads_to_has_no_address(api: Api, id: float) -> None:
    made = await api.post("/things", {"_id": id})

    assert (made.status, "location" in made.headers) == (201, False)


# One of every kind that the database accepts as an id, and the special values of each.
STORABLE: list[Any] = [
    *(MinKey(), MaxKey(), None, True, False),
    *(0, -1, Int64(1 << 62), 0.5, -1e300, 5e-324, inf, -inf, nan),
    *map(Decimal128, ("1.10", "1E+6000", "-1E-6000")),
    *("text", "a/b?c#d%e", "ä", str(OID), "1", "null"),
    *({}, {"a": 1}, {"b": {"a": [1, None]}}, DBRef("things", 5)),
    *(b"", b"x", b"\xff/+"),
    *(Binary(b"x" * 16, subtype) for subtype in (1, 2, 3, 4, 5, 6, 7, 8, 128, 254)),
    Binary(b"", 128),
    *(OID, datetime(2024, 5, 1), DatetimeMS(1 << 60), DatetimeMS(-(1 << 60))),
    *(Timestamp(1, 2), Timestamp(0xFFFFFFFF, 0xFFFFFFFF)),
    *(Code("x"), Code("x", {}), Code("x", {"a": 1})),
]


@pytest.mark.parametrize(
    ("sort", "mode"),
    [
        *((sort, "standard") for sort in (None, "_id", "-_id", "n")),
        *((None, mode) for mode in ("strict", "extended", "relaxed", "shell")),
    ],
)
async def test_pages_lead_past_every_id_that_can_be_stored(
    api: Api, sort: str | None, mode: str
) -> None:
    ids = [*STORABLE, Binary(b"x", 255), {"a": Binary(b"x", 255)}]  # JSON cannot name these
    documents = [{"_id": id, "n": 1, "m": f"mark{number}"} for number, id in enumerate(ids)]
    api.things.insert_many(RawBSONDocument(encode_bson(one)) for one in documents)
    order = {"n": 1, "_id": 1} if sort == "n" else {"_id": 1 if sort == "_id" else -1}
    expected = [one["m"] for one in api.things.find({}, {"m": 1, "_id": 0}).sort(order)]

    sorted_by = "" if sort is None else f"&sort={sort}&after="
    path: str | None = f"/things?pagesize=1&jsonMode={mode}{sorted_by}"
    found: list[str] = []
    while path is not None and len(found) <= len(expected):
        reply = await api.send("GET", path)
        assert reply.status == 200, reply.text
        found += re.findall("mark[0-9]+", reply.text)
        path = reply.headers["link"].split(";")[0].strip("<>") if "link" in reply.headers else None

    assert found == expected


@pytest.mark.parametrize("id", STORABLE, ids=repr)
async def test_every_id_that_can_be_stored_has_an_address_or_is_found_by_filter(
    api: Api, id: Any
) -> None:
    posted = await api.post("/things", {"_id": id, "n": 7})
    assert posted.status == 201, posted.text
    assert api.things.count_documents({"_id": {"$eq": id}, "n": 7}) == 1

    location = posted.headers.get("location")
    if location is None:
        reply = await api.get("/things", filter={"_id": {"$eq": id}}, keys={"n": 1, "_id": 0})
        assert reply.json == [{"n": 7}]
    else:
        assert (await api.get(relative(location))).json["n"] == 7
        assert (await api.delete(relative(location))).status == 204
        assert api.things.count_documents({}) == 0
