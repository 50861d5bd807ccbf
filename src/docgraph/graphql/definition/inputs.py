"""Input coercion of BSON scalars: from a literal or variable to a stored value (decision 16).

Every scalar accepts its extended JSON object, its plain JSON form and its string form, in literals
and in variables. JSON numbers with a fraction should arrive as `ExactFloat`, which stores their
text, so that a decimal loses no digits.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from math import isfinite
from typing import Any

from graphql import (
    BooleanValueNode,
    FloatValueNode,
    IntValueNode,
    ListValueNode,
    NullValueNode,
    ObjectValueNode,
    ValueNode,
    VariableNode,
)

from docgraph.codec.bson_types import (
    Binary,
    DatetimeMS,
    Decimal128,
    Int64,
    ObjectId,
    Regex,
    Timestamp,
    is_uuid,
)
from docgraph.codec.decode import decode
from docgraph.codec.extended import TYPE_KEYS, build_value
from docgraph.codec.id_text import parse_any_uuid
from docgraph.codec.parse_scalars import (
    build_date,
    build_integer,
    build_long,
    build_regex,
    build_timestamp,
    parse_date,
    parse_decimal,
    parse_long,
    parse_object_id,
)
from docgraph.exchange.errors import BodyError
from docgraph.variables import mark_caller
from docgraph.variables.value_marks import MAX_REGEX_LENGTH

_EXACT_INTEGERS = 2**53
_BELOW_MILLISECONDS = re.compile(r"\.\d{3}\d*[1-9]")
_EPOCH_MILLIS = re.compile(r"-?\d{1,19}")
_BASIC_DATE = re.compile(r"[12]\d{3}((0[1-9]|1[0-2])([0-2]\d|3[01])?)?")
_MONTH = re.compile(r"\d{4}-\d{2}")
_LOCAL_DATE = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{4}.*")
_TIMESTAMP = re.compile(r"(\d{1,10})[.:](\d{1,10})")
_SLASHED_REGEX = re.compile(r"/(.*)/([ilmsux]*)", re.DOTALL)


class ExactFloat(float):
    """A float that stores its original text: `json.loads(body, parse_float=ExactFloat)`."""

    text: str

    def __new__(cls, text: str) -> ExactFloat:
        number = super().__new__(cls, text)
        number.text = text
        return number


def read_literal(node: ValueNode, variables: Mapping[str, Any] | None = None) -> Any:
    """Return a literal of the query as JSON would have it; variables inside are already coerced."""
    match node:
        case IntValueNode():
            return int(node.value)
        case FloatValueNode():
            return ExactFloat(node.value)
        case BooleanValueNode():
            return node.value
        case NullValueNode():
            return None
        case VariableNode():
            return (variables or {}).get(node.name.value)
        case ListValueNode():
            return [read_literal(item, variables) for item in node.values]
        case ObjectValueNode():
            return {item.name.value: read_literal(item.value, variables) for item in node.fields}
        case _:
            return getattr(node, "value")  # noqa: B009 - a string, or an enum's name


def build_bson(value: Any) -> Any:
    """Return JSON as stored values: numbers by size, extended JSON objects as their BSON types."""
    if isinstance(value, dict):
        document = {key: build_bson(item) for key, item in value.items()}
        return build_value(document) if not TYPE_KEYS.isdisjoint(document) else document
    if isinstance(value, list):
        return [build_bson(item) for item in value]
    if isinstance(value, bool | Int64):
        return value
    if isinstance(value, int):
        return build_integer(value)
    return float(value) if isinstance(value, float | Decimal) else value


def _open(value: Any) -> Any:
    """Return the value of an extended JSON object, or of its text; anything else unchanged."""
    if isinstance(value, str) and value.startswith("{"):
        return _decode_text(value)
    return build_bson(value) if isinstance(value, dict) else value


def _decode_text(text: str) -> Any:
    try:
        return decode(text)
    except BodyError as error:
        raise ValueError(error.message) from None


def _whole(value: Any) -> int | None:
    """Return the integer that a JSON number represents, or None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Decimal) and value == value.to_integral_value():
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT_INTEGERS:
        return int(value)
    return None


def coerce_long(value: Any) -> Int64:
    value = _open(value)
    if isinstance(value, str):
        return parse_long(value)
    number = _whole(value)
    if number is None:
        raise ValueError('a Long is a whole number, its digits or {"$numberLong": "…"}')
    return build_long(number)


