"""Scalars: the GraphQL types of BSON values, one entry of `SCALARS` for each.

An entry has everything that GraphQL knows about the scalar: serialization of stored values, input
coercion (`inputs`), descriptions, JSON Schema and operators. Widening without loss is allowed
(decision 16), everything else is a ValueError. The JSON form is that of decision 17.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from math import isfinite
from typing import Any

from graphql import GraphQLScalarType, ValueNode

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
    is_uuid,
)
from docgraph.codec.encode import fragment
from docgraph.codec.forms import FORMS, JsonMode, RenderValue, double_form, plain_double_form
from docgraph.codec.id_text import render_id_text
from docgraph.codec.parse_scalars import INT32_MAX, INT32_MIN
from docgraph.graphql.definition.inputs import (
    coerce_datetime,
    coerce_decimal,
    coerce_document,
    coerce_long,
    coerce_object_id,
    coerce_plain_regex,
    coerce_regex,
    coerce_timestamp,
    coerce_uuid,
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
    if type_name == "Float":
        return _FLOATS.get(mode, _show_float)
    if type_name in _PLAIN:
        return _PLAIN[type_name]
    scalar = SCALARS[type_name]
    return _shown(scalar.check, scalar.form(mode))


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
        (Code, "javascript"),
        (str, "string"),
        (dict, "object"),
        (list, "array"),
        ((datetime, DatetimeMS), "date"),
        (bytes, "binary"),
        (ObjectId, "objectId"),
        (Decimal128, "decimal"),
        (Regex, "regex"),
        (Timestamp, "timestamp"),
        (DBRef, "DBRef"),
        (MinKey, "minKey"),
        (MaxKey, "maxKey"),
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


def _form_of(kind: type) -> Callable[[JsonMode], RenderValue]:
    return lambda mode: FORMS[mode][kind]


def _date_form(mode: JsonMode) -> RenderValue:
    near, far = FORMS[mode][datetime], FORMS[mode][DatetimeMS]
    return lambda value: near(value) if isinstance(value, datetime) else far(value)


def _document_form(mode: JsonMode) -> RenderValue:
    return lambda value: fragment(value, mode)


def _show_string(value: Any) -> str:
    if type(value) is str:
        return value
    if isinstance(value, ObjectId | str) and not isinstance(value, Code):  # a subclass of str
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


_BSON_SPECIFICATION = "https://bsonspec.org/spec.html"
_MONGODB_SPECIFICATIONS = "https://github.com/mongodb/specifications/blob/master/source"


@dataclass(frozen=True, slots=True, kw_only=True)
class BsonScalar:
    """A predeclared scalar: everything that GraphQL knows about a BSON type.

    Descriptions and schemas with `plain` are those of apps with `json-mode: plain`; in other modes
    the form of a result depends on its value.
    """

    check: Serializer  # returns a stored value in the type of the scalar, or raises ValueError
    form: Callable[[JsonMode], RenderValue]
    coerce: Callable[[Any], Any]  # what callers send
    coerce_plain: Callable[[Any], Any] | None = None
    description: str
    plain_description: str
    specified_by: str
    input_schema: Mapping[str, Any]  # how callers write it; every other form is accepted, too
    plain_schema: Mapping[str, Any]
    has_range: bool = False  # filters can have `gt`, `lt` and similar
    is_number: bool = False  # its text is a number or a date in every mode, never a formula in CSV


SCALARS: Mapping[str, BsonScalar] = {
    "BsonDocument": BsonScalar(
        check=_expecting("BsonDocument", dict, DBRef),
        form=_document_form,
        coerce=coerce_document,
        description="A document of the database.",
        plain_description="A document of the database; its values are written as the scalars are.",
        specified_by=_BSON_SPECIFICATION,
        input_schema={"type": "object"},
        plain_schema={"type": "object"},
    ),
    "ObjectId": BsonScalar(
        check=_expecting("ObjectId", ObjectId),
        form=_form_of(ObjectId),
        coerce=coerce_object_id,
        description='An identifier of 12 bytes: `{"$oid": "…"}`.',
        plain_description="An identifier of 12 bytes: a text of 24 hexadecimal digits.",
        specified_by=f"{_MONGODB_SPECIFICATIONS}/bson-objectid/objectid.md",
        input_schema={"type": "string", "examples": ["5d7a4b59cf6eeb5f9a3b8d2e"]},
        plain_schema={"type": "string", "pattern": "^[0-9a-f]{24}$"},
        has_range=True,
    ),
    "Decimal128": BsonScalar(
        check=_as_decimal,
        form=_form_of(Decimal128),
        coerce=coerce_decimal,
        description='A decimal number of 34 digits: `{"$numberDecimal": "…"}`.',
        plain_description="A decimal number of 34 digits, as a text that keeps all of them.",
        specified_by=f"{_MONGODB_SPECIFICATIONS}/bson-decimal128/decimal128.md",
        input_schema={"type": ["string", "number"], "examples": ["19.90"]},
        plain_schema={"type": "string", "description": "a decimal number"},
        has_range=True,
        is_number=True,
    ),
    "Timestamp": BsonScalar(
        check=_expecting("Timestamp", Timestamp),
        form=_form_of(Timestamp),
        coerce=coerce_timestamp,
        description='A timestamp of the database itself: `{"$timestamp": {"t": …, "i": …}}`.',
        plain_description=(
            "A timestamp of the database itself: the text `t.i`, seconds and counter."
        ),
        specified_by=_BSON_SPECIFICATION,
        input_schema={"type": "string", "examples": ["1717156800.1"]},
        plain_schema={"type": "string"},
        has_range=True,
        is_number=True,
    ),
    "DateTime": BsonScalar(
        check=_expecting("DateTime", datetime, DatetimeMS),
        form=_date_form,
        coerce=coerce_datetime,
        description='A date: `{"$date": <milliseconds since 1970>}`.',
        plain_description=(
            "A date in UTC with milliseconds, in ISO 8601: `2024-05-31T12:00:00.000Z`."
        ),
        specified_by="https://scalars.graphql.org/andimarek/date-time.html",
        input_schema={
            "type": "string",
            "format": "date-time",
            "examples": ["2024-05-31T12:00:00Z"],
        },
        plain_schema={"type": "string", "format": "date-time"},
        has_range=True,
        is_number=True,
    ),
    "Regex": BsonScalar(
        check=_expecting("Regex", Regex, re.Pattern),
        form=_form_of(Regex),
        coerce=coerce_regex,
        coerce_plain=coerce_plain_regex,
        description='A regular expression: `{"$regex": "…", "$options": "…"}`.',
        plain_description="A regular expression: the text `/pattern/options`.",
        specified_by=_BSON_SPECIFICATION,
        input_schema={"type": "string", "examples": ["/^a/i"]},
        plain_schema={"type": "string"},
    ),
    "Long": BsonScalar(
        check=partial(_as_integer, "Long"),
        form=_form_of(Int64),
        coerce=coerce_long,
        description='An integer of 64 bits: `{"$numberLong": "…"}`.',
        plain_description=(
            "An integer of 64 bits: "
            "a number up to 2^53 - 1 either way, its digits as a text beyond."
        ),
        specified_by=_BSON_SPECIFICATION,
        input_schema={"type": ["integer", "string"], "examples": [5000000000]},
        plain_schema={"type": ["integer", "string"]},  # the digits beyond 2^53 - 1
        has_range=True,
        is_number=True,
    ),
    "UUID": BsonScalar(
        check=_as_uuid,
        form=_form_of(Binary),
        coerce=coerce_uuid,
        description="A universally unique identifier: its text with dashes.",
        plain_description="A universally unique identifier: its text with dashes.",
        specified_by="https://www.rfc-editor.org/rfc/rfc9562",
        input_schema={
            "type": "string",
            "format": "uuid",
            "examples": ["0b6fa6f4-2a3d-4c1e-9d0b-6f2f6b6f9b11"],
        },
        plain_schema={"type": "string", "format": "uuid"},
    ),
}

_NUMBERS, _TEXTS = ["int", "long", "double"], ["string", "symbol", "objectId"]
STORED_TYPES: Mapping[str, list[str]] = {
    **{"String": _TEXTS, "Int": _NUMBERS, "Float": _NUMBERS, "Long": _NUMBERS, "Boolean": ["bool"]},
    "ID": [*_TEXTS, *_NUMBERS, "bool", "decimal", "date", "timestamp", "binData"],
    **{
        "BsonDocument": ["object"],
        "ObjectId": ["objectId"],
        "Decimal128": ["int", "long", "decimal"],
    },
    **{"Timestamp": ["timestamp"], "DateTime": ["date"], "Regex": ["regex"], "UUID": ["binData"]},
}
"""The types of stored values that a scalar may show, by their names in `$type`."""

BSON_SCALARS: Mapping[str, GraphQLScalarType] = {
    name: _scalar(name, scalar.coerce, JsonMode.GRAPHQL, scalar.description)
    for name, scalar in SCALARS.items()
}
"""The predeclared scalars as GraphQL types."""

PLAIN_BSON_SCALARS: Mapping[str, GraphQLScalarType] = {
    name: _scalar(
        name,
        scalar.coerce_plain or scalar.coerce,
        JsonMode.GRAPHQL_PLAIN,
        scalar.plain_description,
        scalar.specified_by,
    )
    for name, scalar in SCALARS.items()
}
"""The same, as an app with `json-mode: plain` has them."""
