"""Scalars: the GraphQL types, and how stored values are serialized.

Widening without loss is allowed (decision 16), everything else is a ValueError. The JSON form is
that of decision 17. `inputs` coerces what callers send.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from math import isfinite
from typing import Any

from graphql import GraphQLFloat, GraphQLID, GraphQLScalarType, StringValueNode, ValueNode

from docgraph.codec.bson_types import (
    Binary,
    DatetimeMS,
    DBRef,
    Decimal128,
    Int64,
    ObjectId,
    Regex,
    Timestamp,
    is_uuid,
)
from docgraph.codec.encode import fragment
from docgraph.codec.forms import FORMS, JsonMode, RenderValue, double_form, plain_double_form
from docgraph.codec.id_text import IdText, render_id_text
from docgraph.codec.parse_scalars import INT32_MAX, INT32_MIN
from docgraph.graphql.definition.inputs import (
    PARSERS,
    PLAIN_PARSERS,
    build_bson,
    read_literal,
)

Serializer = Callable[[Any], Any]

JSON_MODES: Mapping[str, JsonMode] = {
    "standard": JsonMode.GRAPHQL,
    "canonical": JsonMode.GRAPHQL_CANONICAL,
    "relaxed": JsonMode.GRAPHQL_RELAXED,
    "plain": JsonMode.GRAPHQL_PLAIN,
    "rest": JsonMode.GRAPHQL_REST,
}
"""The values of `graphql.json-mode` and `descriptor.json-mode`."""

_EXACT_INTEGERS = 2**53


def serializer(type_name: str, mode: JsonMode) -> Serializer:
    """Return the serializer of this scalar; it raises ValueError for a value that does not fit."""
    match type_name:
        case "Float":
            return _FLOATS.get(mode, _show_float)
        case "DateTime":
            return _shown(_expecting("DateTime", datetime, DatetimeMS), _date_form(mode))
        case "BsonDocument":
            expect = _expecting("BsonDocument", dict, DBRef)
            return _shown(expect, lambda value: fragment(value, mode))
    if type_name in _PLAIN:
        return _PLAIN[type_name]
    parse_value, kind = _STORED[type_name]
    return _shown(parse_value, FORMS[mode][kind])


def _shown(parse_value: Serializer, form: Serializer) -> Serializer:
    return lambda value: form(parse_value(value))


def _misfit(type_name: str, value: Any) -> ValueError:
    return ValueError(f"{type_name} cannot represent a stored value of type {_kind_of(value)}")


def _kind_of(value: Any) -> str:
    """Return the database's name of the type, never the value itself."""
    kinds: tuple[tuple[Any, str], ...] = (
        (bool, "boolean"),
        (Int64, "long"),
        (int, "int"),
        (float, "double"),
        (str, "string"),
        (dict, "object"),
        (list, "array"),
        ((datetime, DatetimeMS), "date"),
        (bytes, "binary"),
        (ObjectId, "objectId"),
        (Decimal128, "decimal"),
        (Regex, "regex"),
        (Timestamp, "timestamp"),
    )
    return next((name for kind, name in kinds if isinstance(value, kind)), "another kind")


def _expecting(type_name: str, *kinds: type) -> Serializer:
    def parse_value(value: Any) -> Any:
        if not isinstance(value, kinds):
            raise _misfit(type_name, value)
        return value

    return parse_value