def coerce_decimal(value: Any) -> Decimal128:
    """Return the decimal that a caller sent, with all of its digits."""
    value = _open(value)
    if isinstance(value, Decimal128):
        return value
    if isinstance(value, ExactFloat):
        return parse_decimal(value.text)
    if isinstance(value, float) and not isfinite(value):
        raise ValueError("the number is beyond the range of a double")
    if isinstance(value, str | int | float | Decimal) and not isinstance(value, bool):
        return parse_decimal(str(value))
    raise ValueError('a Decimal128 is a number, its text or {"$numberDecimal": "…"}')


def coerce_object_id(value: Any) -> ObjectId:
    value = _open(value)
    if isinstance(value, ObjectId):
        return value
    if isinstance(value, str):
        return parse_object_id(value)
    raise ValueError('an ObjectId is a text of 24 hexadecimal digits or {"$oid": "…"}')


def coerce_uuid(value: Any) -> Binary:
    """Return the UUID that a caller sent, with dashes or without."""
    value = _open(value)
    if isinstance(value, str):
        return parse_any_uuid(value)
    if isinstance(value, Binary) and is_uuid(value):
        return value
    raise ValueError(
        'a UUID is a text of 32 hexadecimal digits, with dashes or without, or {"$uuid": "…"}'
    )


def coerce_datetime(value: Any) -> datetime | DatetimeMS:
    """Return the date that a caller sent as text, milliseconds or extended JSON."""
    value = _open(value)
    if isinstance(value, datetime | DatetimeMS):
        return value
    if isinstance(value, str):
        return _parse_date_text(value)
    millis = _whole(value)
    if millis is None:
        raise ValueError('a DateTime is an ISO 8601 text, milliseconds or {"$date": …}')
    return build_date(millis)


def _parse_date_text(text: str) -> datetime | DatetimeMS:
    if _BASIC_DATE.fullmatch(text):
        raise ValueError("a DateTime of a day needs dashes: 2026-11-10; milliseconds are a number")
    if _LOCAL_DATE.fullmatch(text):
        raise ValueError("a DateTime is written year first, with dashes: 2026-11-10")
    if _MONTH.fullmatch(text):
        return parse_date(f"{text}-01")
    if _EPOCH_MILLIS.fullmatch(text):
        return build_date(int(text))
    if _BELOW_MILLISECONDS.search(text):
        raise ValueError("a DateTime has no digits below the millisecond")
    return parse_date(text)


def coerce_timestamp(value: Any) -> Timestamp:
    value = _open(value)
    if isinstance(value, Timestamp):
        return value
    if isinstance(value, dict) and value.keys() == {"t", "i"}:
        return build_timestamp(value["t"], value["i"])
    match = _TIMESTAMP.fullmatch(value) if isinstance(value, str) else None
    if match is None:
        raise ValueError('a Timestamp is {"$timestamp": {"t": …, "i": …}} or the text "t.i"')
    return build_timestamp(int(match[1]), int(match[2]))


def coerce_regex(value: Any) -> Regex[str]:
    """Return the regular expression that a caller sent, within its limits."""
    if isinstance(value, dict):
        value = build_bson(value)
        if isinstance(value, dict) and list(value) == ["$regex"]:
            value = value["$regex"]
    if isinstance(value, str):
        value = build_regex(value, "")
    if not isinstance(value, Regex):
        raise ValueError('a Regex is its pattern or {"$regex": "…", "$options": "…"}')
    if len(value.pattern) > MAX_REGEX_LENGTH:
        raise ValueError(f"a Regex may have {MAX_REGEX_LENGTH} characters at most")
    if value.flags & (re.LOCALE | re.UNICODE):
        raise ValueError("a Regex takes no options but i, m, s and x")
    return value


def coerce_plain_regex(value: Any) -> Regex[str]:
    """Parse a regex, also `/pattern/options` in the mode that writes that form."""
    slashed = _SLASHED_REGEX.fullmatch(value) if isinstance(value, str) else None
    return coerce_regex({"$regex": slashed[1], "$options": slashed[2]} if slashed else value)


def coerce_document(value: Any) -> dict[str, Any]:
    """Return the document that a caller sent, marked as such."""
    value = _open(value)
    if not isinstance(value, dict):
        raise ValueError("a BsonDocument is an object, or the text of one")
    marked: dict[str, Any] = mark_caller(value)
    return marked
