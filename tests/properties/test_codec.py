"""Round trips of every BSON value, agreement with the driver's own codec, one family of errors."""

from __future__ import annotations

from datetime import datetime
from decimal import DecimalException
from typing import Any

import bson
from bson import json_util
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.json_util import JSONMode, JSONOptions
from hypothesis import example, given
from hypothesis import strategies as st

from docgraph.codec import (
    JsonMode,
    as_meant,
    as_written,
    decode,
    decode_json,
    encode,
    escape_keys,
    to_stored,
    unescape_keys,
)
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
    binary_text,
    is_uuid,
)
from docgraph.codec.lenient import parse
from docgraph.codec.parse_scalars import parse_decimal, render_decimal
from docgraph.exchange.errors import BodyError

NO_SURROGATES: Any = {"blacklist_categories": ["Cs"]}
TEXTS = st.text(st.characters(**NO_SURROGATES), max_size=20)
# Not a type key, which would make the object something else, and without NUL.
KEYS = st.text(
    st.characters(**NO_SURROGATES, blacklist_characters="\0$"), max_size=10
) | st.sampled_from(["$gt", "$in", "$set", "a.b", "_$x", "null", ":", "::"])
UINT32 = st.integers(0, 2**32 - 1)

PLAIN = (
    st.none()
    | st.booleans()
    | st.integers(-(2**31), 2**31 - 1)
    | st.floats(allow_nan=False)
    | TEXTS
    | st.integers(-(2**63), 2**63 - 1).map(Int64)
    | st.binary(min_size=12, max_size=12).map(ObjectId)
    | st.datetimes(min_value=datetime(1, 1, 1)).map(
        lambda date: date.replace(microsecond=date.microsecond // 1000 * 1000)
    )
    | st.integers(253402300800000, 2**63 - 1).map(DatetimeMS)
    | st.decimals(places=3, min_value=-(10**20), max_value=10**20).map(Decimal128)
    | st.sampled_from(["Infinity", "-Infinity", "0E-6176", "9E+6111"]).map(Decimal128)
    | st.binary(max_size=20)
    | st.builds(Binary, st.binary(max_size=20), st.integers(5, 254))
    | st.builds(Binary, st.binary(min_size=16, max_size=16), st.integers(3, 4))
    | st.builds(Timestamp, UINT32, UINT32)
    | st.sampled_from([MinKey(), MaxKey()])
)
REGEXES = st.builds(
    Regex,
    st.text(st.characters(**NO_SURROGATES, blacklist_characters="\0"), max_size=10),
    st.sets(st.sampled_from("imsx")).map("".join),
)


def containers(values: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.lists(values, max_size=4)
        | st.dictionaries(KEYS, values, max_size=4)
        | st.builds(Code, TEXTS, st.none() | st.dictionaries(KEYS, values, max_size=2))
        | st.builds(DBRef, TEXTS, values, st.none() | TEXTS)
    )


DOCUMENTS = st.dictionaries(KEYS, st.recursive(PLAIN | REGEXES, containers, max_leaves=12))
CODEC = CodecOptions[dict[str, Any]](datetime_conversion=DatetimeConversion.DATETIME_AUTO)


def to_bson(document: dict[str, Any]) -> bytes:
    """Types and order count: the bytes in the database are the measure of equality."""
    return bson.encode(document, codec_options=CODEC)


def json_options(mode: int) -> JSONOptions:
    return JSONOptions(
        json_mode=mode, tz_aware=False, datetime_conversion=DatetimeConversion.DATETIME_AUTO
    )


def check_that_lossless_modes_round_trip_to_the_same_bytes(document: dict[str, Any]) -> None:
    for mode in (
        JsonMode.EXTENDED,
        JsonMode.STRICT,
        JsonMode.SHELL,
        JsonMode.GRAPHQL_CANONICAL,
    ):
        assert to_bson(decode(encode(document, mode))) == to_bson(document)
    shown = to_bson(decode(encode(document, JsonMode.GRAPHQL)))
    assert shown == to_bson(show_uuids(document))


def show_uuids(value: Any) -> Any:
    """The value with UUIDs as their texts, as GraphQL shows them (decision 17)."""
    match value:
        case Code():
            return Code(str(value), None if value.scope is None else show_uuids(value.scope))
        case DBRef():
            return DBRef(value.collection, show_uuids(value.id), value.database)
        case dict():
            return {key: show_uuids(item) for key, item in value.items()}
        case list():
            return [show_uuids(item) for item in value]
    return binary_text(value) if is_uuid(value) else value


def check_that_bare_longs_come_back_as_the_same_number(document: dict[str, Any]) -> None:
    for mode in (JsonMode.STANDARD, JsonMode.RELAXED):
        assert decode(encode(document, mode)) == document
    assert decode(encode(document, JsonMode.GRAPHQL_RELAXED)) == show_uuids(document)


def check_that_what_the_driver_writes_is_read_the_same(document: dict[str, Any]) -> None:
    canonical = json_util.dumps(document, json_options=json_options(JSONMode.CANONICAL))
    relaxed = json_util.dumps(document, json_options=json_options(JSONMode.RELAXED))

    assert to_bson(decode(canonical)) == to_bson(document)
    assert decode(relaxed) == document


def check_that_the_driver_reads_the_same(document: dict[str, Any]) -> None:
    for mode in (JsonMode.EXTENDED, JsonMode.RELAXED):
        text = encode(document, mode).decode()

        assert json_util.loads(text, json_options=json_options(JSONMode.CANONICAL)) == document


def check_that_both_readers_agree(document: dict[str, Any]) -> None:
    text = encode(document, JsonMode.EXTENDED).decode()

    assert to_bson(parse(text, max_depth=100)) == to_bson(decode(text))
    assert parse(text, max_depth=100, typed=False) == decode_json(text)


def test_not_a_number_comes_back_as_the_same_bytes() -> None:
    check_that_lossless_modes_round_trip_to_the_same_bytes({"a": float("nan")})


# Making a document takes longer than all that is asked of it.
@given(DOCUMENTS)
@example({"a": -0.0, "b": 1e16, "c": 5e-324, "d": 2.0**64})
def test_what_is_written_is_read_the_same_in_every_mode_by_us_and_by_the_driver(
    document: dict[str, Any],
) -> None:
    check_that_lossless_modes_round_trip_to_the_same_bytes(document)
    check_that_bare_longs_come_back_as_the_same_number(document)
    check_that_what_the_driver_writes_is_read_the_same(document)
    check_that_the_driver_reads_the_same(document)
    check_that_both_readers_agree(document)


@given(
    st.builds(
        lambda sign, coefficient, exponent: f"{sign}{coefficient}E{exponent}",
        st.sampled_from(["", "-"]),
        st.integers(0, 10**34 - 1),
        st.integers(-40, 1) | st.integers(-6176, 6111),
    )
)
@example("0.000001")
@example("0.0000001")
@example("-0.00")
@example("NaN")
@example("-Infinity")
def test_decimals_are_written_as_the_driver_writes_them(text: str) -> None:
    decimal = Decimal128(text)

    assert render_decimal(decimal) == str(decimal)


@given(st.from_regex(r"\A-?[0-9]{1,20}(\.[0-9]{0,16})?\Z"))
def test_decimals_are_read_as_the_driver_reads_them(text: str) -> None:
    try:
        expected = Decimal128(text)
    except DecimalException:
        return
    assert parse_decimal(text).bid == expected.bid


PIECES = [
    *("{", "}", "[", "]", ":", ",", '"', "'", "\\", "/", "(", ")", " ", "\n", "-", "1", "9" * 19),
    *('"$oid"', '"$date"', '"$numberLong"', '"$binary"', '"$timestamp"', '"$code"', '"$ref"'),
    *("new", "Date", "ObjectId", "NumberDecimal", "NaN", "null", "//", "/*", "*/", "e5", "."),
    *('"a"', "\\u0000", "\\ud800", '"5d7a4b59cf6eeb5f9a3b8d2e"', '"$id"', "\ufeff", "é"),
]
FRAGMENTS = st.lists(st.sampled_from(PIECES), max_size=30).map("".join)


def assert_usable(value: Any) -> None:
    """Neither the answer nor the database may be the first to find a value wrong."""
    encode(value)
    to_bson({"value": value})


@given(st.text() | st.binary() | FRAGMENTS)
@example("{" * 2000)
@example('{"a":' * 2000)
@example("-" + "9" * 10000)
def test_any_text_is_a_value_or_a_body_error(data: str | bytes) -> None:
    for read in (decode, decode_json):
        try:
            value = read(data)
        except BodyError as error:
            place = error.details
        else:
            place = {"line": 1, "column": 1}
            assert_usable(value)

        assert place["line"] >= 1
        assert place["column"] >= 1


@given(st.data())
def test_mutated_extended_json_is_a_value_or_a_body_error(data: st.DataObject) -> None:
    text = bytearray(encode(data.draw(DOCUMENTS), data.draw(st.sampled_from(JsonMode))))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(text) - 1))
        text[place] = data.draw(st.sampled_from(list(b'{}[]:,"0a\\\xff$ \n')))
    try:
        value = decode(bytes(text))
    except BodyError:
        return
    assert_usable(value)


