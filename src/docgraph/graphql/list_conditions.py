"""Conditions on lists: they hold for the list that a field shows, not for what is stored elsewhere.

A path over an array of objects shows a list, too: `objs.x` of `{objs: [{x: 1}, {}]}` shows
`[1, null]`. So each step of a path may be the array. An array inside of this array does not fit the
field, so it is no element; only conditions that hold for `{}` hold for it, because `$elemMatch`
takes it for an object. `prefix` is the path of the object around the list. A list whose type
allows no null is not shown if an element does not satisfy `fit`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from docgraph.exchange.data import Filter
from docgraph.graphql.conditions import combine, match_values

_ARRAY: Final = {"$type": "array"}
_NO_ARRAY: Final = {"$not": _ARRAY}
_OBJECT: Final = {"$type": "object", **_NO_ARRAY}
_VALUE: Final = {"$elemMatch": {"$not": {"$type": ["object", "array"]}}}
_FILLED: Final = {**_ARRAY, "$not": {"$size": 0}}


class _ArrayPlace(NamedTuple):
    """A possible array: its path, that of the values in its elements, and what is no array then."""

    array: str
    rest: str
    outer: tuple[Filter, ...]


def match_list(prefix: str, path: str, exists: bool, fit: Filter | None = None) -> Filter:
    """Return the condition that the field shows a list, or shows none."""
    places = _list_places(prefix, path, fit)
    shown = _join_or([combine([{array: _ARRAY}, *outer]) for array, _, outer in places])
    return shown if exists else {"$nor": [shown]}


def match_element(
    prefix: str, path: str, values: Sequence[Any], fit: Filter | None = None
) -> Filter:
    """Return the condition that the list has one of these values."""
    branches: list[Filter] = []
    # With a number in the path, the database also looks for a property of this name in each element
    # of an array, which is null, and it compares the array at the number as a whole.
    is_index = any(step.isdigit() for step in path.split("."))
    for array, rest, outer in _list_places(prefix, path, fit):
        if rest:
            inner = combine([match_values(rest, values), *match_no_array(rest)])
            branches.append(combine([{array: {"$elemMatch": inner}}, *outer]))
        elif is_index:
            elements = _join_or([{array: {"$elemMatch": {"$eq": value}}} for value in values])
            branches.append(combine([elements, *outer]))
        else:
            branches.append(combine([match_values(array, values), {array: _ARRAY}, *outer]))
        if rest and None in values:  # an element that is no object has nothing to show
            branches.append(combine([{array: _VALUE}, *outer]))
    if len(branches) == 1 or is_index or None in values:
        return _join_or(branches)
    # The plain comparison follows from each branch; an index serves it.
    indexed: Filter = combine([match_values(f"{prefix}{path}", values), _join_or(branches)])
    return indexed


def match_object(prefix: str, path: str, element: Filter, fit: Filter | None = None) -> Filter:
    """Return the condition that an object of the list satisfies a filter; empty: any element."""
    branches: list[Filter] = []
    for array, rest, outer in _list_places(prefix, path, fit):
        condition: Filter = {"$elemMatch": element}
        if not element:
            condition = _FILLED
        elif rest:
            below = [_move(element, rest), {rest: _OBJECT}, *match_no_array(rest)[:-1]]
            condition = {"$elemMatch": combine(below)}
        branches.append(combine([{array: condition}, *outer]))
    return _join_or(branches)


def _list_places(prefix: str, path: str, fit: Filter | None = None) -> Iterator[_ArrayPlace]:
    """Yield the arrays that the field may show. A number takes an element of an array instead."""
    steps = path.split(".")
    outer: list[Filter] = []
    for end in range(1, len(steps) + 1):
        if end < len(steps) and steps[end].isdigit():
            continue
        array = prefix + ".".join(steps[:end])
        rest = ".".join(steps[end:])
        fits = () if fit is None else (_require(array, rest, fit),)
        yield _ArrayPlace(array, rest, (*outer, *fits))
        outer.append({array: _NO_ARRAY})


def _require(array: str, rest: str, fit: Filter) -> Filter:
    """Return the condition that each element of an array shows what fits."""
    if not rest:
        return {"$nor": [{array: {"$elemMatch": {"$not": fit}}}]}
    misfit = {"$nor": [combine([{rest: fit}, *match_no_array(rest)])]}
    return {"$nor": [{array: {"$elemMatch": misfit}}, {array: _VALUE}]}


def match_no_array(path: str) -> list[Filter]:
    """Return the conditions that no step of a path is an array."""
    return [{place.array: _NO_ARRAY} for place in _list_places("", path)]


def _move(filter_: Filter, path: str) -> Filter:
    """Return the filter for the object at a path."""
    return {
        key if key.startswith("$") else f"{path}.{key}": (
            [_move(branch, path) for branch in value] if key.startswith("$") else value
        )
        for key, value in filter_.items()
    }


def _join_or(branches: Sequence[Filter]) -> Filter:
    return branches[0] if len(branches) == 1 else {"$or": branches}
