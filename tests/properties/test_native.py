"""The native lane against the Python lane: the same bytes, or a misfit, for any document."""

from __future__ import annotations

import struct
from datetime import datetime
from itertools import product
from typing import Any

import bson
import orjson
import pytest
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import InvalidBSON
from graphql import (
    GraphQLInt,
    GraphQLList,
    GraphQLNonNull,
    GraphQLOutputType,
    is_list_type,
    is_non_null_type,
)
from hypothesis import example, given
from hypothesis import strategies as st

from docgraph.codec import JsonMode, encode
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
from docgraph.graphql.definition.mapping import EnumMapping
from docgraph.graphql.definition.scalars import JSON_MODES, serializer
from docgraph.graphql.execute.examine import MISFITS
from docgraph.graphql.plan.leaves import build_strict
from docgraph.runtime.native import NativeLane, explain_lane, find_native
from docgraph.variables import compile_field
from tests.properties.test_codec import DOCUMENTS, KEYS, PLAIN, REGEXES

_LANE = find_native()
if _LANE is None:
    pytest.skip(f"the lane is {explain_lane()} (make native)", allow_module_level=True)
LANE: NativeLane = _LANE

# As the store decodes.
OPTIONS = CodecOptions[dict[str, Any]](datetime_conversion=DatetimeConversion.DATETIME_AUTO)
UNKNOWN_MODES = (JsonMode.SHELL, JsonMode.CSV, JsonMode.GRAPHQL_REST)  # Python renders them
WHOLE_MODES = [mode for mode in JsonMode if mode not in UNKNOWN_MODES]
SCALARS = (
    *("String", "Int", "Float", "Boolean", "ID", "Long", "Decimal128", "ObjectId", "Timestamp"),
    *("DateTime", "UUID", "Regex", "BsonDocument"),
)
NUMBERS = (
    st.floats()
    | st.integers(-(2**31), 2**31 - 1).map(float)
    | st.integers(2**52, 2**55).map(float)
    | st.floats(-1e20, 1e20).map(lambda number: round(number, 3))
    | st.integers(-(2**63), 2**63 - 1).map(Int64)
    | st.integers(-(2**31), 2**31 - 1)
)
VALUES = PLAIN | NUMBERS | REGEXES | st.text(st.sampled_from('a"\\\n\0\x1f\x7fé😀'))
NESTED = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "b", "0", "1", "$ref", "$id"]), inner, max_size=4)
    ),
    max_leaves=8,
)


def decode(data: bytes | memoryview) -> dict[str, Any]:
    """As the store decodes."""
    return bson.decode(data, OPTIONS)


def write(document: dict[str, Any]) -> bytes:
    """The document as the database would send it."""
    return bson.encode(document, codec_options=OPTIONS)


def write_reply(documents: list[dict[str, Any]]) -> bytes:
    """The body of a reply to `find`."""
    return write({"cursor": {"firstBatch": documents, "id": Int64(0), "ns": "d.c"}, "ok": 1.0})


def render(program: Any, *documents: bytes) -> bytes | None:
    """The list that the native lane renders; None on a misfit."""
    try:
        rendered: bytes = program.render_list(LANE.build_batch(documents))
    except LANE.misfit:
        return None
    return rendered


@given(DOCUMENTS | st.dictionaries(KEYS, NESTED, max_size=20))
def test_whole_documents_have_the_same_bytes_in_every_mode(document: dict[str, Any]) -> None:
    check_whole(write(document))


@given(st.lists(NUMBERS))
def test_numbers_have_the_same_bytes(numbers: list[Any]) -> None:
    for number in numbers:
        check_whole(write({"a": number}))
        check_scalars(write({"a": number}))


