"""Kinds of stored values, and the scalar that can represent several of them."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

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
from docgraph.codec.id_text import BINARY_SUBTYPES

_KINDS: Final[dict[type, str]] = {
    str: "string",
    bool: "bool",
    int: "int",
    Int64: "long",
    float: "double",
    dict: "object",
    list: "array",
    datetime: "date",
    DatetimeMS: "date",
    ObjectId: "objectId",
    Decimal128: "decimal",
    Timestamp: "timestamp",
    Regex: "regex",
    bytes: "binary",
    DBRef: "dbRef",
}
_SCALARS: Final = {
    "string": "String",
    "bool": "Boolean",
    "int": "Int",
    "long": "Long",
    "double": "Float",
    "date": "DateTime",
    "objectId": "ObjectId",
    "decimal": "Decimal128",
    "timestamp": "Timestamp",
    "regex": "Regex",
    "uuid": "UUID",
    "binary": "ID",
    "dbRef": "BsonDocument",
}
_NOT_IN_ID: Final = frozenset({"regex", "dbRef"})
NUMBERS: Final = frozenset({"int", "long", "double", "decimal"})
_COMMON: Final = (
    (frozenset({"int", "long"}), "Long"),
    (frozenset({"int", "long", "double"}), "Float"),
    (frozenset({"int", "long", "decimal"}), "Decimal128"),
    (frozenset({"string", "objectId"}), "String"),
)
_DATE_TEXT: Final = re.compile(
    r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?"
)


def kind_of(value: Any) -> str:
    """Return the kind of a value, similar to MongoDB's names; `other` if no scalar fits."""
    if value is None:
        return "null"
    if isinstance(value, Binary):
        is_shown = value.subtype in BINARY_SUBTYPES
        return "uuid" if is_uuid(value) else "binary" if is_shown else "other"
    return _KINDS.get(type(value), "other")


def choose_scalar(kinds: Collection[str]) -> str | None:
    """Return the scalar that represents all of these kinds; None if there is none."""
    if len(kinds) == 1:
        return _SCALARS.get(next(iter(kinds)))
    found = set(kinds)
    return next((scalar for common, scalar in _COMMON if found <= common), "ID")


def find_shown(kinds: Collection[str]) -> set[str]:
    """Return the kinds that have a scalar; of several kinds, those that `ID` shows."""
    shown = {kind for kind in kinds if kind in _SCALARS}
    return shown - _NOT_IN_ID if len(shown) > 1 else shown


def is_date_text(value: str) -> bool:
    """Return whether a string is an ISO 8601 date."""
    return _DATE_TEXT.fullmatch(value) is not None
