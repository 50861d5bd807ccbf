"""Extended JSON (`{"$oid": …}`) and MongoDB shell notation (`ObjectId("…")`) to BSON values.

An object that has one of the type keys is that type or an error, with two exceptions that have
another meaning, too: `$regex` (a query operator, unless its only other key is `$options`) and
`$ref` (a reference needs `$id`, too). Every other `$` key is an operator and remains unchanged.
"""

from __future__ import annotations

import binascii
import re
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
    show,
)
from docgraph.exchange.data import Document

_SUBTYPE = re.compile("[0-9a-fA-F]{1,2}")


def build_value(document: Document) -> Any:
    """Build the value of an object with a type key; its own values are already built."""
    if len(document) == 1:
        ((key, given),) = document.items()
        return _ALONE[key](given)
    if len(document) == 2:  # noqa: PLR2004
        for key, (partner, build) in _PAIRS.items():
            if key in document and partner in document:
                return build(document, document[key], document[partner])
    if isinstance(document.get("$ref"), str) and "$id" in document:
        database = _text(document["$db"], "$db") if "$db" in document else None
        others = {key: value for key, value in document.items() if key not in _REFERENCE}
        return DBRef(document["$ref"], document["$id"], database, others)
    key = next(key for key in document if key in TYPE_KEYS)
    if key in _OPERATORS:
        return document
    extra = next(other for other in document if other != key)
    raise InvalidScalar(f"{key} cannot be used together with the key {show(extra)}")


