"""Scalars out (decisions 16 and 17) and in (decision 16)."""

from __future__ import annotations

import json
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
import pytest
from graphql import GraphQLError, parse_const_value, parse_value

from docgraph.codec.bson_types import (
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from docgraph.codec.forms import JsonMode
from docgraph.graphql.definition.inputs import ExactFloat
from docgraph.graphql.definition.mapping import EnumMapping
from docgraph.graphql.definition.scalars import (
    BSON_SCALARS,
    JSON_MODES,
    PLAIN_BSON_SCALARS,
    SCALARS,
    serializer,
)
from docgraph.graphql.definition.standard_scalars import FLOAT
from docgraph.variables import CallerDocument
from docgraph_workbench.fuzz.fuzz_values import KINDS as FUZZED
from docgraph_workbench.infer.object_types import RESERVED_TYPES
from docgraph_workbench.infer.profile import SCALARS as INFERRED

ID = ObjectId("64b5f0a1c2d3e4f5a6b7c8d9")
DATE = datetime(2024, 5, 31, 12, 0, 0, 123_000)
MILLIS = 1717156800123


def show(type_name: str, value: Any, mode: JsonMode = JsonMode.GRAPHQL) -> Any:
    return json.loads(orjson.dumps(serializer(type_name, mode)(value)))


def read(type_name: str, value: Any) -> Any:
    return BSON_SCALARS[type_name].coerce_input_value(value)


def read_literal(type_name: str, text: str) -> Any:
    return BSON_SCALARS[type_name].parse_literal(parse_value(text))


# --- out -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_name", "value", "expected"),
    [
        ("String", "a", "a"),
        ("String", ID, str(ID)),
        ("Int", 5, 5),
        ("Int", Int64(5), 5),
        ("Int", 5.0, 5),
        ("Int", -(2**31), -(2**31)),
        ("Float", 1.5, 1.5),
        ("Float", 2, 2.0),
        ("Float", Int64(2**53), 2.0**53),
        ("Float", float("nan"), {"$numberDouble": "NaN"}),
        ("Float", float("-inf"), {"$numberDouble": "-Infinity"}),
        ("Boolean", True, True),
        ("Long", Int64(2**62), {"$numberLong": str(2**62)}),
        ("Long", 5, {"$numberLong": "5"}),
        ("Long", 5.0, {"$numberLong": "5"}),
        ("Decimal128", Decimal128("1.10"), {"$numberDecimal": "1.10"}),
        ("Decimal128", 3, {"$numberDecimal": "3"}),
        ("ObjectId", ID, {"$oid": str(ID)}),
        ("Timestamp", Timestamp(1, 2), {"$timestamp": {"t": 1, "i": 2}}),
        ("DateTime", DATE, {"$date": MILLIS}),
        ("DateTime", DatetimeMS(2**60), {"$date": 2**60}),
        ("Regex", Regex("^a", "i"), {"$regex": "^a", "$options": "i"}),
        ("BsonDocument", {"a": Int64(1)}, {"a": {"$numberLong": "1"}}),
        ("ID", "a", "a"),
        ("ID", 5, "5"),
        ("ID", Int64(5), "5"),
        ("ID", 1.5, "1.5"),
        ("ID", True, "true"),
        ("ID", ID, str(ID)),
        ("ID", Decimal128("1.10"), "1.10"),
        ("ID", DATE, "2024-05-31T12:00:00.123Z"),
        ("ID", Timestamp(1, 2), "1:2"),
        ("ID", Binary(UUID(int=1).bytes, 4), str(UUID(int=1))),
        ("ID", b"\x01", "AQ=="),
    ],
)
def test_stored_values_are_shown(type_name: str, value: Any, expected: Any) -> None:
    """Decisions 16 and 17."""
    shown = show(type_name, value)

    assert shown == expected
    assert type(shown) is type(expected)


def test_canonical_mode_wraps_floats_too() -> None:
    """Decision 17."""
    assert show("Float", 2, JsonMode.GRAPHQL_CANONICAL) == {"$numberDouble": "2.0"}
    assert show("Long", 2, JsonMode.GRAPHQL_CANONICAL) == {"$numberLong": "2"}


