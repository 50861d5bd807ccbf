"""Values in and out: every scalar, its JSON forms, what does not fit, enums and types."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, ObjectId, Regex, Timestamp
from bson.datetime_ms import DatetimeMS

from tests.expect import present
from tests.http.harness import Document, Mongo, Service, running
from tests.http.hosts import module_application

pytestmark = [pytest.mark.anyio, pytest.mark.json]

OID = ObjectId("64b000000000000000000001")
SCALARS = (
    "String",
    "Int",
    "Float",
    "Boolean",
    "ID",
    "Long",
    "Decimal128",
    "ObjectId",
    "DateTime",
    "Timestamp",
    "Regex",
    "BsonDocument",
    "UUID",
)
VALUES: dict[str, Any] = {
    "String": "text",
    "Int": 7,
    "Float": 2.5,
    "Boolean": True,
    "ID": "id",
    "Long": Int64(9_007_199_254_740_993),
    "Decimal128": Decimal128("1234567890.12345678901234567890"),
    "ObjectId": OID,
    "DateTime": datetime(2024, 2, 29, 12, 30),
    "Timestamp": Timestamp(5, 6),
    "Regex": Regex("^a.*", "i"),
    "BsonDocument": {"long": Int64(1), "double": 1.5, "date": datetime(2020, 1, 1), "x": [1, "a"]},
    "UUID": Binary(bytes(range(16)), 4),
}
STANDARD: dict[str, Any] = {
    "String": "text",
    "Int": 7,
    "Float": 2.5,
    "Boolean": True,
    "ID": "id",
    "Long": {"$numberLong": "9007199254740993"},
    "Decimal128": {"$numberDecimal": "1234567890.12345678901234567890"},
    "ObjectId": {"$oid": str(OID)},
    "DateTime": {"$date": 1709209800000},
    "Timestamp": {"$timestamp": {"t": 5, "i": 6}},
    "Regex": {"$regex": "^a.*", "$options": "i"},
    "BsonDocument": {
        "long": {"$numberLong": "1"},
        "double": 1.5,
        "date": {"$date": 1577836800000},
        "x": [1, "a"],
    },
    "UUID": "00010203-0405-0607-0809-0a0b0c0d0e0f",
}
SCHEMA = (
    "type Query { values: [Value] "
    + " ".join(f"by{name}(v: {name}): [Value]" for name in SCALARS)
    + " byKind(kind: Kind): [Value] things: [Thing] } "
    "type Value { n: Int kind: Kind "
    + " ".join(f"a{name}: {name} l{name}: [{name}]" for name in SCALARS)
    + " } enum Kind { LOW HIGH NAMED OTHER } union Thing = One | Two | Scalar "
    "type One { a: Int } type Two { a: Int b: [Int] } type Scalar { x: Int }"
)


async def prepare_app(service: Service) -> None:
    service.insert("values", {"_id": 0, "n": 1, **{f"a{name}": VALUES[name] for name in SCALARS}})
    queries = {
        f"by{name}": service.find("values", {f"a{name}": {"$arg": "v"}}, sort={"n": 1})
        for name in SCALARS
    }
    queries["values"] = service.find("values", {"_id": 0})
    queries["byKind"] = service.find("kinds", {"kind": {"$arg": "kind"}}, sort={"n": 1})
    queries["things"] = service.find("things", {}, sort={"_id": 1})
    await service.define(
        "values",
        SCHEMA,
        {
            "Query": queries,
            "Kind": {"LOW": 1, "HIGH": 2, "OTHER": None} | {"OTHER": True},
            "Thing": {
                "$typeResolver": {
                    "Two": "field-eq(field=b.0, value=1) and field-exists(a)",
                    "One": "field-eq(field=a, value=1) or field-eq(field=a, value=2.0)",
                    "Scalar": "field-exists(x)",
                }
            },
        },
    )


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri) as service:
        await prepare_app(service)
        yield service


@pytest.fixture
def stored(service: Service) -> Any:
    """`stored(aLong=…)` changes the one document for this test."""
    rows = service.mongo[service.db]["values"]
    before = present(rows.find_one({"_id": 0}))
    yield lambda **fields: rows.update_one({"_id": 0}, {"$set": fields})
    rows.replace_one({"_id": 0}, before)


async def out(service: Service, field: str) -> Any:
    """The value of a field and the message of its error, if there is one."""
    reply = await service.query("values", f"{{ values {{ n {field} }} }}")
    assert reply.status == 200, reply.text
    (row,) = reply.json["data"]["values"]
    assert row["n"] == 1  # other fields answer, whatever happens
    if "errors" not in reply.json:
        return row[field]
    assert row[field] is None
    assert reply.error["path"] == ["values", 0, field]
    return ValueError(reply.error["message"])


# --- out ------------------------------------------------------------------------------------------


async def test_every_scalar_has_the_form_of_the_table(service: Service) -> None:
    """Decision 17."""
    assert {name: await out(service, f"a{name}") for name in SCALARS} == STANDARD


async def test_canonical_and_relaxed_forms_are_options(mongo_client: Mongo, mongo_uri: str) -> None:
    """Decision 17."""
    expected = {
        "canonical": ({"$numberDouble": "2.5"}, STANDARD["Long"], {"$numberDouble": "1.5"}),
        "relaxed": (2.5, 9_007_199_254_740_993, 1.5),
    }
    for mode, (float_, long, inner) in expected.items():
        option = {"graphql": {"json-mode": mode}}
        async with running(mongo_client, mongo_uri, option) as service:
            await prepare_app(service)
            assert await out(service, "aFloat") == float_
            assert await out(service, "aLong") == long
            assert (await out(service, "aBsonDocument"))["double"] == inner
            assert await out(service, "aDateTime") == STANDARD["DateTime"]
            binary = {"$binary": {"base64": "AAECAwQFBgcICQoLDA0ODw==", "subType": "04"}}
            expected_id = binary if mode == "canonical" else STANDARD["UUID"]
            assert await out(service, "aUUID") == expected_id


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("aFloat", 3, 3),
        ("aFloat", Int64(3), 3),
        ("aFloat", float("nan"), {"$numberDouble": "NaN"}),
        ("aFloat", float("-inf"), {"$numberDouble": "-Infinity"}),
        ("aLong", 3, {"$numberLong": "3"}),
        ("aInt", Int64(3), 3),
        ("aInt", 3.0, 3),
        ("aID", 3, "3"),
        ("aID", OID, str(OID)),
        ("aID", Int64(2**60), str(2**60)),
        ("aString", OID, str(OID)),
        ("aString", None, None),
        ("aDateTime", DatetimeMS(253402300800000), {"$date": 253402300800000}),
        ("lInt", [1, Int64(2), None], [1, 2, None]),
        ("lInt", [], []),
        ("lString", None, None),
    ],
)
async def test_what_fits_without_loss_is_given(
    service: Service, stored: Any, field: str, value: Any, expected: Any
) -> None:
    """Decision 16."""
    stored(**{field: value})

    assert await out(service, field) == expected


WRONG: list[Any] = ["text", 2.5, True, OID, {"a": 1}, ["x"], Binary(b"x"), MaxKey(), Code("f")]
FITS = {
    ("String", OID),
    ("ID", "text"),
    ("ID", 2.5),
    ("ID", True),
    ("ID", OID),
    ("ID", Binary(b"x")),
    ("Float", 2.5),
    ("Boolean", True),
    ("ObjectId", OID),
}


@pytest.mark.parametrize("name", [name for name in SCALARS if name != "BsonDocument"])
async def test_a_stored_value_that_does_not_fit_is_null_with_an_error(
    service: Service, stored: Any, name: str
) -> None:
    """Decision 16, drill G14: 200 with partial data, never 500."""
    for value in WRONG:
        if (name, value) in [(n, v) for n, v in FITS if type(v) is type(value)]:
            continue
        if name == "String" and value == "text":
            continue
        stored(**{f"a{name}": value})
        result = await out(service, f"a{name}")
        assert isinstance(result, ValueError), (name, value, result)
        for part in ("object at", "Traceback", "bson.", "Binary("):
            assert part not in str(result)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("aInt", Int64(2**31)),
        ("aInt", 2.5),
        ("aLong", 2.5),
        ("lInt", 5),
        ("lInt", "text"),
        ("lInt", {"0": 1}),
        ("aBsonDocument", [1]),
        ("aBsonDocument", "text"),
    ],
)
async def test_a_value_that_would_lose_something_is_an_error(
    service: Service, stored: Any, field: str, value: Any
) -> None:
    """Decision 16, drills G14 and G15."""
    stored(**{field: value})

    assert isinstance(await out(service, field), ValueError)


async def test_a_bad_element_of_a_list_leaves_the_others(service: Service, stored: Any) -> None:
    """Decision 16, drill G14."""
    stored(lInt=[1, "two", 3])

    reply = await service.query("values", "{ values { lInt } }")

    assert reply.json["data"] == {"values": [{"lInt": [1, None, 3]}]}
    assert reply.error["path"] == ["values", 0, "lInt", 1]


# --- in -------------------------------------------------------------------------------------------

ACCEPTED: dict[str, list[Any]] = {
    "Long": [{"$numberLong": "9007199254740993"}, 9007199254740993, "9007199254740993"],
    "Decimal128": [
        {"$numberDecimal": "1234567890.12345678901234567890"},
        "1234567890.12345678901234567890",
    ],
    "ObjectId": [{"$oid": str(OID)}, str(OID)],
    "DateTime": [
        {"$date": 1709209800000},
        {"$date": "2024-02-29T12:30:00Z"},
        {"$date": {"$numberLong": "1709209800000"}},
        1709209800000,
        "2024-02-29T12:30:00Z",
        "2024-02-29T14:30:00+02:00",
        "1709209800000",
    ],
    "Timestamp": [{"$timestamp": {"t": 5, "i": 6}}],
    "Float": [2.5, {"$numberDouble": "2.5"}][:1],
    "Int": [7],
    "String": ["text"],
    "Boolean": [True],
    "ID": ["id"],
}


def literal(value: Any) -> str:
    """A JSON value as a GraphQL literal; names with $ cannot be written as one."""
    return json.dumps(value)


@pytest.mark.parametrize("name", ACCEPTED)
async def test_every_form_of_a_scalar_is_understood(service: Service, name: str) -> None:
    """Decision 16: in variables and in literals, without loss of precision."""
    for value in ACCEPTED[name]:
        query = f"query ($v: {name}) {{ by{name}(v: $v) {{ n }} }}"
        reply = await service.query("values", query, {"v": value})
        assert reply.data == {f"by{name}": [{"n": 1}]}, value
        if not isinstance(value, dict):
            reply = await service.query("values", f"{{ by{name}(v: {literal(value)}) {{ n }} }}")
            assert reply.data == {f"by{name}": [{"n": 1}]}, value


@pytest.mark.parametrize("text", ["1234567890.12345678901234567890", "9007199254740993"])
async def test_numbers_of_a_body_keep_their_digits(service: Service, text: str) -> None:
    """Decision 16: integers above 2^53 and long decimals as bare JSON numbers."""
    name = "Decimal128" if "." in text else "Long"
    body = (
        f'{{"query": "query ($v: {name}) {{ by{name}(v: $v) {{ n }} }}", '
        f'"variables": {{"v": {text}}}}}'
    )

    reply = await service.send("values", body, "application/json")

    assert reply.data == {f"by{name}": [{"n": 1}]}


BAD: dict[str, list[Any]] = {
    "String": [1, True, [], {}],
    "Int": ["x", 2.5, 2**31, -(2**31) - 1, True, "", [], {}, "0x10"],
    "Float": ["x", True, {}, [], ""],
    "Boolean": ["true", 1, 0, {}, []],
    "ID": [True, {}, [], 2.5],
    "Long": ["x", 2**63, -(2**63) - 1, 2.5, True, {"$numberLong": "x"}, {"$numberLong": 1.5}, []],
    "Decimal128": ["x", True, {"$numberDecimal": "x"}, [], "1" * 35 + ".5", {}],
    "ObjectId": ["a" * 23, "a" * 25, "z" * 24, 5, True, {"$oid": "x"}, {"$oid": 5}, {}, []],
    "DateTime": ["x", "2024-13-01T00:00:00Z", True, {"$date": "x"}, {"$date": []}, [], {}],
    "Timestamp": ["x", True, {"$timestamp": {"t": -1, "i": 1}}, {"$timestamp": {}}, {}, []],
    "Regex": [5, True, [], "a" * 600, {"$regex": 5}, {"$regex": "a", "$options": "q"}],
    "BsonDocument": [1, "x", True, [], [{}]],
    "UUID": [
        "x",
        "",
        "0" * 31,
        "0" * 31 + "g",
        5,
        True,
        {"$uuid": "x"},
        {"$oid": "0" * 24},
        {},
        [],
    ],
}


@pytest.mark.parametrize("name", SCALARS)
async def test_a_bad_value_is_400_and_the_message_names_where(service: Service, name: str) -> None:
    """Decision 16, drills G13 and G15: as a variable and as a literal."""
    for value in BAD[name]:
        query = f"query ($v: {name}) {{ by{name}(v: $v) {{ n }} }}"
        reply = await service.query("values", query, {"v": value})
        assert (reply.status, reply.json["data"]) == (400, None), (value, reply.text)
        assert "$v" in reply.error["message"]
        assert "Traceback" not in reply.text
        if "$" not in json.dumps(value) and not isinstance(value, dict | list):
            query = f"{{ by{name}(v: {literal(value)}) {{ n }} }}"
            reply = await service.query("values", query)
            assert (reply.status, reply.json["data"]) == (400, None), (value, reply.text)
            assert reply.error["message"].startswith("Argument 'v' has invalid value: ")
            assert reply.error["locations"]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1e-400"])
async def test_numbers_beyond_a_double_are_never_changed_silently(
    service: Service, number: str
) -> None:
    """Drill G15."""
    body = (
        '{"query": "query ($v: Float) { byFloat(v: $v) { n } }", '
        f'"variables": {{"v": {number}}}}}'
    )

    reply = await service.send("values", body, "application/json")

    assert reply.status in (200, 400)
    if number != "1e-400":
        assert reply.status == 400


async def test_a_document_argument_keeps_the_types_of_its_values(service: Service) -> None:
    """Decision 16."""
    for value in (
        STANDARD["BsonDocument"],
        {**STANDARD["BsonDocument"], "date": {"$date": "2020-01-01T00:00:00Z"}},
    ):
        query = "query ($v: BsonDocument) { byBsonDocument(v: $v) { n } }"
        reply = await service.query("values", query, {"v": value})
        assert reply.data == {"byBsonDocument": [{"n": 1}]}


# --- enums ----------------------------------------------------------------------------------------


async def test_enums_map_names_to_stored_values_both_ways(service: Service) -> None:
    """`service.md` on enums; numbers by value."""
    kinds = service.mongo[service.db]["kinds"]
    kinds.insert_many(
        [{"n": 1, "kind": 1}, {"n": 2, "kind": 2.0}, {"n": 3, "kind": "NAMED"}, {"n": 4, "kind": 9}]
    )
    try:
        for name, expected in (("LOW", [1]), ("HIGH", [2]), ("NAMED", [3])):
            reply = await service.query("values", f"{{ byKind(kind: {name}) {{ n kind }} }}")
            assert reply.data == {"byKind": [{"n": n, "kind": name} for n in expected]}
            query = "query ($k: Kind) { byKind(kind: $k) { n } }"
            reply = await service.query("values", query, {"k": name})
            assert reply.data == {"byKind": [{"n": n} for n in expected]}
    finally:
        kinds.drop()


async def test_a_stored_value_that_is_no_value_of_the_enum_is_an_error(
    service: Service, stored: Any
) -> None:
    """Drill G14."""
    stored(kind=9)

    assert isinstance(await out(service, "kind"), ValueError)


@pytest.mark.parametrize("value", ["NOPE", "low", 1, True, None.__class__.__name__])
async def test_an_unknown_name_of_an_enum_is_400(service: Service, value: Any) -> None:
    """Drill G13."""
    reply = await service.query(
        "values", "query ($k: Kind) { byKind(kind: $k) { n } }", {"k": value}
    )

    assert reply.status == 400


# --- types ----------------------------------------------------------------------------------------


async def test_the_first_true_predicate_chooses_the_type(service: Service) -> None:
    """Decision 18: in the order of declaration, numbers by value, paths into arrays."""
    things = service.mongo[service.db]["things"]
    rows: list[Document] = [
        {"_id": 1, "a": 1, "b": [1.0]},
        {"_id": 2, "a": Int64(1)},
        {"_id": 3, "a": 2},
        {"_id": 4, "x": None},
        {"_id": 5, "a": 3},
    ]
    things.insert_many(rows)
    try:
        reply = await service.query("values", "{ things { __typename ... on Two { b } } }")
    finally:
        things.drop()

    assert reply.json["data"]["things"] == [
        {"__typename": "Two", "b": [1]},
        {"__typename": "One"},
        {"__typename": "One"},
        {"__typename": "Scalar"},
        None,
    ]
    assert reply.error["path"] == ["things", 4]
    assert reply.error["extensions"]["classification"] == "DataFetchingException"
