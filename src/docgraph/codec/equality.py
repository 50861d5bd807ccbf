"""Equality of values by the rules of MongoDB, in memory.

Values are equal when their keys are. Numbers compare by value whatever their type (1 = 1.0 = Int64
1 = Decimal128 1), NaN is equal to itself, a boolean is no number, binaries differ by subtype, and
documents compare by their fields in order. Where people write documents as JSON, whose objects have
no order (type resolvers, enums, access rules), `unordered_key` ignores the order. `candidate_keys`
returns every key that the filter `{path: value}` compares with in a document: arrays inside and at
the end of the path count by element, an array at the end also as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Inexact
from math import isnan
from typing import Any

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
)

EqualityKey = Hashable

# Values of these types are their own keys: Python compares them as MongoDB does.
OWN_KEY = frozenset({str, int, Int64, ObjectId, datetime})
# Types of values that contain no others; a collation changes the equality of texts only.
SINGLE_TYPES = frozenset({*OWN_KEY, float, bool, Decimal128, DatetimeMS, bytes, Binary, Timestamp})
_NAN = ("nan",)
_INT64_END = 2**63


def is_equal(left: Any, right: Any) -> bool:
    """Return whether two values are equal for MongoDB."""
    return equality_key(left) == equality_key(right)


def is_equal_unordered(left: Any, right: Any) -> bool:
    """Return whether two values are equal, with the fields of documents in any order."""
    return unordered_key(left) == unordered_key(right)


def equality_key(value: Any) -> EqualityKey:
    """Return a hashable key; two values have the same key exactly if MongoDB finds them equal."""
    kind = type(value)
    if kind in OWN_KEY:
        return value  # type: ignore[no-any-return]
    make = _KEYS.get(kind)
    return make(value) if make is not None else _inherited_key(value)


def unordered_key(value: Any) -> EqualityKey:
    """Return a hashable key that ignores the order of the fields of documents."""
    return value if type(value) in OWN_KEY else equality_key(_sort_fields(value))


def _sort_fields(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _sort_fields(value[name]) for name in sorted(value, key=str)}
    if isinstance(value, list | tuple):
        return [_sort_fields(item) for item in value]
    return value


def _float_key(value: float) -> EqualityKey:
    return _NAN if isnan(value) else value


def _decimal_key(value: Decimal128) -> EqualityKey:
    """Return the number that is equal, or its digits: hashes of texts cannot be made to collide."""
    try:
        number = value.to_decimal()
    except Inexact:  # more than 34 digits, which the database reads as zero
        return 0
    if number.is_nan():
        return _NAN
    if (near := float(number)) == number:
        return near
    if -_INT64_END <= number < _INT64_END and number == (whole := int(number)):
        return whole
    sign, digits, exponent = number.as_tuple()
    text = "".join(map(str, digits))
    short = text.rstrip("0")
    return ("decimal", sign, short, int(exponent) + len(text) - len(short))


def _document_key(value: Mapping[str, Any]) -> EqualityKey:
    return ("object", tuple((name, equality_key(item)) for name, item in value.items()))


def _binary_key(value: bytes) -> EqualityKey:
    return ("binary", getattr(value, "subtype", 0), bytes(value))


_KEYS: dict[type, Callable[[Any], EqualityKey]] = {
    bool: lambda value: ("bool", value),
    float: _float_key,
    type(None): lambda _: None,
    Decimal128: _decimal_key,
    dict: _document_key,
    list: lambda value: ("array", tuple(map(equality_key, value))),
    bytes: _binary_key,
    Binary: _binary_key,
    DatetimeMS: lambda value: ("date", int(value)),
    Timestamp: lambda value: ("timestamp", value.time, value.inc),
    Regex: lambda value: ("regex", value.pattern, value.flags),
    Code: lambda value: ("code", str(value), equality_key(value.scope)),
    DBRef: lambda value: _document_key(dict(value.as_doc())),
    MinKey: lambda _: ("min",),
    MaxKey: lambda _: ("max",),
}


def _inherited_key(value: Any) -> EqualityKey:
    """Return the key of a value of another type, such as a different kind of mapping."""
    if isinstance(value, Mapping):
        return _document_key(value)
    if isinstance(value, list | tuple):
        return _KEYS[list](value)
    if isinstance(value, float):
        return _float_key(value)
    if isinstance(value, str | int):
        return value
    return (type(value).__name__, repr(value))


def candidate_keys(document: Any, path: tuple[str, ...]) -> Sequence[EqualityKey]:
    """Return the keys of everything that `{path: …}` compares with in this document."""
    if len(path) == 1 and type(document) is dict:
        value = document.get(path[0])
        if type(value) is not list:
            return (equality_key(value),)
    return [equality_key(value) for value in reach_values(document, path)]


def reach_values(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """Yield the values that a filter path reaches; an absent field is None."""
    if not path:
        if type(value) is list:
            yield from value
        yield value
        return
    step, rest = path[0], path[1:]
    if type(value) is list:
        for item in value:
            if type(item) is not list:
                yield from reach_values(item, path)
        if step.isdigit() and int(step) < len(value):
            # The server does not descend into an array that the last step named by its index.
            element = value[int(step)]
            yield from reach_values(element, rest) if rest else (element,)
    elif type(value) is dict:
        yield from reach_values(value.get(step), rest)
    elif type(value) is DBRef:  # the driver's form of a document with `$ref` and `$id`
        yield from reach_values(value.as_doc().get(step), rest)