def test_relaxed_mode_shows_bare_longs() -> None:
    """Decision 17."""
    assert show("Long", Int64(2**53), JsonMode.GRAPHQL_RELAXED) == 2**53
    assert show("BsonDocument", {"a": Int64(1)}, JsonMode.GRAPHQL_RELAXED) == {"a": 1}


@pytest.mark.parametrize(
    ("type_name", "value", "expected"),
    [
        ("Float", 1.5, 1.5),
        ("Float", float("-inf"), "-Infinity"),
        ("Long", Int64(2**53 - 1), 2**53 - 1),
        ("Long", Int64(2**53), str(2**53)),
        ("Long", 5.0, 5),
        ("Decimal128", 3, "3"),
        ("ObjectId", ID, str(ID)),
        ("Timestamp", Timestamp(1, 2), "1.2"),
        ("DateTime", DATE, "2024-05-31T12:00:00.123Z"),
        ("DateTime", DatetimeMS(8_640_000_000_000_000), "+275760-09-13T00:00:00.000Z"),
        ("Regex", Regex("^a", "i"), "/^a/i"),
        ("BsonDocument", {"a": [Int64(1), ID, b"hi"]}, {"a": [1, str(ID), "aGk="]}),
    ],
)
def test_plain_mode_shows_texts_and_numbers(type_name: str, value: Any, expected: Any) -> None:
    """Decision 17."""
    assert show(type_name, value, JsonMode.GRAPHQL_PLAIN) == expected


WRONG: dict[str, list[Any]] = {
    "String": [1, True, 1.5, {}, [], DATE],
    "Int": ["1", True, 1.5, 2**31, Int64(2**40), Decimal128("1"), {}, float("nan")],
    "Float": ["1", True, Int64(2**53 + 1), Decimal128("1"), {}],
    "Boolean": [0, "true", 1.0, {}],
    "ID": [{}, []],
    "Long": ["1", True, 1.5, Decimal128("1"), {}, float("inf")],
    "Decimal128": [1.5, "1", True, {}],
    "ObjectId": [str(ID), 1, {}],
    "Timestamp": [1, DATE, {}],
    "DateTime": [MILLIS, "2024-05-31T12:00:00Z", {}],
    "Regex": ["^a", 1, {}],
    "BsonDocument": [[], "a", 1],
}