@given(st.dictionaries(st.sampled_from("abc"), VALUES), st.sets(st.sampled_from("abc")))
def test_hidden_properties_are_left_out(document: dict[str, Any], hidden: set[str]) -> None:
    shown = {name: value for name, value in document.items() if name not in hidden}

    rendered = render(LANE.build_whole("standard", sorted(hidden)), write(document))

    assert rendered in (None, encode([decode(write(shown))]))


def describe_type(type_: GraphQLOutputType, named: tuple[str, Any]) -> tuple[str, Any]:
    """The type as a program has it."""
    if is_non_null_type(type_):
        return "non-null", describe_type(type_.of_type, named)
    if is_list_type(type_):
        return "list", describe_type(type_.of_type, named)
    return named


TYPES: st.SearchStrategy[Any] = st.recursive(
    st.just(GraphQLInt) | st.just(GraphQLNonNull(GraphQLInt)),
    lambda inner: (
        inner.map(GraphQLList) | inner.map(lambda type_: GraphQLNonNull(GraphQLList(type_)))
    ),
    max_leaves=3,
)


def check_field(
    data: bytes, path: tuple[str, ...], type_: Any, named: tuple[Any, Any], mode: JsonMode
) -> None:
    """Compare one field of a document with what the Python lane writes."""
    spec, serialize = named
    program = LANE.build_program([("key", "stored", path, describe_type(type_, spec))], mode)
    rendered = render(program, data)
    try:
        completed = build_strict(type_, serialize)(compile_field(path)(decode(data)))
    except (InvalidBSON, *MISFITS):
        assert rendered is None
    else:
        assert rendered in (None, encode([{"key": completed}], JsonMode.GRAPHQL))


def check_scalars(data: bytes) -> None:
    """Compare the property `a` of a document as every scalar in every mode."""
    modes = [mode for mode in JSON_MODES.values() if mode not in UNKNOWN_MODES]
    for name, mode in product(SCALARS, modes):
        check_field(data, ("a",), GraphQLInt, (("scalar", name), serializer(name, mode)), mode)


def check_whole(data: bytes) -> None:
    """Compare a whole document in every mode."""
    for mode in WHOLE_MODES:
        rendered = render(LANE.build_whole(mode, ()), data)
        try:
            expected = encode([decode(data)], mode)
        except InvalidBSON:
            expected = None
        assert rendered in (None, expected)


@given(VALUES | st.dictionaries(KEYS, NESTED, max_size=4))
@example(9007199254740993)
@example(-0.0)
@example(Binary(bytes(16), 3))
@example(Binary(bytes(5), 2))
def test_every_value_as_every_scalar_in_every_mode(value: Any) -> None:
    check_scalars(write({"a": value}))


@given(
    st.dictionaries(st.sampled_from(["a", "b", "0"]), NESTED, min_size=1),
    st.lists(st.sampled_from(["a", "b", "0", "1", "00"]), min_size=1, max_size=3).map(tuple),
    TYPES,
    st.sampled_from(SCALARS),
)
@example({"a": [{"b": 1}, 2, [{"b": None}]]}, ("a", "b"), GraphQLList(GraphQLInt), "Int")
@example({"a": [[1, 2], [3]]}, ("a", "1", "0"), GraphQLInt, "Int")
def test_paths_and_lists(document: dict[str, Any], path: Any, type_: Any, name: str) -> None:
    mode = JsonMode.GRAPHQL
    check_field(write(document), path, type_, (("scalar", name), serializer(name, mode)), mode)


@given(st.sampled_from([1, 2, 3, 1.0, Int64(2), "1", "x", True, None, b"x", ObjectId(bytes(12))]))
def test_enums(value: Any) -> None:
    stored: dict[str, Any] = {"ONE": 1, "TWO": Int64(2), "X": "x"}
    names = {int(v) if isinstance(v, int) else v: name for name, v in stored.items()}
    named = ("enum", names), EnumMapping("E", stored).name_of

    check_field(write({"a": value}), ("a",), GraphQLInt, named, JsonMode.GRAPHQL)


