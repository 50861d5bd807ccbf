"""What comes out: the forms of each mode, and values that orjson alone would get wrong."""

from __future__ import annotations

import re
from collections import OrderedDict, namedtuple
from datetime import datetime, timedelta, timezone
from enum import Enum, StrEnum
from math import inf, nan
from typing import Any

import orjson
import pytest
from bson import SON

from docgraph.codec import EncodeError, JsonMode, decode, encode, fragment, to_json
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
from docgraph.codec.parse_scalars import build_date

OID = "5d7a4b59cf6eeb5f9a3b8d2e"
DATE = datetime(2019, 9, 12, 13, 42, 49, 260000)
MODES = [mode for mode in JsonMode if mode is not JsonMode.SHELL]

REST_TABLE = {  # rest-behaviour 2.4: int32, int64, double, date, ObjectId
    JsonMode.STANDARD: (
        "1",
        "1568295769260",
        "1.0",
        '{"$date":1568295769260}',
        f'{{"$oid":"{OID}"}}',
    ),
    JsonMode.STRICT: (
        "1",
        '{"$numberLong":"1568295769260"}',
        "1.0",
        '{"$date":1568295769260}',
        f'{{"$oid":"{OID}"}}',
    ),
    JsonMode.EXTENDED: (
        '{"$numberInt":"1"}',
        '{"$numberLong":"1568295769260"}',
        '{"$numberDouble":"1.0"}',
        '{"$date":{"$numberLong":"1568295769260"}}',
        f'{{"$oid":"{OID}"}}',
    ),
    JsonMode.RELAXED: (
        "1",
        "1568295769260",
        "1.0",
        '{"$date":"2019-09-12T13:42:49.26Z"}',
        f'{{"$oid":"{OID}"}}',
    ),
    JsonMode.SHELL: (
        "1",
        'NumberLong("1568295769260")',
        "1.0",
        'ISODate("2019-09-12T13:42:49.260Z")',
        f'ObjectId("{OID}")',
    ),
}


@pytest.mark.parametrize("mode", REST_TABLE)
def test_each_rest_mode_writes_its_column_of_the_table(mode: JsonMode) -> None:
    values = [1, Int64(1568295769260), 1.0, DATE, ObjectId(OID)]

    written = [encode(value, mode).decode() for value in values]

    assert written == list(REST_TABLE[mode])
    assert encode(values, mode).decode() == f"[{','.join(written)}]"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Int64(5), '{"$numberLong":"5"}'),
        (1.5, "1.5"),
        (nan, '{"$numberDouble":"NaN"}'),
        (-inf, '{"$numberDouble":"-Infinity"}'),
        (Decimal128("12.50"), '{"$numberDecimal":"12.50"}'),
        (ObjectId(OID), f'{{"$oid":"{OID}"}}'),
        (Timestamp(7, 3), '{"$timestamp":{"t":7,"i":3}}'),
        (DATE, '{"$date":1568295769260}'),
        (Regex("^a", "mi"), '{"$regex":"^a","$options":"im"}'),
        (3, "3"),
        (True, "true"),
        (None, "null"),
        ("ü", '"ü"'),
    ],
)
def test_graphql_writes_the_table_of_the_service(value: Any, expected: str) -> None:
    """Decision 17: the shapes of the type table, with Float bare."""
    assert encode(value, JsonMode.GRAPHQL).decode() == expected
    assert encode({"a": [value]}, JsonMode.GRAPHQL).decode() == f'{{"a":[{expected}]}}'