@pytest.mark.parametrize(
    ("type_name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_value_that_does_not_fit_is_an_error_without_the_value(
    type_name: str, value: Any
) -> None:
    """Decision 16, reliability G14."""
    with pytest.raises(ValueError, match=rf"^{type_name} cannot represent a stored"):
        serializer(type_name, JsonMode.GRAPHQL)(value)


# A value of each BSON type, by the name that the database has for the type.
STORED: dict[str, Any] = {
    "double": 1.5,
    "string": "a",
    "object": {},
    "array": [],
    "binary": Binary(b"x", 128),
    "objectId": ID,
    "boolean": True,
    "date": DATE,
    "regex": Regex("a"),
    "javascript": Code("f"),
    "int": 1,
    "timestamp": Timestamp(1, 2),
    "long": Int64(5),
    "decimal": Decimal128("1.5"),
    "minKey": MinKey(),
    "maxKey": MaxKey(),
    "DBRef": DBRef("c", 1),
}
FITTING = {
    "String": {"string", "objectId"},
    "Int": {"int", "long"},
    "Float": {"double", "int", "long"},
    "Boolean": {"boolean"},
    "ID": set(STORED) - {"object", "array", "regex", "javascript", "minKey", "maxKey", "DBRef"},
    "Long": {"int", "long"},
    "Decimal128": {"int", "long", "decimal"},
    "ObjectId": {"objectId"},
    "Timestamp": {"timestamp"},
    "DateTime": {"date"},
    "Regex": {"regex"},
    "UUID": set(),
    "BsonDocument": {"object", "DBRef"},
}


@pytest.mark.parametrize("type_name", FITTING)
def test_a_value_of_each_other_type_is_an_error_that_names_the_type(type_name: str) -> None:
    show_value = serializer(type_name, JsonMode.GRAPHQL)
    for kind, value in [*STORED.items(), ("javascript", Code("f", {"a": 1}))]:
        if kind in FITTING[type_name]:
            show_value(value)
            continue
        with pytest.raises(ValueError, match=rf"stored (value of type )?{kind}\b"):
            show_value(value)


def test_code_is_no_value_of_an_enum() -> None:
    with pytest.raises(ValueError, match="enum E has no name"):
        EnumMapping("E", {"F": "f"}).name_of(Code("f"))


# --- in --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("type_name", "value", "expected"),
    [
        ("Long", 5, Int64(5)),
        ("Long", 2**63 - 1, Int64(2**63 - 1)),
        ("Long", "9007199254740993", Int64(9007199254740993)),
        ("Long", 9007199254740993, Int64(9007199254740993)),
        ("Long", {"$numberLong": "-5"}, Int64(-5)),
        ("Long", 2.0, Int64(2)),
        ("Long", Decimal("2"), Int64(2)),
        ("Decimal128", ExactFloat("1.10"), Decimal128("1.10")),
        ("Decimal128", Decimal("1.10"), Decimal128("1.10")),
        (
            "Decimal128",
            ExactFloat("0.1000000000000000055511151231257827"),
            Decimal128("0.1000000000000000055511151231257827"),
        ),
        ("Decimal128", 3, Decimal128("3")),
        ("Decimal128", "1e3", Decimal128("1E+3")),
        ("Decimal128", {"$numberDecimal": "2.50"}, Decimal128("2.50")),
        ("ObjectId", str(ID), ID),
        ("ObjectId", {"$oid": str(ID)}, ID),
        ("ObjectId", json.dumps({"$oid": str(ID)}), ID),
        ("DateTime", "2024-05-31T12:00:00.123Z", DATE),
        ("DateTime", "2024-05-31T14:00:00.123+02:00", DATE),
        ("DateTime", "2024-05-31T12:00:00.123000Z", DATE),
        ("DateTime", MILLIS, DATE),
        ("DateTime", str(MILLIS), DATE),
        ("DateTime", "2026-11", datetime(2026, 11, 1)),
        ("DateTime", "2026-11-10", datetime(2026, 11, 10)),
        ("DateTime", "2026-11-10T01:00-05:00", datetime(2026, 11, 10, 6)),
        ("DateTime", {"$date": MILLIS}, DATE),
        ("DateTime", {"$date": {"$numberLong": str(MILLIS)}}, DATE),
        ("DateTime", {"$date": "2024-05-31T12:00:00.123Z"}, DATE),
        ("DateTime", 253402300800000, DatetimeMS(253402300800000)),
        ("DateTime", "-1", datetime(1969, 12, 31, 23, 59, 59, 999_000)),
        ("Timestamp", {"$timestamp": {"t": 1, "i": 2}}, Timestamp(1, 2)),
        ("Timestamp", {"t": 1, "i": 2}, Timestamp(1, 2)),
        ("Timestamp", "1:2", Timestamp(1, 2)),
        ("Regex", "^a", Regex("^a")),
        ("Regex", {"$regex": "^a"}, Regex("^a")),
        ("Regex", {"$regex": "^a", "$options": "i"}, Regex("^a", "i")),
        ("Regex", {"$regularExpression": {"pattern": "^a", "options": "im"}}, Regex("^a", "im")),
        ("BsonDocument", {"a": 1}, {"a": 1}),
        ("BsonDocument", {"a": 2**40, "b": [1.5, None]}, {"a": Int64(2**40), "b": [1.5, None]}),
        ("BsonDocument", {"a": {"$oid": str(ID)}}, {"a": ID}),
        ("BsonDocument", {"a": {"$gt": {"$date": MILLIS}}}, {"a": {"$gt": DATE}}),
        ("BsonDocument", '{"a": {"$in": [{"$numberLong": "1"}]}}', {"a": {"$in": [Int64(1)]}}),
    ],
)
def test_every_form_is_taken_in_variables(type_name: str, value: Any, expected: Any) -> None:
    """Decision 16."""
    taken = read(type_name, value)

    assert taken == expected
    assert isinstance(taken, type(expected))