def _from_text(key: str, parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    def build(given: Any) -> Any:
        if type(given) is not str:
            raise InvalidScalar(f"{key} takes a string")
        return parse(given)

    return build


def _constant(key: str, expected: Any, make: Callable[[], Any]) -> Callable[[Any], Any]:
    def build(given: Any) -> Any:
        if type(given) is not type(expected) or given != expected:
            raise InvalidScalar(f"{key} takes {str(expected).lower()} and nothing else")
        return make()

    return build


def _build_date(given: Any) -> Any:
    if type(given) is str:
        return parse_date(given)
    if isinstance(given, int) and given is not True and given is not False:
        return build_date(given)
    raise InvalidScalar('$date takes milliseconds, an ISO 8601 text or {"$numberLong": "…"}')


def _build_binary(given: Any) -> Any:
    inner = _inner(given, "$binary", "base64", "subType")
    subtype = _text(inner["subType"], "subType")
    return parse_binary(_text(inner["base64"], "base64"), _parse_subtype(subtype))


def _build_regular_expression(given: Any) -> Any:
    inner = _inner(given, "$regularExpression", "pattern", "options")
    return build_regex(_text(inner["pattern"], "pattern"), _text(inner["options"], "options"))


def _build_regex(document: Document, pattern: Any, options: Any) -> Any:
    if isinstance(pattern, str) and isinstance(options, str):
        return build_regex(pattern, options)
    return document  # an operator whose pattern or options are variables


def _build_timestamp(given: Any) -> Any:
    inner = _inner(given, "$timestamp", "t", "i")
    return build_timestamp(inner["t"], inner["i"])


def _build_code(_document: Document, code: Any, scope: Any) -> Any:
    if not isinstance(scope, dict):
        raise InvalidScalar("$scope takes an object")
    return Code(_text(code, "$code"), scope)


def _build_pointer(given: Any) -> Any:
    if not isinstance(given, DBRef):
        raise InvalidScalar("$dbPointer takes an object with $ref and $id")
    return given


def _parse_subtype(given: Any) -> int:
    if isinstance(given, int) and not isinstance(given, bool):  # the old form allows a number
        return given
    if not _SUBTYPE.fullmatch(_text(given, "a binary subtype")):
        raise InvalidScalar("a binary subtype is one or two hexadecimal digits")
    return int(given, 16)


def _inner(given: Any, key: str, *names: str) -> Document:
    if not isinstance(given, dict) or given.keys() != set(names):
        raise InvalidScalar(f"{key} takes an object with {' and '.join(names)}")
    return given


def _text(given: Any, name: str) -> str:
    if not isinstance(given, str):
        raise InvalidScalar(f"{name} takes a string")
    return given


_REFERENCE = frozenset({"$ref", "$id", "$db"})
_OPERATORS = frozenset({"$regex", "$ref"})  # keys that may also have another meaning

# The builders of type keys that are alone in their object, as nearly all of them are.
_ALONE: dict[str, Callable[[Any], Any]] = {
    "$oid": _from_text("$oid", parse_object_id),
    "$numberInt": _from_text("$numberInt", parse_int),
    "$numberLong": _from_text("$numberLong", parse_long),
    "$numberDouble": _from_text("$numberDouble", parse_double),
    "$numberDecimal": _from_text("$numberDecimal", parse_decimal),
    "$uuid": _from_text("$uuid", parse_uuid),
    "$symbol": _from_text("$symbol", str),
    "$code": _from_text("$code", Code),
    "$minKey": _constant("$minKey", 1, MinKey),
    "$maxKey": _constant("$maxKey", 1, MaxKey),
    "$undefined": _constant("$undefined", True, lambda: None),
    "$date": _build_date,
    "$binary": _build_binary,
    "$regularExpression": _build_regular_expression,
    "$timestamp": _build_timestamp,
    "$dbPointer": _build_pointer,
    "$regex": lambda given: {"$regex": given},
    "$ref": lambda given: {"$ref": given},
}
# Type keys that have exactly one other key next to them.
_PAIRS: dict[str, tuple[str, Callable[[Document, Any, Any], Any]]] = {
    "$binary": (
        "$type",
        lambda _, data, subtype: parse_binary(_text(data, "$binary"), _parse_subtype(subtype)),
    ),
    "$code": ("$scope", _build_code),
    "$regex": ("$options", _build_regex),
}
TYPE_KEYS = frozenset(_ALONE)


CallArguments = list[Any]


def call(name: str, arguments: CallArguments) -> Any:
    """Return the value of a call in the shell's notation; the name is one of `CALLS`.

    A table maps the name to a function of the arguments. Nothing is evaluated: a name that is not
    in the table is an error.
    """
    fewest, most, build = CALLS[name]
    if not fewest <= len(arguments) <= most:
        expected = str(most) if fewest == most else f"{fewest} to {most}"
        raise InvalidScalar(f"{name}() takes {expected} arguments, not {len(arguments)}")
    return build(name, arguments)


def _object_id(name: str, arguments: CallArguments) -> Any:
    return parse_object_id(_shell_text(name, arguments[0])) if arguments else ObjectId()


def _date(name: str, arguments: CallArguments) -> Any:
    if not arguments:
        return build_date(build_millis(datetime.now(UTC)))
    given = arguments[0]
    if _is_integer(given):
        return build_date(given)
    return parse_date(_shell_text(name, given))


def _int(name: str, arguments: CallArguments) -> Any:
    given = arguments[0]
    return parse_int(str(given) if _is_integer(given) else _shell_text(name, given))


def _long(name: str, arguments: CallArguments) -> Any:
    given = arguments[0]
    return build_long(given) if _is_integer(given) else parse_long(_shell_text(name, given))


def _double(name: str, arguments: CallArguments) -> Any:
    given = arguments[0]
    if isinstance(given, float):
        return given
    return float(given) if _is_integer(given) else parse_double(_shell_text(name, given))


def _decimal(name: str, arguments: CallArguments) -> Any:
    given = arguments[0]
    if _is_integer(given) or isinstance(given, float):
        return parse_decimal(str(given))
    return parse_decimal(_shell_text(name, given))


def _timestamp(name: str, arguments: CallArguments) -> Any:
    if len(arguments) == 1 and isinstance(arguments[0], dict):
        parts = arguments[0]
        if parts.keys() != {"t", "i"}:
            raise InvalidScalar(f"{name}() takes two integers or an object with t and i")
        return build_timestamp(parts["t"], parts["i"])
    return build_timestamp(arguments[0], arguments[1] if len(arguments) > 1 else None)


def _binary(name: str, arguments: CallArguments) -> Any:
    return parse_binary(_shell_text(name, arguments[1]), _subtype(name, arguments[0]))


def _hexadecimal(name: str, arguments: CallArguments) -> Any:
    text = _shell_text(name, arguments[1])
    try:
        data = binascii.unhexlify(text)
    except ValueError:
        raise InvalidScalar(f"{name}() takes pairs of hexadecimal digits") from None
    return build_binary(data, _subtype(name, arguments[0]))


def _regex(name: str, arguments: CallArguments) -> Any:
    options = _shell_text(name, arguments[1]) if len(arguments) > 1 else ""
    return build_regex(_shell_text(name, arguments[0]), options)


def _code(name: str, arguments: CallArguments) -> Any:
    scope = arguments[1] if len(arguments) > 1 else None
    if scope is not None and not isinstance(scope, dict):
        raise InvalidScalar(f"{name}() takes an object as its scope")
    return Code(_shell_text(name, arguments[0]), scope)


def _reference(name: str, arguments: CallArguments) -> Any:
    has_database = len(arguments) > 2  # noqa: PLR2004 - DBRef(collection, id, database)
    database = _shell_text(name, arguments[2]) if has_database else None
    return DBRef(_shell_text(name, arguments[0]), arguments[1], database)


def _subtype(name: str, given: Any) -> int:
    if not _is_integer(given):
        raise InvalidScalar(f"{name}() takes an integer as its subtype")
    return int(given)


def _shell_text(name: str, given: Any) -> str:
    if type(given) is not str:
        raise InvalidScalar(f"{name}() takes a string")
    return given


def _is_integer(given: Any) -> bool:
    return type(given) is int or type(given) is Int64


# name: minimum and maximum number of arguments, and the builder. The second names of the numbers
# are those of the newer shell.
CALLS: dict[str, tuple[int, int, Callable[[str, CallArguments], Any]]] = {
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
    "UUID": (1, 1, lambda name, arguments: parse_uuid(_shell_text(name, arguments[0]))),
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
