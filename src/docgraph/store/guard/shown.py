"""What a permission shows of documents, and whether a filter asks about anything else.

A permission says `{"email": 0}` (everything but) or `{"name": 1}` (nothing but). Whatever is not
shown cannot be asked about: the number of matches, or their order, answers a question just as a
read would. What cannot be told for certain counts as asking.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from bson import Regex

from docgraph.store.guard.stages import has_key

__all__ = ["Shown", "asks_for_hidden", "is_hidden_whole", "is_partly_shown", "is_shown"]

Shown = Mapping[str, int]

_LOGICAL: Final = frozenset({"$and", "$or", "$nor"})
_HARMLESS: Final = frozenset({"$comment"})
# They look at whole documents, or at whatever an index holds. (In lower case for `has_key`.)
_OPAQUE: Final = frozenset({"$expr", "$where", "$jsonschema", "$text"})
# Whoever names one exactly may ask for it: the path and `If-Match` of a request do the same.
_ASKED_ANYWAY: Final = frozenset({"_id", "_etag"})
_EQUALITIES: Final = frozenset({"$eq", "$in"})
_COMPARISONS: Final = frozenset({"$gt", "$lt"})


def is_shown(path: str, shown: Shown) -> bool:
    """Whether nothing at the path, below it or around it is hidden."""
    steps = _split(path)
    if not steps:
        return False  # an operator: there is no telling
    if any(shown.values()):
        # Every step counts: with `a.b` shown, `a.0.b` is not, be `0` a name or a position.
        steps = path.split(".")
        return any(steps[: len(one)] == one for one in _listed(shown))
    return not any(_overlap(steps, _split(key)) for key in shown)


def is_partly_shown(path: str, shown: Shown) -> bool:
    """Whether some of what is at the path is hidden and some is shown."""
    steps = _split(path)
    return any(len(steps) < len(one) and one[: len(steps)] == steps for one in _listed(shown))


def is_hidden_whole(path: str, shown: Shown) -> bool:
    """Whether nothing of what is at the path, or could be, is shown."""
    if any(shown.values()):
        return not any(_overlap(path.split("."), one) for one in _listed(shown))
    steps = _split(path)
    return any(steps[: len(one)] == one for one in map(_split, shown))


def asks_for_hidden(filter: Any, shown: Shown, *, besides: frozenset[str] = frozenset()) -> bool:
    """Whether a filter could tell something about what is hidden; `besides` are let pass."""
    if not isinstance(filter, Mapping):
        return True
    return any(
        _asks(key, condition, shown, besides)
        for key, condition in filter.items()
        if key not in besides
    )


def _asks(key: str, condition: Any, shown: Shown, besides: frozenset[str]) -> bool:
    if key in _LOGICAL:
        return not isinstance(condition, list | tuple) or any(
            asks_for_hidden(branch, shown, besides=besides) for branch in condition
        )
    if key in _HARMLESS:
        return False
    if key in _ASKED_ANYWAY and _is_equality(condition):
        return False
    if key == "$expr":
        return not _compares_shown(condition, shown)
    return not is_shown(key, shown) or has_key(condition, _OPAQUE)


def _is_equality(condition: Any) -> bool:
    if not isinstance(condition, Mapping):
        return not _is_pattern(condition)
    if condition.keys() <= _EQUALITIES:
        values = (
            one if operator == "$in" and isinstance(one, list | tuple) else [one]
            for operator, one in condition.items()
        )
        return not any(_is_pattern(value) for several in values for value in several)
    return not any(key[:1] == "$" for key in condition)


def _is_pattern(value: Any) -> bool:
    """A regular expression, in one of its forms: it asks for more than one value."""
    return isinstance(value, Regex | re.Pattern) or (
        isinstance(value, Mapping) and any(key[:1] == "$" for key in value)
    )


def _compares_shown(expression: Any, shown: Shown) -> bool:
    """`{"$gt": ["$name", {"$literal": …}]}`: paging says so for values that `$gt` does not take."""
    match expression:
        case {**only} if len(only) == 1 and only.keys() <= _COMPARISONS:
            match next(iter(only.values())):
                case [str(path), {"$literal": _, **rest}] if not rest:
                    return path[:1] == "$" and path[:2] != "$$" and is_shown(path[1:], shown)
    return False


def _listed(shown: Shown) -> list[list[str]]:
    return [key.split(".") for key in shown]


def _split(path: str) -> list[str]:
    """The steps of a path without positions in arrays (`a.0.b`, `a.$.b`); none of an operator."""
    first, *rest = path.split(".")
    if first[:1] == "$":
        return []
    return [first, *(step for step in rest if not step.isdigit() and step[:1] != "$")]


def _overlap(left: list[str], right: list[str]) -> bool:
    length = min(len(left), len(right))
    return left[:length] == right[:length]
