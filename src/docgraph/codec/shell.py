"""MongoDB shell notation: `ObjectId("…")`, `ISODate("…")`, `NumberLong(5)`, …

A table maps the name to a function of the arguments. Nothing is evaluated: a name that is not in
the table is an error.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from docgraph.codec.bson_types import Code, DBRef, Int64, MaxKey, MinKey, ObjectId
from docgraph.codec.parse_scalars import (
    InvalidScalar,
    build_binary,
    build_date,
    build_long,
    build_millis,
    build_regex,
    build_timestamp,
    parse_binary,
    parse_date,
    parse_decimal,
    parse_double,
    parse_int,
    parse_long,
    parse_object_id,
    parse_uuid,
)

Arguments = list[Any]


def call(name: str, arguments: Arguments) -> Any:
    """Return the value of a call in the shell's notation; the name is one of `CALLS`."""
    fewest, most, build = CALLS[name]
    if not fewest <= len(arguments) <= most:
        expected = str(most) if fewest == most else f"{fewest} to {most}"
        raise InvalidScalar(f"{name}() takes {expected} arguments, not {len(arguments)}")
    return build(name, arguments)


def _object_id(name: str, arguments: Arguments) -> Any:
    return parse_object_id(_text(name, arguments[0])) if arguments else ObjectId()


def _date(name: str, arguments: Arguments) -> Any:
    if not arguments:
        return build_date(build_millis(datetime.now(UTC)))
    given = arguments[0]
    if _is_integer(given):
        return build_date(given)
    return parse_date(_text(name, given))


def _int(name: str, arguments: Arguments) -> Any:
    given = arguments[0]
    return parse_int(str(given) if _is_integer(given) else _text(name, given))


def _long(name: str, arguments: Arguments) -> Any:
    given = arguments[0]
    return build_long(given) if _is_integer(given) else parse_long(_text(name, given))


def _double(name: str, arguments: Arguments) -> Any:
    given = arguments[0]
    if isinstance(given, float):
        return given
    return float(given) if _is_integer(given) else parse_double(_text(name, given))


def _decimal(name: str, arguments: Arguments) -> Any:
    given = arguments[0]
    if _is_integer(given) or isinstance(given, float):
        return parse_decimal(str(given))
    return parse_decimal(_text(name, given))


def _uuid(name: str, arguments: Arguments) -> Any:
    return parse_uuid(_text(name, arguments[0]))


def _timestamp(name: str, arguments: Arguments) -> Any:
    if len(arguments) == 1 and isinstance(arguments[0], dict):
        parts = arguments[0]
        if parts.keys() != {"t", "i"}:
            raise InvalidScalar(f"{name}() takes two integers or an object with t and i")
        return build_timestamp(parts["t"], parts["i"])
    return build_timestamp(arguments[0], arguments[1] if len(arguments) > 1 else None)


def _binary(name: str, arguments: Arguments) -> Any:
    return parse_binary(_text(name, arguments[1]), _subtype(name, arguments[0]))


def _hexadecimal(name: str, arguments: Arguments) -> Any:
    text = _text(name, arguments[1])
    try:
        data = binascii.unhexlify(text)
    except ValueError:
        raise InvalidScalar(f"{name}() takes pairs of hexadecimal digits") from None
    return build_binary(data, _subtype(name, arguments[0]))


def _regex(name: str, arguments: Arguments) -> Any:
    options = _text(name, arguments[1]) if len(arguments) > 1 else ""
    return build_regex(_text(name, arguments[0]), options)


def _code(name: str, arguments: Arguments) -> Any:
    scope = arguments[1] if len(arguments) > 1 else None
    if scope is not None and not isinstance(scope, dict):
        raise InvalidScalar(f"{name}() takes an object as its scope")
    return Code(_text(name, arguments[0]), scope)


def _reference(name: str, arguments: Arguments) -> Any:
    database = _text(name, arguments[2]) if len(arguments) > 2 else None  # noqa: PLR2004
    return DBRef(_text(name, arguments[0]), arguments[1], database)


def _subtype(name: str, given: Any) -> int:
    if not _is_integer(given):
        raise InvalidScalar(f"{name}() takes an integer as its subtype")
    return int(given)


def _text(name: str, given: Any) -> str:
    if type(given) is not str:
        raise InvalidScalar(f"{name}() takes a string")
    return given


def _is_integer(given: Any) -> bool:
    return type(given) is int or type(given) is Int64


# name: minimum and maximum number of arguments, and the builder. The second names of the numbers
# are those of the newer shell.
CALLS: dict[str, tuple[int, int, Callable[[str, Arguments], Any]]] = {
    "ObjectId": (0, 1, _object_id),
    "ISODate": (0, 1, _date),
    "Date": (0, 1, _date),
    "NumberInt": (1, 1, _int),
    "Int32": (1, 1, _int),
    "NumberLong": (1, 1, _long),
    "Long": (1, 1, _long),
    "Double": (1, 1, _double),
    "NumberDecimal": (1, 1, _decimal),
    "Decimal128": (1, 1, _decimal),
    "UUID": (1, 1, _uuid),
    "Timestamp": (1, 2, _timestamp),
    "BinData": (2, 2, _binary),
    "HexData": (2, 2, _hexadecimal),
    "RegExp": (1, 2, _regex),
    "Code": (1, 2, _code),
    "DBRef": (2, 3, _reference),
    "MinKey": (0, 0, lambda _name, _arguments: MinKey()),
    "MaxKey": (0, 0, lambda _name, _arguments: MaxKey()),
}
CONSTANTS: dict[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "undefined": None,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "MinKey": MinKey(),
    "MaxKey": MaxKey(),
}