def test_graphql_canonical_wraps_doubles_and_graphql_relaxed_writes_longs_bare() -> None:
    """Decision 17: `graphql.json-mode`."""
    document = {"float": 1.5, "long": Int64(5), "int": 5}

    canonical = encode(document, JsonMode.GRAPHQL_CANONICAL)
    relaxed = encode(document, JsonMode.GRAPHQL_RELAXED)

    assert orjson.loads(canonical) == {
        "float": {"$numberDouble": "1.5"},
        "long": {"$numberLong": "5"},
        "int": 5,
    }
    assert orjson.loads(relaxed) == {"float": 1.5, "long": 5, "int": 5}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ObjectId(OID), f'"{OID}"'),
        (Int64(2**53 - 1), "9007199254740991"),
        (Int64(1 - 2**53), "-9007199254740991"),
        (Int64(2**53), '"9007199254740992"'),
        (Int64(-(2**53)), '"-9007199254740992"'),
        (Decimal128("1.50"), '"1.50"'),
        (Decimal128("NaN"), '"NaN"'),
        (DATE, '"2019-09-12T13:42:49.260Z"'),
        (DATE.replace(microsecond=0), '"2019-09-12T13:42:49.000Z"'),
        (DATE.replace(tzinfo=timezone(timedelta(hours=2))), '"2019-09-12T11:42:49.260Z"'),
        (DatetimeMS(0), '"1970-01-01T00:00:00.000Z"'),
        (DatetimeMS(253_402_300_800_000), '"+010000-01-01T00:00:00.000Z"'),
        (DatetimeMS(-62_198_755_200_000), '"-000001-01-01T00:00:00.000Z"'),
        (Timestamp(7, 3), '"7.3"'),
        (b"hi", '"aGk="'),
        (Binary(b"hi", 128), '"aGk="'),
        (Regex("a/b", "xi"), '"/a/b/ix"'),
        (re.compile("a", re.IGNORECASE | re.ASCII), '"/a/i"'),
        (1.5, "1.5"),
        (5, "5"),
    ],
)
def test_graphql_plain_writes_what_every_client_expects(value: Any, expected: str) -> None:
    """Decision 17: `json-mode: plain`."""
    assert encode(value, JsonMode.GRAPHQL_PLAIN).decode() == expected
    assert encode({"a": [value]}, JsonMode.GRAPHQL_PLAIN).decode() == f'{{"a":[{expected}]}}'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (b"hi", '{"$binary":{"base64":"aGk=","subType":"00"}}'),
        (Binary(b"hi", 128), '{"$binary":{"base64":"aGk=","subType":"80"}}'),
        (Regex("a/b", "xi"), '{"$regularExpression":{"pattern":"a/b","options":"ix"}}'),
        (re.compile("a", re.IGNORECASE | re.ASCII), None),
        (MinKey(), '{"$minKey":1}'),
        (MaxKey(), '{"$maxKey":1}'),
        (Code("f()"), '{"$code":"f()"}'),
        (Code("f()", {"x": nan}), '{"$code":"f()","$scope":{"x":{"$numberDouble":"NaN"}}}'),
        (DBRef("c", 1, "d", x=nan), None),
        (DatetimeMS(2**62), '{"$date":4611686018427387904}'),
        (datetime(1969, 12, 31, 23, 59, 59, 999000), '{"$date":-1}'),
    ],
)
def test_standard_writes_the_other_types_as_relaxed_extended_json(
    value: Any, expected: str | None
) -> None:
    written = encode(value).decode()

    assert expected is None or written == expected
    assert encode([value, None]).decode() == f"[{written},null]"


def test_a_reference_is_written_with_its_further_fields() -> None:
    written = encode(DBRef("c", Int64(1), "d", x=inf), JsonMode.STRICT)

    assert orjson.loads(written) == {
        "$ref": "c",
        "$id": {"$numberLong": "1"},
        "$db": "d",
        "x": {"$numberDouble": "Infinity"},
    }


