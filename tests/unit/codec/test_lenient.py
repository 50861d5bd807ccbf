"""What people write by hand: the notation of the shell and small liberties."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest

from docgraph.codec import decode
from docgraph.codec.bson_types import (
    Binary,
    Code,
    DBRef,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from docgraph.exchange.errors import BodyError

OID = "5d7a4b59cf6eeb5f9a3b8d2e"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{'a': 'it\\'s'}", {"a": "it's"}),
        ("{a: 1, _b$: 2, $c: 3, ä: 4, 5: 6}", {"a": 1, "_b$": 2, "$c": 3, "ä": 4, "5": 6}),
        ("{a: 1,}", {"a": 1}),
        ("[1, 2,]", [1, 2]),
        ("{} // done", {}),
        ("/* start */ {a: 1, // one\n b: /* two */ 2}", {"a": 1, "b": 2}),
        ("'two\nlines\tand a tab'", "two\nlines\tand a tab"),
        (r"'\x'".replace("x", "v"), "\v"),
        ("'one \\\nline'", "one \nline"),
        ("'\"'", '"'),
        ("{'a': {$oid: '" + OID + "'}}", {"a": ObjectId(OID)}),
        (f"ObjectId('{OID}')", ObjectId(OID)),
        (f'new ObjectId( "{OID}" )', ObjectId(OID)),
        ('ISODate("2020-01-01T00:00:00Z")', datetime(2020, 1, 1)),
        ("new Date(1577836800000)", datetime(2020, 1, 1)),
        ('new Date("2020-01-01")', datetime(2020, 1, 1)),
        ("NumberLong(5)", Int64(5)),
        ('NumberLong("5")', Int64(5)),
        ("Long('5')", Int64(5)),
        ("NumberInt(5)", 5),
        ('Int32("5")', 5),
        ("Double(5)", 5.0),
        ("Double('1.5')", 1.5),
        ('NumberDecimal("1.50")', Decimal128("1.50")),
        ("NumberDecimal(1.5)", Decimal128("1.5")),
        ('UUID("00000000-0000-0000-0000-000000000000")', Binary(bytes(16), 4)),
        ("Timestamp(7, 3)", Timestamp(7, 3)),
        ("Timestamp({t: 7, i: 3})", Timestamp(7, 3)),
        ('BinData(5, "aGk=")', Binary(b"hi", 5)),
        ('BinData(0, "aGk=")', b"hi"),
        ('HexData(5, "6869")', Binary(b"hi", 5)),
        ('RegExp("a/b", "i")', Regex("a/b", "i")),
        ("RegExp('a')", Regex("a", "")),
        ("/^a.*b$/im", Regex("^a.*b$", "im")),
        (r"/a\/[/]\d/", Regex(r"a/[/]\d", "")),
        ("Code('f()', {x: 1})", Code("f()", {"x": 1})),
        ("DBRef('c', 5, 'd')", DBRef("c", 5, "d")),
        ("MinKey", MinKey()),
        ("[MinKey(), MaxKey ( ), MaxKey]", [MinKey(), MaxKey(), MaxKey()]),
        ("[Infinity, -Infinity]", [math.inf, -math.inf]),
        ("[undefined, null, true, false]", [None, None, True, False]),
    ],
)
def test_lenient_notation_is_read(text: str, expected: Any) -> None:
    value = decode(text)

    assert value == expected
    assert type(value) is type(expected)


def test_nan_is_a_double() -> None:
    assert math.isnan(decode("{a: NaN}")["a"])


def test_calls_without_an_argument_make_a_new_value() -> None:
    before = datetime.now(UTC).replace(tzinfo=None)

    first, second, now = decode("[ObjectId(), ObjectId(), new Date()]")

    assert first != second
    assert abs((now - before).total_seconds()) < 60


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{a: ObjectId('5')}", "an ObjectId is 24 hexadecimal digits, not '5' (at 'a')"),
        ("ObjectId('a', 'b')", "ObjectId() takes 0 to 1 arguments, not 2"),
        ("NumberLong()", "NumberLong() takes 1 arguments, not 0"),
        ("NumberLong(1.5)", "NumberLong() takes a string"),
        ("NumberLong(true)", "NumberLong() takes a string"),
        ("NumberInt(2147483648)", "2147483648 does not fit into 32 bits"),
        ("Timestamp(1)", "a timestamp is two integers between 0 and 4294967295"),
        ("Timestamp({t: 1})", "Timestamp() takes two integers or an object with t and i"),
        ("BinData(255, '')", "a binary subtype is between 0 and 254, not 255"),
        ("BinData('0', '')", "BinData() takes an integer as its subtype"),
        ("HexData(0, 'ä')", "HexData() takes pairs of hexadecimal digits"),
        ("HexData(0, 'abc')", "HexData() takes pairs of hexadecimal digits"),
        ("Code('x', 5)", "Code() takes an object as its scope"),
        ("/a/g", "unknown option 'g' of a regular expression (known: i l m s u x)"),
        ("/a", "the regular expression that starts here has no end"),
        ("/* a", "the comment that starts here has no end"),
        ("/* a /", "the comment that starts here has no end"),
        ("{a: 1 /* b", "the comment that starts here has no end"),
        ("{ /*/", "the comment that starts here has no end"),
        ("/[/]", "the regular expression that starts here has no end"),
        ("/a\\", "the regular expression that starts here has no end"),
        ("/a\n/", "the regular expression that starts here has no end"),
        ("new", "unknown word 'new'; a string needs quotes"),
        ("process(1)", "unknown word 'process'; a string needs quotes"),
        ("[-x]", "malformed number"),
        ("{,}", "expected a key or '}', found ','"),
        ("[,]", "expected a value, found ','"),
        ("ObjectId", "expected '(' after ObjectId, found the end of the text"),
    ],
)
def test_wrong_notation_is_refused_with_the_reason(text: str, message: str) -> None:
    with pytest.raises(BodyError) as caught:
        decode(text)

    assert caught.value.message.split(": ", 1)[1] == message


def test_calls_count_as_levels() -> None:
    with pytest.raises(BodyError, match="nested deeper than 100 levels"):
        decode("NumberLong(" * 5000)


def test_a_long_value_is_cut_in_messages() -> None:
    with pytest.raises(BodyError) as caught:
        decode(f"{{'{'k' * 1000}' 1}}")

    assert len(caught.value.message) < 120