INNER = st.dictionaries(st.sampled_from(["x", "y", "$ref"]), VALUES, max_size=3)


@given(st.none() | INNER | st.lists(INNER | VALUES, max_size=3))
def test_embedded_objects_and_lists_of_them(value: Any) -> None:
    fields = [
        ("x", "stored", ("x",), ("scalar", "ID")),
        ("t", "constant", b'"T"'),
        ("y", "stored", ("y",), ("scalar", "Float")),
    ]
    show_id, show_float = serializer("ID", JsonMode.GRAPHQL), serializer("Float", JsonMode.GRAPHQL)

    def serialize(inner: Any) -> Any:
        if type(inner) is not dict:
            raise ValueError
        x, y = inner.get("x"), inner.get("y")
        return {
            "x": None if x is None else show_id(x),
            "t": "T",
            "y": None if y is None else show_float(y),
        }

    for type_ in (GraphQLInt, GraphQLList(GraphQLInt), GraphQLNonNull(GraphQLInt)):
        named = ("object", fields), serialize
        check_field(write({"a": value}), ("a",), type_, named, JsonMode.GRAPHQL)


@given(st.lists(VALUES | st.lists(VALUES, max_size=2), min_size=1, max_size=5))
def test_values_of_a_path_are_those_of_the_decoder(values: list[Any]) -> None:
    data = [write({"a": {"b": value}} if number % 3 else {}) for number, value in enumerate(values)]
    expected = [decode(one).get("a", {}).get("b") for one in data]

    found = LANE.build_batch(data).values(("a", "b"), decode)

    assert write({"v": found}) == write({"v": expected})


# Values next to a bound at which one of the lanes decides differently.
EDGES: list[Any] = [
    *(0.0, -0.0, 1.0, 1e-4, 9.9e-5, 1e-5, 1.5e-5, 5e-324, 1e15, 1e16, 1.5e16, 1e21, 1.5e300),
    *(
        float(2**53),
        float(2**53 + 2),
        float(-(2**53)),
        float(-(2**53) - 2),
        2.0**31,
        -(2.0**31) - 1,
    ),
    *(float("nan"), float("inf"), -float("inf"), 2**31 - 1, -(2**31), Int64(2**31), Int64(5)),
    *map(Int64, (2**53 - 1, 2**53, 2**53 + 1, -(2**53) + 1, -(2**53), 2**63 - 1, -(2**63))),
    *(datetime(1970, 1, 1), datetime(1969, 12, 31, 23, 59, 59, 999000), datetime(1, 1, 1)),
    *(datetime(2024, 2, 29, 1, 2, 3, 450000), datetime(9999, 12, 31, 23, 59, 59, 999000)),
    *map(DatetimeMS, (-62135596800001, 253402300800000, 2**63 - 1, -(2**63))),
    *map(
        Decimal128, ("0", "-0", "0.000001", "1E-7", "0.0000012", "-1.50", "1E+1", "9" * 34, "NaN")
    ),
    *map(Decimal128, ("0E-6", "0E-7", "0.0010", "Infinity", "12345678901234567890.123456789")),
    *(Binary(bytes(range(16)), subtype) for subtype in (0, 3, 4, 5, 6, 128)),
    *(Binary(b"abcd", subtype) for subtype in (0, 1, 5, 7, 128, 254)),
    *(b"", b"a", b"ab", b"abc", Timestamp(0, 0), Timestamp(2**32 - 1, 1), ObjectId("f" * 24)),
    *(
        "",
        "\0",
        "\x7f",
        '"\\/\b\t\n\f\r\x1f',
        "é\u2028😀",
        True,
        False,
        None,
        {},
        [],
        [None],
        {"": {}},
    ),
    *(MinKey(), MaxKey(), Regex("a", "i"), Code("x"), Code("x", {}), DBRef("c", 1)),
    *({"$ref": 1}, {"$id": 1}, {"$date": 1}, [[[]]], {"a": [{"b": Int64(1)}]}),
]