ESCAPABLE = st.text(st.sampled_from("$_.:~cd"), max_size=8)


@given(
    st.recursive(
        ESCAPABLE | st.integers(),
        lambda values: st.lists(values) | st.dictionaries(ESCAPABLE, values),
        max_leaves=10,
    )
)
def test_escaped_keys_come_back_exactly(value: Any) -> None:
    """Decision 6: GET gives back exactly what was written."""
    document = {"root": value}

    assert unescape_keys(escape_keys(document)) == document
    assert as_written(to_stored(document)) == document


@given(
    st.recursive(
        ESCAPABLE | st.integers(),
        lambda values: st.lists(values) | st.dictionaries(ESCAPABLE, values),
        max_leaves=10,
    )
)
def test_what_is_stored_means_what_was_written(value: Any) -> None:
    """Decision 6: both forms of a key are understood, before it is stored and after."""
    document = {"root": value}

    assert as_meant(to_stored(document)) == as_meant(document)


@given(st.lists(st.text(st.sampled_from("$a_"), min_size=1, max_size=4), min_size=1))
def test_keys_escaped_by_the_reference_are_read_as_they_were_written(segments: list[str]) -> None:
    """Decision 6: existing documents; keys that look escaped already were never exact there."""
    key = ".".join(segments)
    if key.lstrip("_").startswith("$") and not key.startswith("$"):
        return
    stored = ("_" if key.startswith("$") else "") + key.replace(".", "::")

    assert unescape_keys({stored: 1}) == {key: 1}
    assert escape_keys({key: 1}) == {stored: 1}
