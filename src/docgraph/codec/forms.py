"""JSON forms of BSON values: one table from type to form for each mode.

A form is a function from the value to something that orjson writes: a string, a number, an object,
or, for the shell's notation, a fragment of text. Containers and plain numbers are not included:
`encode` handles them.
"""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from math import isfinite, isnan
from typing import Any
from uuid import UUID

import orjson

from docgraph.codec.bson_types import (
    Binary,
    DatetimeMS,
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
from docgraph.codec.parse_scalars import (
    INT32_MAX,
    INT32_MIN,
    build_date,
    build_millis,
    render_decimal,
    render_far_date,
)

RenderValue = Callable[[Any], Any]


class JsonMode(StrEnum):
    """How values of types without a JSON equivalent are written."""

    STANDARD = "standard"  # the default of the REST API
    STRICT = "strict"  # extended JSON 1
    EXTENDED = "extended"
    RELAXED = "relaxed"
    SHELL = "shell"
    GRAPHQL = "graphql"
    GRAPHQL_CANONICAL = "graphql-canonical"
    GRAPHQL_RELAXED = "graphql-relaxed"
    GRAPHQL_PLAIN = "graphql-plain"
    GRAPHQL_REST = "graphql-rest"  # as the REST API
    CSV = "csv"  # the JSON in cells


_OPTIONS = (
    (re.IGNORECASE, "i"),
    (re.LOCALE, "l"),
    (re.MULTILINE, "m"),
    (re.DOTALL, "s"),
    (re.UNICODE, "u"),
    (re.VERBOSE, "x"),
)
_MAX_SAFE = 2**53 - 1  # of the integers that every JSON parser reads exactly
# A regular expression that parses unchanged between slashes, with its own slashes escaped.
_BETWEEN_SLASHES = re.compile(
    r"(?!\*)(?:[^\\\[\]\x00-\x1f]|\\[^/\x00-\x1f]|\[(?:[^\\\]\x00-\x1f]|\\[^/\x00-\x1f])*\])+"
)


def double_form(number: float) -> dict[str, str]:
    """Return `{"$numberDouble": "1.5"}`, with names for non-finite numbers, which JSON lacks."""
    return {"$numberDouble": repr(number) if isfinite(number) else plain_double_form(number)}


def shell_double_form(number: float) -> Any:
    """Return `NaN`, `Infinity`, `-Infinity` as the shell writes them."""
    return orjson.Fragment(plain_double_form(number))


def plain_double_form(number: float) -> str:
    """Return `"NaN"`, `"Infinity"`, `"-Infinity"`."""
    if isnan(number):
        return "NaN"
    return "Infinity" if number > 0 else "-Infinity"


def _relaxed_date(value: datetime | DatetimeMS) -> Any:
    """Return ISO 8601 between 1970 and 9999, else milliseconds, as extended JSON specifies.

    Trailing zeros of the second are omitted: `.26Z`, not `.260Z`.
    """
    millis = _millis(value)
    date = build_date(millis)
    if millis < 0 or isinstance(date, DatetimeMS):
        return {"$date": {"$numberLong": str(millis)}}
    text = _render_date(date)
    return {"$date": f"{text[:-1].rstrip('0')}Z" if date.microsecond else text}


def _extended_date(value: datetime | DatetimeMS) -> Any:
    return {"$date": {"$numberLong": str(_millis(value))}}


def _millis(value: datetime | DatetimeMS) -> int:
    return build_millis(value) if isinstance(value, datetime) else int(value)


def _render_date(date: datetime) -> str:
    return f"{date.isoformat(timespec='milliseconds' if date.microsecond else 'seconds')}Z"


def _binary(value: bytes) -> Any:
    subtype = value.subtype if isinstance(value, Binary) else 0
    return {"$binary": {"base64": b64encode(value).decode(), "subType": f"{subtype:02x}"}}


def _old_binary(value: bytes) -> Any:
    subtype = value.subtype if isinstance(value, Binary) else 0
    return {"$binary": b64encode(value).decode(), "$type": f"{subtype:02X}"}


def _regex(value: Regex[Any] | re.Pattern[Any]) -> Any:
    pattern, options = _regex_parts(value)
    return {"$regularExpression": {"pattern": pattern, "options": options}}


def _regex_operator(value: Regex[Any] | re.Pattern[Any]) -> Any:
    pattern, options = _regex_parts(value)
    return {"$regex": pattern, "$options": options}


def _regex_parts(value: Regex[Any] | re.Pattern[Any]) -> tuple[str, str]:
    pattern, flags = value.pattern, int(value.flags)
    text = pattern.decode("utf-8", "replace") if isinstance(pattern, bytes) else pattern
    return text, "".join(letter for flag, letter in _OPTIONS if flags & flag)


def _plain_long(value: int) -> int | str:
    number = int(value)
    return number if -_MAX_SAFE <= number <= _MAX_SAFE else str(number)


def render_date(value: datetime | DatetimeMS) -> str:
    """Return ISO 8601, always with milliseconds, so that texts sort as dates do."""
    if isinstance(value, datetime) and value.tzinfo is None:
        return f"{value.isoformat(timespec='milliseconds')}Z"
    date = build_date(_millis(value))
    return render_far_date(int(date)) if isinstance(date, DatetimeMS) else render_date(date)


def _plain_regex(value: Regex[Any] | re.Pattern[Any]) -> str:
    """Return `/pattern/options`; the last slash ends the pattern, so none needs an escape."""
    pattern, options = _regex_parts(value)
    return f"/{pattern}/{options}"


def _shell_long(value: Int64) -> Any:
    number = str(int(value))
    is_short = INT32_MIN <= value <= INT32_MAX
    return orjson.Fragment(f"NumberLong({number})" if is_short else f'NumberLong("{number}")')


def _shell_date(value: datetime | DatetimeMS) -> Any:
    date = build_date(_millis(value))
    if isinstance(date, DatetimeMS):
        return orjson.Fragment(f"new Date({int(date)})")
    return orjson.Fragment(f'ISODate("{_render_date(date)}")')


def _shell_binary(value: bytes) -> Any:
    subtype = value.subtype if isinstance(value, Binary) else 0
    return orjson.Fragment(f'new BinData({subtype}, "{b64encode(value).decode()}")')


def _shell_regex(value: Regex[Any] | re.Pattern[Any]) -> Any:
    pattern, options = _regex_parts(value)
    if _BETWEEN_SLASHES.fullmatch(pattern):
        escaped = pattern.replace("/", "\\/")
        return orjson.Fragment(f"/{escaped}/{options}")
    return orjson.Fragment(b'RegExp(%b, "%b")' % (orjson.dumps(pattern), options.encode()))


_STANDARD: dict[type, RenderValue] = {
    ObjectId: lambda value: {"$oid": str(value)},
    Int64: int,
    Decimal128: lambda value: {"$numberDecimal": render_decimal(value)},
    datetime: lambda value: {"$date": build_millis(value)},
    DatetimeMS: lambda value: {"$date": int(value)},
    Timestamp: lambda value: {"$timestamp": {"t": value.time, "i": value.inc}},
    Binary: _binary,
    bytes: _binary,
    Regex: _regex,
    re.Pattern: _regex,
    MinKey: lambda _: {"$minKey": 1},
    MaxKey: lambda _: {"$maxKey": 1},
    UUID: str,  # as orjson does; the store returns binary of subtype 4 instead
}
_MARKED_LONGS = _STANDARD | {Int64: lambda value: {"$numberLong": str(int(value))}}
_CANONICAL = _MARKED_LONGS | {Regex: _regex_operator, re.Pattern: _regex_operator}
_GRAPHQL = _CANONICAL | {
    Binary: lambda value: binary_text(value) if is_uuid(value) else _binary(value)
}
_STRICT = _CANONICAL | {Binary: _old_binary, bytes: _old_binary}
_RELAXED = _STANDARD | {datetime: _relaxed_date, DatetimeMS: _relaxed_date}
_EXTENDED = _MARKED_LONGS | {datetime: _extended_date, DatetimeMS: _extended_date}
_SHELL: dict[type, RenderValue] = {
    ObjectId: lambda value: orjson.Fragment(f'ObjectId("{value}")'),
    Int64: _shell_long,
    Decimal128: lambda value: orjson.Fragment(f'NumberDecimal("{render_decimal(value)}")'),
    datetime: _shell_date,
    DatetimeMS: _shell_date,
    Timestamp: lambda value: orjson.Fragment(f"Timestamp({value.time}, {value.inc})"),
    Binary: _shell_binary,
    bytes: _shell_binary,
    Regex: _shell_regex,
    re.Pattern: _shell_regex,
    MinKey: lambda _: orjson.Fragment("MinKey"),
    MaxKey: lambda _: orjson.Fragment("MaxKey"),
    UUID: str,
}
_PLAIN = _STANDARD | {
    ObjectId: str,
    Int64: _plain_long,
    Decimal128: render_decimal,
    datetime: render_date,
    DatetimeMS: render_date,
    Timestamp: lambda value: f"{value.time}.{value.inc}",
    Binary: binary_text,
    bytes: binary_text,
    Regex: _plain_regex,
    re.Pattern: _plain_regex,
}

FORMS: dict[JsonMode, dict[type, RenderValue]] = {
    JsonMode.STANDARD: _STANDARD,
    JsonMode.STRICT: _STRICT,
    JsonMode.EXTENDED: _EXTENDED,
    JsonMode.RELAXED: _RELAXED,
    JsonMode.SHELL: _SHELL,
    JsonMode.GRAPHQL: _GRAPHQL,
    JsonMode.GRAPHQL_CANONICAL: _CANONICAL,
    JsonMode.GRAPHQL_RELAXED: _GRAPHQL | {Int64: int},
    JsonMode.GRAPHQL_PLAIN: _PLAIN,
    JsonMode.GRAPHQL_REST: _STANDARD,
    JsonMode.CSV: _PLAIN,
}
