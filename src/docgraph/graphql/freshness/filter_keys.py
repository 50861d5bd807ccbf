"""Keys of filters: the paths that a filter fixes by equality, with their values.

A document that matches has one of the values at each of these paths. Conditions about which memory
and database could disagree fix nothing: null (which is also a missing value), arrays, documents,
patterns, decimals, positions in arrays.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, Final

from docgraph.codec.bson_types import Binary, Int64, ObjectId
from docgraph.codec.equality import OWN_KEY, equality_key

FixedKeys = dict[str, frozenset[Hashable]]

MAX_VALUES: Final = 1_000  # of one path; `$in` with more fixes nothing
_PLAIN: Final = frozenset({str, int, Int64, bool, ObjectId})
_SUBTYPES: Final = frozenset({0, 3, 4})  # bytes and UUIDs
_EXACT: Final = 2.0**53


def find_keys(filters: Iterable[Mapping[str, Any] | None]) -> FixedKeys:
    """Return the values of the paths that these filters fix together."""
    keys: FixedKeys = {}
    for filter_ in filters:
        for path, condition in (filter_ or {}).items():
            if path == "$and":
                _merge(keys, find_keys(condition))
            elif path == "$or":
                _merge(keys, _find_common([find_keys([branch]) for branch in condition]))
            elif (values := _read_condition(condition)) is not None and is_usable(path):
                _merge(keys, {path: values})
    return keys


@lru_cache(maxsize=1024)
def is_usable(path: str) -> bool:
    """Return whether a path reaches the same values in memory as in the database."""
    return all(step and step[0] != "$" and not step.isdigit() for step in path.split("."))


def drop_texts(keys: Mapping[str, frozenset[Hashable]]) -> FixedKeys:
    """Return the keys without texts, which a collation compares in its own way."""
    return {path: values for path, values in keys.items() if str not in set(map(type, values))}


def _merge(keys: FixedKeys, more: FixedKeys) -> None:
    """Add paths; of two conditions on one path, that with fewer values.

    Both have to hold, but not for the same element of an array: values in common prove nothing.
    """
    for path, values in more.items():
        kept = keys.get(path)
        if kept is None or len(values) < len(kept):
            keys[path] = values


def _find_common(branches: list[FixedKeys]) -> FixedKeys:
    """Return the paths that every branch fixes, with the values of all branches."""
    if not branches:
        return {}
    common = set(branches[0]).intersection(*branches[1:])
    joined = {path: frozenset().union(*(branch[path] for branch in branches)) for path in common}
    return {path: values for path, values in joined.items() if len(values) <= MAX_VALUES}


def _read_condition(condition: Any) -> frozenset[Hashable] | None:
    """Return the values that a path must have one of; None if it may have others."""
    values = [condition]
    if isinstance(condition, Mapping):
        if "$eq" in condition:
            values = [condition["$eq"]]
        elif "$in" in condition:
            values = condition["$in"]
        else:
            return None
    if not isinstance(values, list) or len(values) > MAX_VALUES:
        return None
    types = set(map(type, values))
    if types <= _PLAIN:
        return frozenset(values if types <= OWN_KEY else map(equality_key, values))
    keys = [_read_value(value) for value in values]
    return None if None in keys else frozenset(keys)


def _read_value(value: Any) -> Hashable:
    """Return the equality key of a value; None if memory and database could disagree."""
    kind = type(value)
    if kind is float:
        is_exact = value.is_integer() and abs(value) < _EXACT
        return equality_key(value) if is_exact else None
    if kind is datetime and value.tzinfo is None:
        return equality_key(value.replace(microsecond=value.microsecond // 1000 * 1000))
    if kind in (bytes, Binary):
        return equality_key(value) if getattr(value, "subtype", 0) in _SUBTYPES else None
    return equality_key(value) if kind in _PLAIN else None