@pytest.mark.parametrize("value", EDGES, ids=repr)
def test_values_next_to_a_bound(value: Any) -> None:
    check_whole(write({"a": value}))
    check_scalars(write({"a": value}))


# Elements that the driver does not write: type, name and bytes.
RAW = {
    "a duplicate name": b"\x10a\0\1\0\0\0\x10a\0\2\0\0\0",
    "a distant duplicate": b"".join(b"\x0a%c\0" % n for n in range(65, 90)) + b"\x0aA\0",
    "a short UUID": b"\5a\0\2\0\0\0\3xx",
    "a short new UUID": b"\5a\0\2\0\0\0\4xx",
    "an old binary": b"\5a\0\6\0\0\0\2\2\0\0\0xx",
    "the last subtype": b"\5a\0\1\0\0\0\xffx",
    "invalid UTF-8": b"\2a\0\3\0\0\0\xc3\x28\0",
    "a surrogate": b"\2a\0\4\0\0\0\xed\xa0\x80\0",
    "an invalid name": b"\x0a\xff\0",
    "a text without end": b"\2a\0\2\0\0\0xx",
    "a text of length 0": b"\2a\0\0\0\0\0",
    "no boolean": b"\x08a\0\2",
    "undefined": b"\6a\0",
    "a symbol": b"\x0ea\0\2\0\0\0x\0",
    "a pointer": b"\x0ca\0\2\0\0\0x\0" + bytes(12),
    "an unknown type": b"\x20a\0",
    "a large length": b"\2a\0\xff\xff\xff\x7fx\0",
    "a negative length": b"\2a\0\xff\xff\xff\xffx\0",
    "an array with odd keys": b"\4a\0\x0b\0\0\0\x0ax\0\x0ax\0\0",
}


@pytest.mark.parametrize("elements", RAW.values(), ids=RAW)
def test_what_the_driver_does_not_write(elements: bytes) -> None:
    data = struct.pack("<i", len(elements) + 5) + elements + b"\0"

    check_whole(data)
    if elements[1:3] == b"a\0":
        check_scalars(data)


def test_ordinary_documents_fit() -> None:
    """The comparisons above are about something."""
    document = {
        "_id": ObjectId(bytes(12)),
        "title": 'a "text" é',
        "pages": 3,
        "sold": Int64(2**40),
        "price": 12.5,
        "at": {"lines": [1, None, True, {"x": "y"}]},
        "key": Binary(bytes(range(16)), 4),
    }
    for mode in WHOLE_MODES:
        rendered = render(LANE.build_whole(mode, ()), write(document), write({}))
        assert rendered == encode([document, {}], mode)


# --- malformed BSON -------------------------------------------------------------------------------


@st.composite
def damaged(draw: st.DrawFn, documents: st.SearchStrategy[bytes]) -> bytes:
    """Bytes with some of them replaced, lengths wrong, or the end missing."""
    data = bytearray(draw(documents))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, max(0, len(data) - 1)))
        match draw(st.integers(0, 3)):
            case 0:
                data[place : place + 1] = draw(st.binary(max_size=2))
            case 1:
                del data[place:]
            case 2:
                length = draw(st.sampled_from([0, 1, 4, 5, -1, 2**31 - 1, -(2**31), len(data)]))
                data[place : place + 4] = struct.pack("<i", length)
            case _:
                data[place:place] = data[: draw(st.integers(0, 12))]
    return bytes(data)


@given(damaged(DOCUMENTS.map(write)))
def test_a_damaged_document_is_a_misfit_or_has_the_same_bytes(data: bytes) -> None:
    check_whole(data)