@pytest.mark.parametrize(
    ("type_name", "literal", "expected"),
    [
        ("Long", "9007199254740993", Int64(9007199254740993)),
        ("Long", '"5"', Int64(5)),
        ("Decimal128", "1.10", Decimal128("1.10")),
        (
            "Decimal128",
            "0.30000000000000000000000000000001",
            Decimal128("0.30000000000000000000000000000001"),
        ),
        ("ObjectId", f'"{ID}"', ID),
        ("ObjectId", r'"{\"$oid\": \"64b5f0a1c2d3e4f5a6b7c8d9\"}"', ID),
        ("DateTime", str(MILLIS), DATE),
        ("DateTime", '"2024-05-31T12:00:00.123Z"', DATE),
        ("Timestamp", "{t: 1, i: 2}", Timestamp(1, 2)),
        ("Regex", '"^a"', Regex("^a")),
        (
            "BsonDocument",
            '{a: 1, b: [1, "x", true, null, E], c: {d: 1.5, e: 4294967296}}',
            {"a": 1, "b": [1, "x", True, None, "E"], "c": {"d": 1.5, "e": Int64(4294967296)}},
        ),
        ("BsonDocument", r'"{\"a\": {\"$gt\": 1}}"', {"a": {"$gt": 1}}),
    ],
)
def test_every_form_is_taken_in_literals(type_name: str, literal: str, expected: Any) -> None:
    """Decision 16."""
    taken = read_literal(type_name, literal)

    assert taken == expected
    assert isinstance(taken, type(expected))


def test_variables_inside_a_document_literal_are_taken_as_coerced() -> None:
    node = parse_value("{a: $x, b: [$y]}")

    taken = BSON_SCALARS["BsonDocument"].parse_literal(node, {"x": ID, "y": Int64(1)})

    assert taken == {"a": ID, "b": [Int64(1)]}


def test_a_document_is_marked_as_the_callers() -> None:
    """Decision 20a."""
    taken = read("BsonDocument", {"a": {"b": [{"c": 1}]}})

    assert isinstance(taken, CallerDocument)
    assert isinstance(taken["a"], CallerDocument)
    assert isinstance(taken["a"]["b"][0], CallerDocument)


BAD: dict[str, list[Any]] = {
    "Long": [2**63, -(2**63) - 1, 1.5, "x", "1.0", True, [], {"$numberLong": "x"}, {"a": 1}, 1e300],
    "Decimal128": ["x", "1" * 35, True, [], {"$numberDecimal": 1}, {"$oid": str(ID)}, float("inf")],
    "ObjectId": ["a" * 23, "a" * 25, "z" * 24, 5, True, [], {"$oid": "x"}, {"a": 1}, "{"],
    "DateTime": [
        "10.11.2026",
        "11/10/2026",
        "20261110",
        "202611",
        "2026",
        "2026-13",
        "10000-01-01T00:00:00Z",
        "2024-02-30T00:00:00Z",
        "yesterday",
        "2024-05-31T12:00:00.1234Z",
        1.5,
        2**63,
        True,
        [],
        {"$date": "x"},
    ],
    "Timestamp": [5, "5", {"t": -1, "i": 0}, {"t": 2**32, "i": 0}, {"t": 1}, "1:2:3", []],
    "Regex": [
        "a" * 513,
        5,
        {"$regex": "a", "$options": "u"},
        {"$regex": "a", "$options": "z"},
        "\0",
    ],
    "BsonDocument": [[], "x", "{", 5, True, {"a": 2**64}, {"$oid": str(ID)}, {"a": {"$oid": 1}}],
}


@pytest.mark.parametrize(
    ("type_name", "value"), [(name, value) for name, values in BAD.items() for value in values]
)
def test_what_does_not_fit_is_refused_with_a_reason(type_name: str, value: Any) -> None:
    """Decision 16, reliability G13 and G15."""
    with pytest.raises((ValueError, GraphQLError)) as error:
        read(type_name, value)

    assert str(error.value)
    assert "Traceback" not in str(error.value)