def test_dates_with_an_offset_are_written_in_utc() -> None:
    date = DATE.replace(tzinfo=timezone(timedelta(hours=2)))

    assert encode(date) == b'{"$date":1568288569260}'
    assert encode(date, JsonMode.RELAXED) == b'{"$date":"2019-09-12T11:42:49.26Z"}'


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (datetime(2020, 1, 1), '{"$date":"2020-01-01T00:00:00Z"}'),
        (datetime(1969, 12, 31), '{"$date":{"$numberLong":"-86400000"}}'),
        (DatetimeMS(253402300800000), '{"$date":{"$numberLong":"253402300800000"}}'),
    ],
)
def test_relaxed_dates_are_texts_from_1970_to_9999(value: Any, expected: str) -> None:
    assert encode(value, JsonMode.RELAXED).decode() == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Regex("^a", "mi"), '{"$regex":"^a","$options":"im"}'),
        (b"hi", '{"$binary":"aGk=","$type":"00"}'),
        (Binary(b"hi", 0x8A), '{"$binary":"aGk=","$type":"8A"}'),
        (Timestamp(7, 3), '{"$timestamp":{"t":7,"i":3}}'),
        (Decimal128("1.5"), '{"$numberDecimal":"1.5"}'),
        (MinKey(), '{"$minKey":1}'),
    ],
)
def test_strict_writes_extended_json_1(value: Any, expected: str) -> None:
    assert encode(value, JsonMode.STRICT).decode() == expected
    assert decode(expected) == value


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (nan, "NaN"),
        (inf, "Infinity"),
        (Decimal128("1.5"), 'NumberDecimal("1.5")'),
        (Timestamp(7, 3), "Timestamp(7, 3)"),
        (Int64(-5), "NumberLong(-5)"),
        (Int64(2**31), 'NumberLong("2147483648")'),
        (b"hi", 'new BinData(0, "aGk=")'),
        (Binary(bytes(16), 4), 'new BinData(4, "AAAAAAAAAAAAAAAAAAAAAA==")'),
        (Regex("^a", "i"), "/^a/i"),
        (Regex("a/b", "i"), "/a\\/b/i"),
        (Regex(r"\\/[^/\]]\d*", "i"), r"/\\\/[^\/\]]\d*/i"),
        (Regex(r"a\/b", "i"), r'RegExp("a\\/b", "i")'),
        (Regex("*", ""), 'RegExp("*", "")'),
        (Regex("a/b\n", "i"), 'RegExp("a/b\\n", "i")'),
        (Regex("", ""), 'RegExp("", "")'),
        (DatetimeMS(2**62), "new Date(4611686018427387904)"),
        (MinKey(), "MinKey"),
        (MaxKey(), "MaxKey"),
    ],
)
def test_shell_writes_calls_that_are_read_back(value: Any, expected: str) -> None:
    assert encode(value, JsonMode.SHELL).decode() == expected
    assert decode(expected) == value or value != value  # noqa: PLR0124 - NaN
    assert encode({"a": [value, None]}, JsonMode.SHELL).decode() == f'{{"a":[{expected},null]}}'


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "wrap",
    [
        lambda value: value,
        lambda value: [None, value],
        lambda value: {"a": None, "b": [{"c": (value,)}]},
        lambda value: SON(a=value),
        lambda value: [[1.5, value]],
    ],
)
def test_what_is_not_finite_is_never_written_as_null(mode: JsonMode, wrap: Any) -> None:
    for number, name in ((nan, "NaN"), (inf, "Infinity"), (-inf, "-Infinity")):
        written = encode(wrap(number), mode).decode()

        is_text = mode in (JsonMode.GRAPHQL_PLAIN, JsonMode.CSV)
        expected = f'"{name}"' if is_text else f'{{"$numberDouble":"{name}"}}'
        assert expected in written


class Colour(Enum):
    RED = "red"


class Name(StrEnum):
    FIRST = "first"


Pair = namedtuple("Pair", "left right")


