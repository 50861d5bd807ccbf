"""The sort key of a document as an aggregation expression, for sorts that a filter cannot follow.

The database sorts a document with arrays by the least of its keys (the greatest when descending).
Operators of a filter see other values than that below a dot: `items.0.b` as a condition is also the
property `0` of each element, so that `{"items.0.b": null}` matches every array of objects. Of a
sort by `a.b` and `a.c` they do not know which values belong to one element, and of `[1, {"b": 2}]`
they do not know that `a.b` is null for the 1. The expression finds the key as the database does.

A key is `[2, value]`. An empty array, which no literal can express, is `[1, MinKey]`, and MinKey,
which comes before that, `[0, MinKey]`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from docgraph.codec.bson_types import MinKey, Regex
from docgraph.exchange.parsed import SortOrder

Expression = Any
# The paths of a sort that begin at the same value: the steps of each, by its place in the sort.
_PathGroup = Mapping[int, Sequence[str]]

LEAST_KEY: Final = [0, MinKey()]
EMPTY_KEY: Final = [1, MinKey()]
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,8}")  # of an array, and within 32 bits


def needs_expression(order: SortOrder, key: Sequence[Any]) -> bool:
    """Return whether a filter cannot express the position of a key in this sort.

    That is so if a path of the sort has several steps, each of which may lead through an array, or
    if a key is a regular expression, which `$gt` and `$lt` of a filter do not accept.
    """
    return any("." in path for path, _ in order) or any(
        isinstance(value, Regex | re.Pattern) for value in key
    )


def with_key(order: SortOrder, condition: Expression) -> Expression:
    """Return the condition with `$$key` bound: an object with a property for each path."""
    paths = {place: path.split(".") for place, (path, _) in enumerate(order)}
    # As one element of an array, which a document never is.
    root = {"whole": "$$ROOT", "this": "$$ROOT", "value": None, "numbered": False}
    key = {"$let": {"vars": root, "in": _build_element_key(paths, order)}}
    return {"$let": {"vars": {"key": key}, "in": condition}}


def build_is_behind(order: SortOrder, this: str, other: Mapping[int, Expression]) -> Expression:
    """Return an expression: whether the key in `this` comes after `other`, in these paths."""
    return {"$gt": _compare_keys(order, this, other)}


def _compare_keys(order: SortOrder, this: str, other: Mapping[int, Expression]) -> list[Expression]:
    """Return the comparisons of all paths, and those of equal keys: compare the two lists."""
    signs: list[Expression] = []
    for place, value in other.items():
        pair = [f"{this}.{name_key(place)}", value]
        signs.append({"$cmp": pair if order[place][1] == 1 else pair[::-1]})
    return [signs, [0] * len(signs)]


def name_key(place: int) -> str:
    """Return the name of the property that has the key of this path of the sort."""
    return f"k{place}"


def _find_least(
    value: Expression, group: _PathGroup, order: SortOrder, numbered: Any = False
) -> Any:
    """Return an expression: the first key in sort order of the elements of a value.

    `numbered`: the value is an array element that the path names by its position; it is one key.
    """
    elements = {"$cond": [{"$isArray": "$$whole"}, "$$whole", ["$$whole"]]}
    others = {place: f"$$value.{name_key(place)}" for place in group}
    is_before = {"$lt": _compare_keys(order, "$$key", others)}
    first = {"$or": [{"$eq": ["$$value", None]}, is_before]}
    nothing = {name_key(at): [2, None] if steps else EMPTY_KEY for at, steps in group.items()}
    least = {
        "$reduce": {
            "input": elements,
            "initialValue": {"$cond": [{"$eq": ["$$whole", []]}, {"$literal": nothing}, None]},
            "in": {
                "$let": {
                    "vars": {"key": _build_element_key(group, order)},
                    "in": {"$cond": [first, "$$key", "$$value"]},
                }
            },
        }
    }
    return {"$let": {"vars": {"whole": value, "numbered": numbered}, "in": least}}


def _build_element_key(group: _PathGroup, order: SortOrder) -> Expression:
    """Return an expression: the key of the element `$$this`."""
    below: dict[str, dict[int, Sequence[str]]] = {}
    ends: dict[str, Expression] = {}
    for place, steps in group.items():
        if steps:
            below.setdefault(steps[0], {})[place] = steps[1:]
        else:
            ends[name_key(place)] = _encode({"$cond": ["$$numbered", "$$whole", "$$this"]})
    keys = [_step(step, rest, order) for step, rest in below.items()]
    return {"$mergeObjects": [*keys, ends]} if len(keys) != 1 or ends else keys[0]


def _step(step: str, group: _PathGroup, order: SortOrder) -> Expression:
    """Return the key below a property of the element; a number is also an array position."""
    is_object = {"$eq": [{"$type": "$$this"}, "object"]}
    field = {"$getField": {"field": {"$literal": step}, "input": "$$this"}}
    value: Expression = {"$cond": [is_object, field, "$$REMOVE"]}
    if not _INDEX.fullmatch(step):
        return _find_least(value, group, order)
    size = {"$cond": [{"$isArray": "$$whole"}, {"$size": "$$whole"}, 0]}
    has_place = {"$gt": [size, int(step)]}
    element = {"$arrayElemAt": [{"$cond": [has_place, "$$whole", [None]]}, int(step)]}
    key = _find_least({"$cond": [has_place, element, value]}, group, order, has_place)
    # The element at that place is the same for all elements: its key is found once.
    earlier = {name_key(place): f"$$value.{name_key(place)}" for place in group}
    is_known = {"$and": [{"$ne": ["$$value", None]}, has_place]}
    return {"$cond": [is_known, earlier, key]}


def _encode(value: Expression) -> Expression:
    branches = [
        {"case": {"$eq": [{"$type": "$$leaf"}, "undefined"]}, "then": EMPTY_KEY},
        {"case": {"$eq": [{"$type": "$$leaf"}, "minKey"]}, "then": LEAST_KEY},
    ]
    return {
        "$let": {
            "vars": {"leaf": value},
            "in": {"$switch": {"branches": branches, "default": [2, "$$leaf"]}},
        }
    }