def _as_integer(type_name: str, value: Any) -> int:
    """Return a whole number, also one that is stored as a double without a fraction."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT_INTEGERS:
        return int(value)
    if isinstance(value, float):
        raise ValueError(f"{type_name} cannot represent a stored double that is no whole number")
    raise _misfit(type_name, value)


def _show_int(value: Any) -> int:
    number = _as_integer("Int", value)
    if not INT32_MIN <= number <= INT32_MAX:
        raise ValueError("Int cannot represent a stored number beyond 32 bits; declare Long")
    return number


def _as_float(value: Any) -> float:
    if isinstance(value, float):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        number = float(value)
        if int(number) != value:
            raise ValueError("Float cannot represent a stored long without loss; declare Long")
        return number
    raise _misfit("Float", value)


def _show_float(value: Any) -> Any:
    number = value if type(value) is float else _as_float(value)
    return number if isfinite(number) else double_form(number)


def _plain_float(value: Any) -> Any:
    number = _as_float(value)
    return number if isfinite(number) else plain_double_form(number)


_FLOATS: Mapping[JsonMode, Serializer] = {
    JsonMode.GRAPHQL_CANONICAL: lambda value: double_form(_as_float(value)),
    JsonMode.GRAPHQL_PLAIN: _plain_float,
}


def _as_decimal(value: Any) -> Decimal128:
    if isinstance(value, int) and not isinstance(value, bool):
        return Decimal128(str(int(value)))
    if not isinstance(value, Decimal128):
        raise _misfit("Decimal128", value)
    return value


def _as_uuid(value: Any) -> Any:
    if not is_uuid(value):
        raise _misfit("UUID", value)
    return value


_STORED: Mapping[str, tuple[Serializer, type]] = {
    "Long": (partial(_as_integer, "Long"), Int64),
    "Decimal128": (_as_decimal, Decimal128),
    "ObjectId": (_expecting("ObjectId", ObjectId), ObjectId),
    "Timestamp": (_expecting("Timestamp", Timestamp), Timestamp),
    "UUID": (_as_uuid, Binary),
    "Regex": (_expecting("Regex", Regex, re.Pattern), Regex),
}


def _date_form(mode: JsonMode) -> RenderValue:
    near, far = FORMS[mode][datetime], FORMS[mode][DatetimeMS]
    return lambda value: near(value) if isinstance(value, datetime) else far(value)


def _show_string(value: Any) -> str:
    if type(value) is str:
        return value
    if isinstance(value, ObjectId | str):
        return str(value)
    raise _misfit("String", value)


def _show_boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _misfit("Boolean", value)
    return value


def _show_id(value: Any) -> str:
    text = render_id_text(value)
    if text is None:
        raise _misfit("ID", value)
    return text


_PLAIN: Mapping[str, Serializer] = {
    "String": _show_string,
    "Int": _show_int,
    "Boolean": _show_boolean,
    "ID": _show_id,
}


def _scalar(
    name: str,
    parse: Callable[[Any], Any],
    mode: JsonMode,
    description: str,
    specified_by_url: str | None = None,
) -> GraphQLScalarType:
    def parse_literal(node: ValueNode, variables: dict[str, Any] | None = None) -> Any:
        return parse(read_literal(node, variables))

    return GraphQLScalarType(
        name,
        parse_value=parse,
        parse_literal=parse_literal,
        serialize=serializer(name, mode),
        description=description,
        specified_by_url=specified_by_url,
    )


_NOT_FINITE = {plain_double_form(number): number for number in map(float, ("nan", "inf", "-inf"))}
_parse_number = GraphQLFloat.coerce_input_value
_parse_number_literal: Any = GraphQLFloat.coerce_input_literal


def _parse_float(value: Any) -> float:
    """Parse a number, or the text that results have for NaN and infinities (decision 16)."""
    if isinstance(value, dict) and isinstance(opened := build_bson(value), float):
        return opened
    if isinstance(value, str) and value in _NOT_FINITE:
        return _NOT_FINITE[value]
    number: float = _parse_number(value)
    return number


def _parse_float_literal(node: ValueNode) -> float:
    if isinstance(node, StringValueNode) and node.value in _NOT_FINITE:
        return _NOT_FINITE[node.value]
    number: float = _parse_number_literal(node)
    return number


# graphql-core finds its own types by their names: a schema cannot have another Float.
GraphQLFloat.coerce_input_value = GraphQLFloat.parse_value = _parse_float  # type: ignore[method-assign]
GraphQLFloat.coerce_input_literal = _parse_float_literal

_parse_text = GraphQLID.coerce_input_value
_parse_text_literal: Any = GraphQLID.coerce_input_literal


def _parse_id(value: Any) -> IdText:
    return IdText(_parse_text(value))


def _parse_id_literal(node: ValueNode) -> Any:
    text = _parse_text_literal(node)
    return IdText(text) if isinstance(text, str) else text


GraphQLID.coerce_input_value = GraphQLID.parse_value = _parse_id  # type: ignore[method-assign]
GraphQLID.coerce_input_literal = _parse_id_literal

_DESCRIPTIONS = {
    "BsonDocument": "A document of the database.",
    "ObjectId": 'An identifier of 12 bytes: `{"$oid": "…"}`.',
    "Decimal128": 'A decimal number of 34 digits: `{"$numberDecimal": "…"}`.',
    "Timestamp": 'A timestamp of the database itself: `{"$timestamp": {"t": …, "i": …}}`.',
    "DateTime": 'A date: `{"$date": <milliseconds since 1970>}`.',
    "Regex": 'A regular expression: `{"$regex": "…", "$options": "…"}`.',
    "Long": 'An integer of 64 bits: `{"$numberLong": "…"}`.',
    "UUID": "A universally unique identifier: its text with dashes.",
}
_BSON_SPECIFICATION = "https://bsonspec.org/spec.html"
_MONGODB_SPECIFICATIONS = "https://github.com/mongodb/specifications/blob/master/source"
_PLAIN_DESCRIPTIONS = {
    "BsonDocument": (
        "A document of the database; its values are written as the scalars are.",
        _BSON_SPECIFICATION,
    ),
    "ObjectId": (
        "An identifier of 12 bytes: a text of 24 hexadecimal digits.",
        f"{_MONGODB_SPECIFICATIONS}/bson-objectid/objectid.md",
    ),
    "Decimal128": (
        "A decimal number of 34 digits, as a text that keeps all of them.",
        f"{_MONGODB_SPECIFICATIONS}/bson-decimal128/decimal128.md",
    ),
    "Timestamp": (
        "A timestamp of the database itself: the text `t.i`, seconds and counter.",
        _BSON_SPECIFICATION,
    ),
    "DateTime": (
        "A date in UTC with milliseconds, in ISO 8601: `2024-05-31T12:00:00.000Z`.",
        "https://scalars.graphql.org/andimarek/date-time.html",
    ),
    "Regex": ("A regular expression: the text `/pattern/options`.", _BSON_SPECIFICATION),
    "UUID": (
        "A universally unique identifier: its text with dashes.",
        "https://www.rfc-editor.org/rfc/rfc9562",
    ),
    "Long": (
        "An integer of 64 bits: a number up to 2^53 - 1 either way, its digits as a text beyond.",
        _BSON_SPECIFICATION,
    ),
}

BSON_SCALARS: Mapping[str, GraphQLScalarType] = {
    name: _scalar(name, PARSERS[name], JsonMode.GRAPHQL, description)
    for name, description in _DESCRIPTIONS.items()
}
"""The predeclared scalars, with the coercion of what callers send."""

PLAIN_BSON_SCALARS: Mapping[str, GraphQLScalarType] = {
    name: _scalar(name, PLAIN_PARSERS[name], JsonMode.GRAPHQL_PLAIN, description, url)
    for name, (description, url) in _PLAIN_DESCRIPTIONS.items()
}
"""The same, as an app with `json-mode: plain` has them."""