@given(damaged(st.lists(DOCUMENTS, max_size=3).map(write_reply)))
def test_a_damaged_reply_is_a_misfit_or_is_taken_apart(data: bytes) -> None:
    try:
        batch = LANE.split_reply(memoryview(bytearray(data)))
        batch.values(("a", "b"), lambda joined: {"v": joined})
    except LANE.misfit:
        return
    for place in range(len(batch)):
        assert bytes(batch.slice(place)) in data
    assert len(batch.head) <= len(data)


@given(st.lists(st.dictionaries(KEYS, VALUES, max_size=3), max_size=4), st.booleans())
def test_a_reply_is_taken_apart(documents: list[dict[str, Any]], is_view: bool) -> None:
    data = write_reply(documents)

    batch = LANE.split_reply(memoryview(bytearray(data)) if is_view else data)

    assert batch.head == write_reply([])
    assert [bytes(batch.slice(n)) for n in range(len(batch))] == [write(one) for one in documents]
    assert batch.size == sum(len(write(one)) for one in documents)


@pytest.mark.parametrize("levels", [100, 199, 250, 5000])
@pytest.mark.parametrize("kind", [3, 4])
def test_deep_nesting_is_a_misfit_beyond_a_bound(levels: int, kind: int) -> None:
    data = b"\x05\0\0\0\0"
    for _ in range(levels):
        data = struct.pack("<i", len(data) + 7 + 1) + bytes([kind]) + b"a\0" + data + b"\0"
    data = struct.pack("<i", len(data) + 8) + b"\x03a\0" + data + b"\0"
    field = ("key", "stored", ("a", "a", "a"), ("list", ("list", ("scalar", "BsonDocument"))))

    is_rendered = render(LANE.build_whole("standard", ()), data) is not None
    render(LANE.build_program([field], "graphql"), data)

    assert is_rendered == (levels < 200)


def test_a_large_count_of_columns_or_bytes_is_bounded() -> None:
    program = LANE.build_program([("a", "slot", 0), ("b", "slot", 0)], "graphql")
    batch = LANE.build_batch([write({})] * 3)
    texts = [orjson.dumps("x" * 1000)] * 3

    assert len(program.render_list(batch, [texts])) > 6000
    with pytest.raises(LANE.misfit):
        program.render_list(batch, [texts], 3000)
    for columns in ([], [texts[:2]], [texts, texts]):
        with pytest.raises(ValueError, match="one column for each slot"):
            program.render_list(batch, columns)


@pytest.mark.parametrize("mode", UNKNOWN_MODES)
def test_other_modes_are_left_to_python(mode: JsonMode) -> None:
    with pytest.raises(ValueError, match="does not support this JSON mode"):
        LANE.build_whole(mode.value, [])


ODD_BYTES = ['"', "\\", "\x1f", "\x7f", "\0", "ä", "€", "😀"]


@pytest.mark.parametrize("odd", ODD_BYTES)
def test_an_odd_character_anywhere_in_a_text_has_the_same_bytes(odd: str) -> None:
    texts = [
        "x" * before + odd + "y" * after for before in range(50) for after in (0, 1, 15, 16, 40)
    ]
    data = write({f"text {number}": text for number, text in enumerate(texts)})

    assert render(LANE.build_whole("standard", ()), data) == encode([decode(data)])


@pytest.mark.parametrize("size", range(70))
def test_bytes_that_are_no_text_are_a_misfit_in_each_place(size: int) -> None:
    data = write({"a": "x" * size})
    program = LANE.build_whole("standard", ())

    assert render(program, data) == encode([decode(data)])
    for place in range(data.index(b"x") if size else 0, len(data) - 2 if size else 0):
        assert render(program, data[:place] + b"\xff" + data[place + 1 :]) is None


def test_documents_are_measured_unless_some_are_decoded() -> None:
    assert LANE.measure([]) == 0
    assert LANE.measure([b"ab", b"", b"c"]) == 3
    assert LANE.measure([b"ab", {}]) is None
    assert LANE.measure([b"ab", Binary(b"x")]) is None