def test_an_exact_float_is_a_float_that_knows_its_text() -> None:
    body = '{"a": 1.10, "b": 2, "c": 1e400}'

    parsed = json.loads(body, parse_float=ExactFloat)

    assert parsed["a"] == 1.1
    assert parsed["a"].text == "1.10"
    assert isinstance(parsed["b"], int)


@pytest.mark.parametrize(
    ("type_name", "value"),
    [
        ("Float", 1.5),
        ("Float", 2.0),
        ("Float", float("inf")),
        ("Long", Int64(2**60)),
        ("Decimal128", Decimal128("1.10")),
        ("ObjectId", ID),
        ("DateTime", DATE),
        ("DateTime", DatetimeMS(2**50)),
        ("DateTime", DatetimeMS(-(2**63))),
        ("Timestamp", Timestamp(1, 2)),
        ("Regex", Regex("^a", "i")),
        ("Regex", Regex("/a/b/", "")),
        ("BsonDocument", {"a": Int64(1), "b": [1.5, Decimal128("1")], "c": {"d": ID}}),
    ],
)
@pytest.mark.parametrize("mode", JSON_MODES.values())
def test_every_form_that_is_given_is_taken(type_name: str, value: Any, mode: JsonMode) -> None:
    """Decision 16."""
    form = show(type_name, value, mode)
    scalars = PLAIN_BSON_SCALARS if mode is JsonMode.GRAPHQL_PLAIN else BSON_SCALARS
    scalar = FLOAT if type_name == "Float" else scalars[type_name]

    taken = scalar.coerce_input_value(form)

    assert show(type_name, taken, mode) == form


@pytest.mark.parametrize("text", ["/usr/lib", "/a", "a/i", "^/$"])
def test_a_text_without_options_behind_its_last_slash_is_a_pattern(text: str) -> None:
    assert PLAIN_BSON_SCALARS["Regex"].coerce_input_value(text) == Regex(text, "")


def test_slashes_belong_to_the_pattern_in_the_modes_that_do_not_write_them() -> None:
    assert read("Regex", "/a/i") == Regex("/a/i", "")


@pytest.mark.parametrize(
    ("text", "millis"),
    [
        ("+010000-01-01T00:00:00.000Z", 253_402_300_800_000),
        ("-000001-01-01T00:00:00Z", -62_198_755_200_000),
        ("+010000-01-01T00:30:00+01:00", 253_402_299_000_000),
    ],
)
def test_dates_of_far_years_have_a_sign_and_six_digits(text: str, millis: int) -> None:
    taken = read("DateTime", text)

    assert show("DateTime", taken) == {"$date": millis}


@pytest.mark.parametrize("text", ["+010000-02-30T00:00:00Z", "+999999999-01-01T00:00:00Z"])
def test_far_years_have_their_calendar_and_their_end(text: str) -> None:
    with pytest.raises(ValueError, match=r"calendar|out of range"):
        read("DateTime", text)


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_the_names_of_what_json_cannot_write_are_floats(text: str) -> None:
    """Decision 16: in variables and in literals."""
    literal = FLOAT.coerce_input_literal
    assert literal is not None
    for taken in (FLOAT.coerce_input_value(text), literal(parse_const_value(f'"{text}"'))):
        assert show("Float", taken, JsonMode.GRAPHQL_PLAIN) == text


@pytest.mark.parametrize("value", [{"$numberDouble": "x"}, {"$numberLong": "5"}, {}, "1.5", True])
def test_what_is_no_double_is_no_float(value: Any) -> None:
    with pytest.raises((GraphQLError, ValueError)):
        FLOAT.coerce_input_value(value)


# --- one entry in each layer -----------------------------------------------------------------

ROOT = Path(__file__).parents[4]


@pytest.mark.parametrize("name", SCALARS)
def test_every_layer_has_an_entry_for_each_scalar(name: str) -> None:
    assert name in RESERVED_TYPES
    assert name in INFERRED.values()
    assert name in FUZZED or name == "Regex", "a pattern is no value of documents"
    assert f'"{name}" =>' in (ROOT / "native/src/program.rs").read_text()
    assert f"`{name}`" in (ROOT / "docs/reference/definitions.md").read_text()
