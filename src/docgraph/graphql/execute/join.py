"""MongoDB's idea of equality, in memory: the keys by which documents find their parents.

`join_key` gives equal keys for values that MongoDB's `$eq` calls equal: numbers by value whatever
their type, documents by their fields in order, NaN equal to itself, and a boolean is no number.
`candidate_keys` gives every key that the filter `{path: value}` would compare with: arrays on the
way and at the end count by element, an array at the end as a whole, too.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from datetime import datetime
from math import isnan
from typing import Any

from docgraph.codec.types import (
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

__all__ = ["OWN_KEY", "Key", "candidate_keys", "is_comparable", "join_key", "match_any"]

Key = Hashable

# Values of these types are their own keys: Python compares them as MongoDB does.
OWN_KEY = frozenset({str, int, Int64, ObjectId, datetime})
_NAN = ("nan",)


def join_key(value: Any) -> Key:
    """A hashable key; two values have the same one exactly when MongoDB finds them equal."""
    kind = type(value)
    if kind in OWN_KEY:
        return value  # type: ignore[no-any-return]
    make = _KEYS.get(kind)
    if make is not None:
        return make(value)
    return (kind.__name__, repr(value))


def _float_key(value: float) -> Key:
    return _NAN if isnan(value) else value


def _decimal_key(value: Decimal128) -> Key:
    number = value.to_decimal()
    return _NAN if number.is_nan() else number


def _document_key(value: dict[str, Any]) -> Key:
    return ("object", tuple((name, join_key(item)) for name, item in value.items()))


def _binary_key(value: bytes) -> Key:
    return ("binary", getattr(value, "subtype", 0), bytes(value))


_KEYS: dict[type, Callable[[Any], Key]] = {
    bool: lambda value: ("bool", value),
    float: _float_key,
    type(None): lambda _: None,
    Decimal128: _decimal_key,
    dict: _document_key,
    list: lambda value: ("array", tuple(map(join_key, value))),
    bytes: _binary_key,
    Binary: _binary_key,
    DatetimeMS: lambda value: ("date", int(value)),
    Timestamp: lambda value: ("timestamp", value.time, value.inc),
    Regex: lambda value: ("regex", value.pattern, value.flags),
    Code: lambda value: ("code", str(value), value.scope and join_key(value.scope)),
    DBRef: lambda value: _document_key(dict(value.as_doc())),
    MinKey: lambda _: ("min",),
    MaxKey: lambda _: ("max",),
}


def candidate_keys(document: Any, path: tuple[str, ...]) -> Sequence[Key]:
    """The keys of everything that `{path: …}` compares with in this document."""
    if len(path) == 1 and type(document) is dict:
        value = document.get(path[0])
        if type(value) is not list:
            return (join_key(value),)
    return [join_key(value) for value in _reach(document, path)]


def _reach(value: Any, path: tuple[str, ...]) -> Iterator[Any]:
    """What a path of a filter reaches; an absent field is reached as None."""
    if not path:
        if type(value) is list:
            yield from value
        yield value
        return
    step, rest = path[0], path[1:]
    if type(value) is dict:
        yield from _reach(value.get(step), rest)
    elif type(value) is list:
        for item in value:
            if type(item) is dict:
                yield from _reach(item, path)
        if step.isdigit() and int(step) < len(value):
            # The server does not look inside an array that the last step named by its index.
            element = value[int(step)]
            yield from _reach(element, rest) if rest else (element,)


def match_any(name: str, values: Sequence[Any]) -> dict[str, Any]:
    """The condition that the field equals one of these stored values."""
    if OWN_KEY.issuperset(map(type, values)):
        return {name: {"$in": values}}
    plain = [value for value in values if is_comparable(value)]
    if len(plain) == len(values):
        return {name: {"$in": plain}}
    odd = [value for value in values if not is_comparable(value)]
    return {"$or": [{name: {"$in": plain}}, *({name: {"$eq": value}} for value in odd)]}


def is_comparable(value: Any) -> bool:
    """Whether a stored value can stand in `$in` and mean itself there.

    A pattern would match texts, and a document of `$…` keys would be read as operators.
    """
    if type(value) is dict:
        return not next(iter(value), "").startswith("$")
    return type(value) is not Regex
