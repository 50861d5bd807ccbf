"""What comes in as JSON: types, ranges, and errors with their place."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any

import pytest

from docgraph.codec import decode, decode_json
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
from docgraph.exchange.errors import BodyError

OID = "5d7a4b59cf6eeb5f9a3b8d2e"

TYPED = [
    (f'{{"$oid": "{OID}"}}', ObjectId(OID)),
    ('{"$numberInt": "-5"}', -5),
    ('{"$numberLong": "5"}', Int64(5)),
    ('{"$numberLong": "-9223372036854775808"}', Int64(-(2**63))),
    ('{"$numberDouble": "1"}', 1.0),
    ('{"$numberDouble": "-Infinity"}', -math.inf),
    ('{"$numberDecimal": "1.50"}', Decimal128("1.50")),
    ('{"$numberDecimal": "NaN"}', Decimal128("NaN")),
    ('{"$date": 1568295769260}', datetime(2019, 9, 12, 13, 42, 49, 260000)),
    ('{"$date": -1}', datetime(1969, 12, 31, 23, 59, 59, 999000)),
    ('{"$date": "2019-09-12T13:42:49.26Z"}', datetime(2019, 9, 12, 13, 42, 49, 260000)),
    ('{"$date": "2019-09-12T13:42:49.260Z"}', datetime(2019, 9, 12, 13, 42, 49, 260000)),
    ('{"$date": "2019-09-12T13:42:49.2609999Z"}', datetime(2019, 9, 12, 13, 42, 49, 260000)),
    ('{"$date": "2019-09-12T13:42:49+02:00"}', datetime(2019, 9, 12, 11, 42, 49)),
    ('{"$date": "2019-09-12T13:42-0230"}', datetime(2019, 9, 12, 16, 12)),
    ('{"$date": "2019-09-12"}', datetime(2019, 9, 12)),
    ('{"$date": "0001-01-01T00:00:00+01:00"}', DatetimeMS(-62135600400000)),
    ('{"$date": {"$numberLong": "1568295769260"}}', datetime(2019, 9, 12, 13, 42, 49, 260000)),
    ('{"$date": {"$numberLong": "9223372036854775807"}}', DatetimeMS(2**63 - 1)),
    ('{"$binary": {"base64": "aGk=", "subType": "00"}}', b"hi"),
    ('{"$binary": {"base64": "aGk=", "subType": "5"}}', Binary(b"hi", 5)),
    ('{"$binary": "aGk=", "$type": "80"}', Binary(b"hi", 128)),
    (
        '{"$uuid": "01234567-89ab-cdef-0123-456789abcdef"}',
        Binary(bytes.fromhex("0123456789abcdef" * 2), 4),
    ),
    ('{"$regularExpression": {"pattern": "^a", "options": "xi"}}', Regex("^a", "ix")),
    ('{"$regex": "^a", "$options": "i"}', Regex("^a", "i")),
    ('{"$options": "", "$regex": "^a"}', Regex("^a", "")),
    ('{"$timestamp": {"t": 4294967295, "i": 0}}', Timestamp(4294967295, 0)),
    ('{"$minKey": 1}', MinKey()),
    ('{"$maxKey": 1}', MaxKey()),
    ('{"$undefined": true}', None),
    ('{"$code": "f()"}', Code("f()")),
    ('{"$code": "f()", "$scope": {"x": {"$numberLong": "1"}}}', Code("f()", {"x": Int64(1)})),
    ('{"$symbol": "s"}', "s"),
    ('{"$ref": "c", "$id": 1, "$db": "d", "id": 2}', DBRef("c", 1, "d", {"id": 2})),
    (f'{{"$dbPointer": {{"$ref": "c", "$id": {{"$oid": "{OID}"}}}}}}', DBRef("c", ObjectId(OID))),
    (r'{"\u0024oid": "' + OID + '"}', ObjectId(OID)),
    ("2147483647", 2147483647),
    ("2147483648", Int64(2147483648)),
    ("-9223372036854775808", Int64(-(2**63))),
    ("1.0", 1.0),
    ("1e300", 1e300),
    ("9223372036854775808.0", 2.0**63),
    ('[1e300, "1234567890123456789012"]', [1e300, "1234567890123456789012"]),
    ('"\\ud83d\\ude00\\u0000"', "😀\0"),
]


@pytest.mark.parametrize(("text", "expected"), TYPED)
def test_extended_json_becomes_the_value_it_stands_for(text: str, expected: Any) -> None:
    for value in (
        decode(text),
        decode(text.encode()),
        decode(f'{{"a": [{text}]}}')["a"][0],
        decode(f"{{a: [{text}]}}")["a"][0],  # the same from the lenient parser
    ):
        assert value == expected
        assert type(value) is type(expected)


@pytest.mark.parametrize(
    "text",
    [
        '{"age": {"$gt": 1, "$lt": 5}}',
        '{"_id": {"$in": [1, 2]}}',
        '{"name": {"$regex": "^a"}}',
        '{"name": {"$regex": "^a", "$options": "i", "$ne": "ab"}}',
        '{"name": {"$regex": {"$arg": "x"}, "$options": "i"}}',
        '{"b": {"$type": "string"}}',
        '{"$ref": "#/definitions/a"}',
        '{"$id": "http://example.org/schema", "$schema": "x"}',
        '{"$set": {"a.b": 1}, "$unknown": null}',
        '[{"$match": {"a": 1}}, {"$project": {"x": "$y"}}]',
    ],
)
def test_operators_stay_as_they_are(text: str) -> None:
    assert decode(text) == decode_json(text)


ERRORS = [
    ("", "line 1, column 1: the text is empty"),
    ('{\n "a": 1,\n "name" 2}', "line 3, column 9: expected ':' after the key 'name'"),
    (
        '{"a": 1',
        "line 1, column 8: expected ',' or '}' after the value of the key 'a', "
        "found the end of the text",
    ),
    ("[1 2]", "line 1, column 4: expected ',' or ']' after element 0 of the array, found '2'"),
    ('{"a": ]}', "line 1, column 7: expected a value, found ']'"),
    ("{] ", "line 1, column 2: expected a key or '}', found ']'"),
    ("{} x", "line 1, column 4: unexpected 'x' after the end of the value"),
    ("{'a': foo}", "line 1, column 7: unknown word 'foo'; a string needs quotes"),
    ('{"a": "b', "line 1, column 7: the string that starts here has no end"),
    (r'{"a": "\q"}', r"line 1, column 8: unknown escape \q in a string"),
    (r'"\u12"', r"line 1, column 2: \u needs four hexadecimal digits"),
    (r'"\ud800x"', "line 1, column 2: half of a surrogate pair in a string"),
    (r'"\udc00\ud800"', "line 1, column 2: half of a surrogate pair in a string"),
    ('"a\ud800"', "line 1, column 3: half of a surrogate pair is not a character"),
    ('"\x01"', r"line 1, column 2: the control character must be written as \u0001"),
    (r'{"a": {"b\u0000": 1}}', "line 1, column 8: a key cannot contain the character NUL"),
    (
        '{"a": 1, "b": {"c": 1, "c": 2}}',
        "line 1, column 24: the key 'c' appears twice in one object",
    ),
    ('{"a" : 1, "a":2}', "line 1, column 11: the key 'a' appears twice in one object"),
    (r'{"a": 1, "\u0061": 2}', "line 1, column 10: the key 'a' appears twice in one object"),
    ("[" * 101 + "]" * 101, "line 1, column 101: nested deeper than 100 levels"),
    ("[" * 100_000, "line 1, column 101: nested deeper than 100 levels"),
    ('{"a":' * 100_000, "line 1, column 501: nested deeper than 100 levels"),
    ("1" * 5000, "line 1, column 1: the integer does not fit into 64 bits"),
    ("9223372036854775808", "line 1, column 1: the integer does not fit into 64 bits"),
    ("18446744073709551616", "line 1, column 1: the integer does not fit into 64 bits"),
    ("-9223372036854775809", "line 1, column 1: the integer does not fit into 64 bits"),
    ("1e400", "line 1, column 1: the number is beyond the range of a double"),
    ("[01]", "line 1, column 2: malformed number"),
    ("[1.]", "line 1, column 2: malformed number"),
    (b'{\n"\xc3\xa4": "\xff"}', "line 2, column 7: the byte 0xff is not UTF-8"),
    (b'{"a": "\xc3', "line 1, column 8: the byte 0xc3 is not UTF-8"),
    (
        b"\xef\xbb\xbf{}",
        "line 1, column 1: the text starts with a byte order mark; send UTF-8 without one",
    ),
    ("{}".encode("utf-16"), "line 1, column 1: the text is UTF-16 or UTF-32; send UTF-8"),
    ("{}".encode("utf-16-le"), "line 1, column 1: the text is UTF-16 or UTF-32; send UTF-8"),
    ("{}".encode("utf-32-be"), "line 1, column 1: the text is UTF-16 or UTF-32; send UTF-8"),
    (
        '{"a": [{"b": {"$oid": "12"}}]}',
        "line 1, column 14: an ObjectId is 24 hexadecimal digits, not '12' (at 'a[0].b')",
    ),
    (
        f'{{"a": {{"$oid": "{OID}", "b": 1}}}}',
        "line 1, column 7: $oid cannot be used together with the key 'b' (at 'a')",
    ),
    ('{"$numberInt": 5}', "line 1, column 1: $numberInt takes a string"),
    (
        '{"$date": {"$arg": "x"}}',
        'line 1, column 1: $date takes milliseconds, an ISO 8601 text or {"$numberLong": "…"}',
    ),
]


@pytest.mark.parametrize(("text", "message"), ERRORS)
def test_an_error_says_where_it_is_and_what_was_expected(text: str | bytes, message: str) -> None:
    with pytest.raises(BodyError) as caught:
        decode(text)

    assert caught.value.message == message
    line, column = caught.value.details["line"], caught.value.details["column"]
    assert message.startswith(f"line {line}, column {column}: ")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f'{{"$oid": "{OID}0"}}', "24 hexadecimal digits"),
        (f'{{"$oid": "{OID[1:]}"}}', "24 hexadecimal digits"),
        (f'{{"$oid": " {OID[2:]} "}}', "24 hexadecimal digits"),
        ('{"$oid": 5}', "takes a string"),
        ('{"$numberInt": "2147483648"}', "does not fit into 32 bits"),
        ('{"$numberInt": "1.0"}', "is not an integer"),
        ('{"$numberLong": "9223372036854775808"}', "does not fit into 64 bits"),
        ('{"$numberLong": ""}', "is not an integer"),
        ('{"$numberLong": "1_0"}', "is not an integer"),
        ('{"$numberLong": "' + "9" * 5000 + '"}', "does not fit into 64 bits"),
        ('{"$numberDouble": "1e400"}', "beyond the range"),
        ('{"$numberDouble": "1_0"}', "is not a number"),
        ('{"$numberDecimal": "12345678901234567890123456789012345"}', "34 digits"),
        ('{"$numberDecimal": "1E7000"}', "34 digits"),
        ('{"$numberDecimal": "x"}', "is not a decimal"),
        ('{"$numberDecimal": "sNaN"}', "is not a decimal"),
        ('{"$date": "2019-02-30T00:00:00Z"}', "not a date of the calendar"),
        ('{"$date": "2019-02-28T24:00:00Z"}', "not a date of the calendar"),
        ('{"$date": "2019-W01-1T00:00:00Z"}', "is not a date such as"),
        ('{"$date": "2019-09-12T13:42:49+25:00"}', "is not a date such as"),
        ('{"$date": true}', "takes milliseconds"),
        ('{"$date": 1.5}', "takes milliseconds"),
        ('{"$date": {"$numberLong": "9223372036854775808"}}', "64 bits"),
        ('{"$binary": {"base64": "a", "subType": "00"}}', "is not base64"),
        ('{"$binary": {"base64": "ä", "subType": "00"}}', "is not base64"),
        ('{"$binary": {"base64": "aGk=", "subType": "100"}}', "one or two hexadecimal"),
        ('{"$binary": {"base64": "aGk=", "subType": "03"}}', "a UUID of 16 bytes, not of 2"),
        ('{"$binary": {"base64": "", "subType": "04"}}', "a UUID of 16 bytes, not of 0"),
        ('{"$binary": {"base64": "aGk="}}', "base64 and subType"),
        ('{"$binary": "aGk=", "$type": 255}', "between 0 and 254"),
        ('{"$binary": {"base64": "aGk=", "subType": "ff"}}', "between 0 and 254"),
        ('{"$binary": "aGk="}', "base64 and subType"),
        ('{"$uuid": "0123456789abcdef0123456789abcdef"}', "is not a UUID"),
        ('{"$regularExpression": {"pattern": "a"}}', "pattern and options"),
        ('{"$regularExpression": {"pattern": "a", "options": "g"}}', "unknown option 'g'"),
        ('{"$regularExpression": {"pattern": "a\\u0000", "options": ""}}', "NUL"),
        ('{"$regex": "a", "$options": "q"}', "unknown option 'q'"),
        ('{"$timestamp": {"t": 4294967296, "i": 0}}', "between 0 and 4294967295"),
        ('{"$timestamp": {"t": true, "i": 0}}', "between 0 and 4294967295"),
        ('{"$timestamp": {"t": 1}}', "t and i"),
        ('{"$minKey": true}', "takes 1 and nothing else"),
        ('{"$undefined": 1}', "takes true and nothing else"),
        ('{"$code": 5}', "takes a string"),
        ('{"$code": "x", "$scope": 5}', "takes an object"),
        ('{"$code": "x", "": 5}', "cannot be used together with the key ''"),
        ('{"$dbPointer": 5}', "$ref and $id"),
        ('{"$ref": "c", "$id": 1, "$db": 5}', "$db takes a string"),
    ],
)
def test_an_object_that_claims_a_type_has_to_be_one(text: str, reason: str) -> None:
    with pytest.raises(BodyError) as caught:
        decode(f'{{"a": {{"b": [{text}]}}}}')

    assert reason in caught.value.message
    assert "(at 'a.b[0]" in caught.value.message


def test_the_nesting_bound_is_a_parameter() -> None:
    nested = '{"a": [{"b": 1}]}'

    assert decode(nested, max_depth=3) == {"a": [{"b": 1}]}
    assert decode_json(nested, max_depth=3) == {"a": [{"b": 1}]}
    for read in (decode, decode_json):
        with pytest.raises(BodyError, match="nested deeper than 2 levels"):
            read(nested, max_depth=2)
        with pytest.raises(BodyError, match="nested deeper than 200 levels"):
            read("[" * 900 + "]" * 900, max_depth=1000)


def test_colons_in_strings_are_not_taken_for_keys() -> None:
    text = '{"url": "http://x", "smile": ":)", "quoted": "\\"a\\":1", "spaced" : ": :"}'

    assert decode(text) == {"url": "http://x", "smile": ":)", "quoted": '"a":1', "spaced": ": :"}


def test_a_large_text_has_to_be_strict_json() -> None:
    padding = " " * 1024 * 1024

    assert decode(f'{{"a": {padding} 1}}') == {"a": 1}
    assert decode(f'{{"a": "{padding}:", ":": 1e300}}')[":"] == 1e300
    with pytest.raises(BodyError, match="has to be strict JSON"):
        decode(f"{{a: {padding} 1}}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"$oid": "x"}', {"$oid": "x"}),
        ("9223372036854775807", 2**63 - 1),
        ('{"a": [1.5, null, true]}', {"a": [1.5, None, True]}),
    ],
)
def test_plain_json_leaves_type_objects_alone(text: str, expected: Any) -> None:
    value = decode_json(text)

    assert value == expected
    assert type(value) is type(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{'a': 1}", 'line 1, column 2: this is not JSON: unexpected "\'"'),
        ("[NaN]", "line 1, column 2: this is not JSON: unexpected 'N'"),
        (" ", "line 1, column 1: the text is empty"),
        (
            '{"query": 1, "query": 2}',
            "line 1, column 14: the key 'query' appears twice in one object",
        ),
        ("18446744073709551616", "line 1, column 1: the integer does not fit into 64 bits"),
        (b'{"a": "\xff"}', "line 1, column 8: the byte 0xff is not UTF-8"),
    ],
)
def test_plain_json_is_strict(text: str | bytes, message: str) -> None:
    """Decision 23: malformed JSON, and the same key twice in the request object."""
    with pytest.raises(BodyError) as caught:
        decode_json(text)

    assert caught.value.message == message