@pytest.mark.parametrize("mode", list(JsonMode))
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("\ud800x", "\ufffdx"),
        ({"\udfff": 1.5}, {"\ufffd": 1.5}),
        ("😀", "😀"),
        ({Name.FIRST: Name.FIRST}, {"first": "first"}),
        (Colour.RED, "red"),
        (SON([("b", "x"), ("a", None)]), {"b": "x", "a": None}),
        (OrderedDict(a=["x"]), {"a": ["x"]}),
        (("x", ("y",)), ["x", ["y"]]),
        (Pair("l", "r"), ["l", "r"]),
        (orjson.Fragment(b'{"x":"y"}'), {"x": "y"}),
    ],
)
def test_python_variants_of_plain_values_are_written_as_these(
    mode: JsonMode, value: Any, expected: Any
) -> None:
    written = encode(value, mode)

    assert written == encode(expected, mode)


@pytest.mark.parametrize("mode", list(JsonMode))
@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"a": [1, {"b": {1}}]}, "a.1.b: a value of the type set has no JSON form"),
        ({"a": {1: 2}}, "a.1: a key of the type int; keys are strings"),
        ({"a": 2**64}, "a: an integer beyond 64 bits has no BSON form"),
        (object(), "a value of the type object has no JSON form"),
    ],
)
def test_a_value_without_a_form_is_named_by_its_path(
    mode: JsonMode, value: Any, message: str
) -> None:
    with pytest.raises(EncodeError) as caught:
        encode(value, mode)

    assert str(caught.value) == message


@pytest.mark.parametrize("mode", list(JsonMode))
@pytest.mark.parametrize("kind", [dict, SON])
def test_the_nesting_of_mongodb_is_written_and_endless_nesting_refused(
    mode: JsonMode, kind: Any
) -> None:
    deep: Any = nan
    for _ in range(200):
        deep = kind(a=deep)
    endless: Any = kind()
    endless["a"] = [endless]

    assert encode(deep, mode).count(b'{"a":') == 200
    with pytest.raises(EncodeError, match="nested deeper than 220 levels"):
        encode(endless, mode)


@pytest.mark.parametrize("mode", list(JsonMode))
def test_embedded_values_are_written_as_they_would_be_alone(mode: JsonMode) -> None:
    document = {"long": Int64(5), "date": DATE, "nan": nan, "regex": Regex("a", "i"), "none": None}
    alone = encode(document, mode)

    assert orjson.dumps({"data": to_json(document, mode)}) == b'{"data":%b}' % alone
    assert orjson.dumps({"data": fragment(document, mode)}) == b'{"data":%b}' % alone
    assert encode({"data": fragment(document, mode)}, mode) == b'{"data":%b}' % alone


@pytest.mark.parametrize(
    ("millis", "text"),
    [
        (1568295769260, "2019-09-12T13:42:49.26Z"),
        (1568295769200, "2019-09-12T13:42:49.2Z"),
        (1568295769026, "2019-09-12T13:42:49.026Z"),
        (1568295769001, "2019-09-12T13:42:49.001Z"),
        (1568295760000, "2019-09-12T13:42:40Z"),
        (0, "1970-01-01T00:00:00Z"),
    ],
)
def test_relaxed_dates_have_no_digits_that_say_nothing(millis: int, text: str) -> None:
    encoded = encode(build_date(millis), JsonMode.RELAXED)

    assert encoded == f'{{"$date":"{text}"}}'.encode()
    assert decode(encoded) == build_date(millis)


@pytest.mark.parametrize("count", [9_999, 10_000, 10_001, 20_000, 25_000])
@pytest.mark.parametrize("mode", [JsonMode.EXTENDED, JsonMode.GRAPHQL_CANONICAL, JsonMode.STANDARD])
def test_large_objects_and_arrays_are_written_in_groups(mode: JsonMode, count: int) -> None:
    numbers = [float("inf"), *range(count - 1)]
    value = {"a": [numbers, {f"k{n}": [n, 1.5] for n in range(count)}], "b": numbers}

    assert encode(value, mode) == orjson.dumps(to_json(value, mode))


def test_a_value_without_a_form_is_named_by_its_path_in_a_large_array() -> None:
    with pytest.raises(EncodeError) as caught:
        encode({"a": [*range(15_000), object()]}, JsonMode.EXTENDED)

    assert str(caught.value).startswith("a.15000: ")
