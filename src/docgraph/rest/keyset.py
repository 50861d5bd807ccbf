"""Keyset paging: the next page begins behind the last document, wherever that stands by now.

A token holds the sort key of the last document as the database computed it (`$meta: "sortKey"`: the
least element of an array, the greatest when descending, null where there is nothing). From it comes
a filter for what lies behind it in BSON's own order, in which values of different types have their
place, too. `$gt` and `$lt` compare within one type only, so that the types behind it are named; and
they look at any element of an array, so that what has an element before it is left out again. An
index on the sort with `_id` at its end answers such a filter without looking at the pages before.

The token is opaque to clients and checked when it comes back: it has to fit the sort. It need not
be signed, as it can say nothing that a `filter` could not.
"""

from __future__ import annotations

import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as Base64Error
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isnan
from typing import Any, Final
from uuid import UUID

from docgraph.codec import JsonMode, decode, encode
from docgraph.codec.types import (
    Binary,
    Code,
    DatetimeMS,
    DBRef,
    Decimal128,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from docgraph.exchange.errors import BodyError, RequestError
from docgraph.rest.parameters import Order

__all__ = ["EMPTY", "Key", "behind", "parse_token", "render_token", "with_tiebreak"]

Filter = dict[str, Any]
Key = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Empty:
    """The sort key of an empty array: it comes before null."""


EMPTY: Final = Empty()

# In BSON's order. Null is not among the names: what is missing has no type, and counts as null.
_CLASSES: Final[tuple[tuple[str, ...], ...]] = (
    ("minKey",),
    ("undefined",),
    ("null",),
    ("number",),
    ("string", "symbol"),
    ("object",),
    ("array",),
    ("binData",),
    ("objectId",),
    ("bool",),
    ("date",),
    ("timestamp",),
    ("regex",),
    ("dbPointer",),
    ("javascript",),
    ("javascriptWithScope",),
    ("maxKey",),
)
_PLACE: Final = {name: place for place, names in enumerate(_CLASSES) for name in names}
_OF_TYPE: Final[tuple[tuple[tuple[type, ...], str], ...]] = (
    ((bool,), "bool"),  # before the numbers: Python's bool is one
    ((int, float, Decimal128), "number"),
    ((str,), "string"),
    ((dict,), "object"),
    ((list,), "array"),
    ((bytes, Binary, UUID), "binData"),
    ((ObjectId,), "objectId"),
    ((datetime, DatetimeMS), "date"),
    ((Timestamp,), "timestamp"),
    ((Regex, re.Pattern), "regex"),
    ((DBRef,), "dbPointer"),
    ((MinKey,), "minKey"),
    ((MaxKey,), "maxKey"),
)
# The operators cannot be used with them, or compare them across types.
_ALONE: Final = frozenset({"minKey", "maxKey", "undefined", "null"})


def with_tiebreak(order: Order) -> Order:
    """The order with `_id` at its end, in the direction of what is before it."""
    if any(isinstance(direction, dict) for _, direction in order):
        raise RequestError("after cannot be used with a sort by $meta")
    if any(path == "_id" for path, _ in order):
        return order
    return (*order, ("_id", order[-1][1] if order else -1))


# --- tokens ---------------------------------------------------------------------------------------


def render_token(order: Order, key: Key) -> str:
    """The text that stands for a place in that order."""
    empty = [place for place, value in enumerate(key) if value is EMPTY]
    values = [None if value is EMPTY else value for value in key]
    content = encode([_signature(order), values, empty], JsonMode.EXTENDED)
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def parse_token(order: Order, token: str) -> Key:
    """The place that the token stands for; it must have been made for the same order."""
    try:
        content = decode(urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (BodyError, Base64Error, ValueError):
        raise _illegal("it is not one of ours") from None
    match content:
        case [str(signature), list(values), list(empty)] if len(values) == len(order):
            if signature != _signature(order):
                raise _illegal("it belongs to another sort")
            return [EMPTY if place in empty else value for place, value in enumerate(values)]
    raise _illegal("it is not one of ours, or belongs to another sort")


def _signature(order: Order) -> str:
    return ",".join(f"{'-' if direction == -1 else ''}{path}" for path, direction in order)


def _illegal(reason: str) -> RequestError:
    return RequestError(
        f"illegal after parameter, {reason}",
        hint="take the next page from the header Link; an empty after is the first page",
    )


# --- the filter -----------------------------------------------------------------------------------


def behind(order: Order, key: Key) -> Filter:
    """What comes after the place: behind it in the first property, or level and behind in the next.

    `_id` ends every order and is unique, so that what follows it decides nothing.
    """
    branches: list[Filter] = []
    level: list[Filter] = []
    for (path, direction), value in zip(order, key, strict=True):
        branches += [_all([*level, part]) for part in _beyond(path, value, direction)]
        level.append(_level(path, value, direction))
        if path == "_id":
            break
    if not branches:
        return {"$nor": [{}]}  # nothing can come after
    return branches[0] if len(branches) == 1 else {"$or": branches}


def _beyond(path: str, value: Any, direction: int) -> list[Filter]:
    """Filters, one of which what is behind passes."""
    candidates = _side(path, value, direction)
    if path == "_id":
        return candidates  # never an array
    wrong = [*_side(path, value, -direction), _equal(path, value)]
    return [{"$and": [one, {"$nor": wrong}]} for one in candidates]


def _level(path: str, value: Any, direction: int) -> Filter:
    """What has the very same sort key."""
    if path == "_id":
        return _equal(path, value)
    before = _side(path, value, -direction)
    return {"$and": [_equal(path, value), {"$nor": before}]} if before else _equal(path, value)


def _side(path: str, value: Any, direction: int) -> list[Filter]:
    """Filters for values (of arrays: some element) greater, or less, than this one."""
    name = _name_class(value)
    place = _PLACE[name]
    filters: list[Filter] = []
    if name not in _ALONE:
        filters += _within(path, name, value, "$gt" if direction > 0 else "$lt")
    classes = _CLASSES[place + 1 :] if direction > 0 else _CLASSES[:place]
    types = [one for names in classes for one in names]
    if "null" in types:
        filters.append({path: None})
    if "undefined" in types:
        filters.append({path: {"$size": 0}})
    if "array" in types:
        filters.append({path: {"$elemMatch": {"$type": "array"}}})
    named = [one for one in types if one not in ("null", "array")]
    if named:
        filters.append({path: {"$type": named}})
    return filters


def _within(path: str, name: str, value: Any, operator: str) -> list[Filter]:
    """Greater or less among values of its own type."""
    if name == "regex":  # the operators do not take one
        expression = {operator: [f"${path}", {"$literal": value}]}
        return [{"$and": [{path: {"$type": "regex"}}, {"$expr": expression}]}]
    if name != "number":
        return [{path: {operator: value}}]
    # NaN comes before all numbers, and the operators do not know it.
    if _is_nan(value):
        return [{path: {"$type": "number", "$ne": float("nan")}}] if operator == "$gt" else []
    filters: list[Filter] = [{path: {operator: value}}]
    return filters if operator == "$gt" else [*filters, {path: {"$eq": float("nan")}}]


def _equal(path: str, value: Any) -> Filter:
    if value is EMPTY:
        return {"$or": [{path: {"$size": 0}}, {path: {"$type": "undefined"}}]}
    return {path: {"$eq": value}}


def _all(filters: list[Filter]) -> Filter:
    return filters[0] if len(filters) == 1 else {"$and": filters}


def _name_class(value: Any) -> str:
    if value is None:
        return "null"
    if value is EMPTY:
        return "undefined"
    if isinstance(value, Code):
        return "javascript" if value.scope is None else "javascriptWithScope"
    for types, name in _OF_TYPE:
        if isinstance(value, types):
            return name
    raise _illegal("it is not one of ours")


def _is_nan(value: Any) -> bool:
    if isinstance(value, Decimal128):
        return bool(value.to_decimal().is_nan())
    return isinstance(value, float) and isnan(value)
