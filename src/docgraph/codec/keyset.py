"""Keyset conditions: the documents that come after or before a sort key, in BSON order.

A sort key is as the database computed it (`$meta: "sortKey"`: the least element of an array, the
greatest when descending, null for a missing value). It becomes filters for the documents after it
in BSON order, which also orders values of different types. `$gt` and `$lt` compare within one type,
so the filters name the types that follow. They match any element of an array, so arrays with an
element before the key are excluded again.

The filters are two parts, run one after the other: `near` has values of the same type as the last
one (an index on the sort with `_id` at its end serves it), `far` those of the types that follow.
Nearly always the first part fills the page.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from math import isnan
from typing import Any, Final

import bson
from bson.codec_options import CodecOptions, DatetimeConversion
from bson.errors import BSONError

from docgraph.codec.bson_types import (
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
from docgraph.codec.sort_keys import (
    EMPTY_KEY,
    LEAST_KEY,
    build_is_behind,
    name_key,
    needs_expression,
    with_key,
)
from docgraph.exchange.data import Document
from docgraph.exchange.parsed import SortOrder
from docgraph.store.driver.lenient_decode import encode_bson

SortKey = Sequence[Any]


@dataclass(frozen=True, slots=True)
class Empty:
    """The sort key of an empty array: it comes before null."""


EMPTY: Final = Empty()

# UUIDs stay binary data, as the driver reads and writes them.
_OPTIONS: Final[CodecOptions[Document]] = CodecOptions(
    datetime_conversion=DatetimeConversion.DATETIME_AUTO
)
# In BSON's order. Null is not among the names: what is missing has no type, and counts as null.
_CLASSES: Final[tuple[tuple[str, ...], ...]] = (
    *(("minKey",), ("undefined",), ("null",), ("number",), ("string", "symbol"), ("object",)),
    *(("array",), ("binData",), ("objectId",), ("bool",), ("date",), ("timestamp",), ("regex",)),
    *(("dbPointer",), ("javascript",), ("javascriptWithScope",), ("maxKey",)),
)
_PLACE: Final = {name: place for place, names in enumerate(_CLASSES) for name in names}
_OF_TYPE: Final[tuple[tuple[tuple[type, ...], str], ...]] = (
    ((bool,), "bool"),  # before the numbers: Python's bool is one
    ((int, float, Decimal128), "number"),
    ((str,), "string"),
    ((dict, DBRef), "object"),
    ((list,), "array"),
    ((bytes, Binary), "binData"),
    ((ObjectId,), "objectId"),
    ((datetime, DatetimeMS), "date"),
    ((Timestamp,), "timestamp"),
    ((Regex, re.Pattern), "regex"),
    ((MinKey,), "minKey"),
    ((MaxKey,), "maxKey"),
)
# Names of the number types, which expressions distinguish.
_NUMBERS: Final = ["int", "long", "double", "decimal"]
# Values of which a condition leads an index to all that are behind them.
_INDEXED: Final = (bool, int, float, Decimal128, str, ObjectId, datetime, DatetimeMS)
# The database sorts by 32 paths at most. The expression of a sort key has 9 levels for each step of
# a path, and the database reads 200 levels. Its size grows with all steps together.
_MAX_PATHS: Final = 31
_MAX_STEPS: Final = 16
_MAX_ALL_STEPS: Final = 32
_NAN: Final = float("nan")
_NAN_BITS: Final = 0x7C  # of the last byte of a decimal
_LEAST: Final = float("-inf")  # of all other numbers
# Types of one value: there is nothing to compare.
_ALONE: Final = frozenset({"minKey", "maxKey", "undefined", "null"})


def encode_key(key: SortKey) -> bytes:
    """Encode a sort key without any loss."""
    places = [place for place, value in enumerate(key) if value is EMPTY]
    if not places:
        return encode_bson({"k": list(key)}, _OPTIONS)
    values = [None if value is EMPTY else value for value in key]
    return encode_bson({"k": values, "e": places}, _OPTIONS)


def decode_key(content: bytes) -> list[Any]:
    """Decode a sort key; bytes after it are ignored. Raises ValueError if it is none."""
    size = int.from_bytes(content[:4], "little")
    try:
        decoded: Document = bson.decode(content[:size], _OPTIONS)
    except (BSONError, RecursionError) as error:
        raise ValueError("not a sort key") from error
    values, places = decoded.get("k"), decoded.get("e", [])
    if not isinstance(values, list) or not isinstance(places, list):
        raise ValueError("not a sort key")
    if not 0 < len(values) <= _MAX_PATHS + 1 or len(places) > len(values):
        raise ValueError("a sort key of no order")
    return [EMPTY if place in places else value for place, value in enumerate(values)]


def check_order(order: SortOrder) -> str:
    """Return why keyset conditions cannot follow the order; empty if they can."""
    if any(isinstance(direction, dict) for _, direction in order):
        return "a sort by $meta"
    steps = [path.count(".") + 1 for path, _ in order]
    if len(order) > _MAX_PATHS or sum(steps) > _MAX_ALL_STEPS or max(steps, default=0) > _MAX_STEPS:
        return (
            f"a sort of more than {_MAX_PATHS} paths, a path of more "
            f"than {_MAX_STEPS} steps, or more than {_MAX_ALL_STEPS} steps in all paths together"
        )
    return ""


def behind(order: SortOrder, key: SortKey) -> list[Document]:
    """Return filters for the documents after a position, in parts that follow each other."""
    if needs_expression(order, key):
        return _compute_behind(order, key)
    (path, direction), value = order[0], key[0]
    before = _side(path, value, -direction)
    within = _within(path, value, direction)
    near = [{"$and": [condition, _differs(path, value)]} for condition in within]
    near += _behind_level(order, key)
    far = _others(path, value, direction)
    parts = [_without(near, before), _without(far, [*before, *within, _equal(path, value)])]
    return [part for part in parts if part is not None]


def _compute_behind(order: SortOrder, key: SortKey) -> list[Document]:
    """Return the same parts as expressions, for a sort that conditions cannot follow.

    The condition next to an expression is for the index: it never matches less.
    """
    (path, direction), value = order[0], key[0]
    others = {place: {"$literal": _encode_key(part)} for place, part in enumerate(key)}
    is_behind = build_is_behind(order, "$$key", others)
    names = _CLASSES[_PLACE[name_class(value)]]
    types = _NUMBERS if names == ("number",) else list(names)
    is_near = {"$in": [{"$type": {"$arrayElemAt": [f"$$key.{name_key(0)}", -1]}}, types]}
    indexed: Document = {}
    if isinstance(value, _INDEXED) and not _is_nan(value):
        indexed = {path: {"$gte" if direction > 0 else "$lte": value}}
        if direction < 0 and names == ("number",):
            indexed = {"$or": [indexed, {path: _NAN}]}  # below all numbers, and no `$lte` of one
    return [
        {**indexed, "$expr": with_key(order, {"$and": [is_near, is_behind]})},
        {"$expr": with_key(order, {"$and": [{"$not": [is_near]}, is_behind]})},
    ]


def ahead(order: SortOrder, key: SortKey) -> list[Document]:
    """Return filters for the documents before a position, in parts, the nearest part first.

    They are those with a value (of an array: an element) up to the key that are not after it. The
    document with the `_id` of the key itself is never among them.
    """
    places = {path: place for place, (path, _) in enumerate(order)}
    not_before = [*behind(order, key), _equal("_id", key[places["_id"]])]
    if needs_expression(order, key):
        return [{"$nor": not_before}]
    (path, direction), value = order[0], key[0]
    near = [*_within(path, value, -direction), _equal(path, value)]
    far = _others(path, value, -direction)
    parts = [_without(near, not_before), _without(far, [*near, *not_before])]
    return [part for part in parts if part is not None]


def build_key(order: SortOrder) -> Any:
    """Return an expression for the sort key of a document, which `read_key` decodes.

    `$meta: "sortKey"` has other texts in a collection with a collation: those that it compares.
    """
    return with_key(order, [f"$$key.{name_key(place)}" for place in range(len(order))])


def read_key(shown: Sequence[Any]) -> list[Any]:
    """Return the sort key of a result of `build_key`."""
    return [EMPTY if entry == EMPTY_KEY else entry[1] for entry in shown]


def is_doubtful(key: SortKey) -> bool:
    """Check if the driver may have changed a value: then `match_key` tells whether it has.

    It reads an `undefined` as null. Pointers, and references in another order, become a `DBRef`.
    """
    return any(_is_doubtful(value) for value in key)


def _is_doubtful(value: Any) -> bool:
    if isinstance(value, dict | list):
        inner = value.values() if isinstance(value, dict) else value
        return any(item is None or _is_doubtful(item) for item in inner)
    return isinstance(value, DBRef)


def match_key(order: SortOrder, key: SortKey) -> Document:
    """Return the filter for the document with the `_id` of the key, if it has this very key."""
    id = key[[path for path, _ in order].index("_id")]
    literal = [{"$literal": _encode_key(value)} for value in key]
    return {"_id": {"$eq": id}, "$expr": {"$eq": [build_key(order), literal]}}


def _encode_key(value: Any) -> list[Any]:
    if value is EMPTY:
        return EMPTY_KEY
    return LEAST_KEY if isinstance(value, MinKey) else [2, value]


def _behind_level(order: SortOrder, key: SortKey) -> list[Document]:
    """Return filters: equal in the first property, after the key in one of the others.

    `_id` is unique, so the keys after it are ignored.
    """
    branches: list[Document] = []
    level: list[Document] = []
    for (path, direction), value in zip(order, key, strict=True):
        before = _side(path, value, -direction)
        if level:  # the first property is the caller's business
            beyond = _side(path, value, direction)
            wrong = [] if path == "_id" else [*before, _equal(path, value)]
            branches += [{"$and": [*level, condition, *_none_of(wrong)]} for condition in beyond]
        if path == "_id":
            break
        level += [_equal(path, value), *(_none_of(before) if level else ())]
    return branches


def _without(candidates: list[Document], wrong: list[Document]) -> Document | None:
    if not candidates:
        return None
    return {"$or": candidates, "$nor": wrong} if wrong else {"$or": candidates}


def _none_of(filters: list[Document]) -> list[Document]:
    return [{"$nor": filters}] if filters else []


def _side(path: str, value: Any, direction: int) -> list[Document]:
    """Return filters for values (of arrays: an element) greater or less than this one."""
    return [*_within(path, value, direction), *_others(path, value, direction)]


def _others(path: str, value: Any, direction: int) -> list[Document]:
    """Return the conditions for other types, and for NaN, which the operators ignore."""
    name = name_class(value)
    place = _PLACE[name]
    filters: list[Document] = []
    if name == "number" and direction < 0 and not _is_nan(value):
        filters.append({path: {"$eq": _NAN}})
    classes = _CLASSES[place + 1 :] if direction > 0 else _CLASSES[:place]
    types = [kind for names in classes for kind in names]
    if "null" in types:
        filters.append({path: None})
    if path != "_id":  # an id is never an array
        if "undefined" in types:
            filters.append(_empty(path))
        if "array" in types:
            filters.append({path: {"$elemMatch": {"$type": "array"}}})
    named = [type_ for type_ in types if type_ not in ("null", "array")]
    if named:
        filters.append({path: {"$type": named}})
    return filters


def _within(path: str, value: Any, direction: int) -> list[Document]:
    """Return the condition for values of the same type."""
    name = name_class(value)
    operator = "$gt" if direction > 0 else "$lt"
    if name in _ALONE:
        return []
    if name == "number" and _is_nan(value):  # the least number; `$ne` would look at whole arrays
        return [{path: {"$gte": _LEAST}}] if direction > 0 else []
    return [_compare(path, operator, value)]


def _differs(path: str, value: Any) -> Document:
    """Return the condition that excludes the value, also as an element of an array."""
    return {"$nor": [_equal(path, value)]}


def _equal(path: str, value: Any) -> Document:
    if value is EMPTY:
        return {"$or": [_empty(path), {path: {"$type": "undefined"}}]}
    return _compare(path, "$eq", value)


def _compare(path: str, operator: str, value: Any) -> Document:
    """Return the comparison; an array operand would also compare whole arrays."""
    if isinstance(value, list):
        return {path: {"$elemMatch": {operator: value}}}
    return {path: {operator: value}}


def _empty(path: str) -> Document:
    """Return conditions for an empty array: one for the index, one that excludes `[[]]`."""
    return {path: {"$eq": [], "$size": 0}}


def name_class(value: Any) -> str:
    """Return the name of the types that are compared with this value; raise ValueError."""
    if value is None:
        return "null"
    if value is EMPTY:
        return "undefined"
    if isinstance(value, Code):
        return "javascript" if value.scope is None else "javascriptWithScope"
    for types, name in _OF_TYPE:
        if isinstance(value, types):
            return name
    raise ValueError("a value of an unknown type")


def _is_nan(value: Any) -> bool:
    if isinstance(value, Decimal128):
        return value.bid[-1] & _NAN_BITS == _NAN_BITS  # the driver cannot convert every value
    return isinstance(value, float) and isnan(value)
