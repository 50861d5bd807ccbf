"""The kinds of stored values, and the scalar that can show several of them."""

from __future__ import annotations

import re
from collections.abc import Collection
from datetime import datetime
from typing import Any, Final

from docgraph.codec.types import (
    Binary,
    DatetimeMS,
    Decimal128,
    Int64,
    ObjectId,
    Regex,
    Timestamp,
)

__all__ = ["NUMBERS", "choose_scalar", "is_date_text", "kind_of"]

_UUID: Final = 4
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
    "uuid": "ID",
    "binary": "ID",
}
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
    """The name of a value's kind, near to what MongoDB calls it; `other` for what has no scalar."""
    if value is None:
        return "null"
    if isinstance(value, Binary):
        return "uuid" if value.subtype == _UUID else "binary"
    return _KINDS.get(type(value), "other")


def choose_scalar(kinds: Collection[str]) -> str | None:
    """The scalar that shows all of these kinds; None where none does."""
    if len(kinds) == 1:
        return _SCALARS.get(next(iter(kinds)))
    if not all(kind in _SCALARS for kind in kinds):
        return None
    found = set(kinds)
    return next((scalar for common, scalar in _COMMON if found <= common), "ID")


def is_date_text(value: str) -> bool:
    """Whether a text is written as a date of ISO 8601."""
    return _DATE_TEXT.fullmatch(value) is not None
