"""Places of a template that compare an `ID` with nothing but texts."""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from docgraph.variables.compilation import Place

_RANGES: Final = frozenset({"$all", "$gt", "$gte", "$lt", "$lte"})
_COMPARISONS: Final = frozenset({"$eq", "$ne", "$in", "$cmp", "$indexOfArray"}) | _RANGES
_EQUALITIES: Final = frozenset({"$eq", "$ne"})
_CHOICES: Final = frozenset({"$in", "$nin"})
_WHOLE: Final = "an object or list that is compared as a whole"


def find_text_comparison(key: str, place: Place, *, is_list: bool, is_object: bool) -> str | None:
    """Return what compares an `ID` at this place as a text; None if all kinds match.

    `key` is `find` or `stages`; `is_list` and `is_object` describe the value.
    """
    steps = place[:-1]
    while steps[-2:] == (place[-1], 1):  # the default of another argument
        steps = steps[:-2]
    operators = [str(step) for step in steps if _is_operator(step)]
    last = operators[-1] if operators else ""
    if "$expr" in operators:
        return "$expr"
    start = 0 if key == "find" else _find_filter(steps)
    if start is None:
        is_start = ("$graphLookup", "startWith") in pairwise(steps)
        return "$graphLookup.startWith" if is_start else last if last in _COMPARISONS else None
    if last in _RANGES:
        return last
    is_whole = _is_part(steps[start:]) or _is_whole(steps[start:], is_list, is_object)
    return _WHOLE if is_whole else None


def _find_filter(steps: Place) -> int | None:
    """Return where the filter of a stage begins; None: the place is in no filter."""
    for end in range(len(steps), 0, -1):
        is_query = steps[max(0, end - 2) : end] == ("$geoNear", "query")
        if is_query or steps[end - 1] in ("$match", "restrictSearchWithMatch"):
            return end
    return None


def _is_part(steps: Place) -> bool:
    """Return whether the place is inside of an object or list that a condition compares."""
    for at, (step, following) in enumerate(pairwise(steps)):
        is_property = isinstance(step, str) and not _is_operator(step)
        if step in _EQUALITIES or (is_property and not _is_operator(following)):
            return True
        if step in _CHOICES and len(steps) > at + 2:  # beyond an element of the list
            return True
    return False


def _is_whole(steps: Place, is_list: bool, is_object: bool) -> bool:
    """Return whether the object or list at this place is compared as a whole."""
    last = steps[-1] if steps else "$and"
    if last in _CHOICES:
        return is_object
    is_element = isinstance(last, int) and not _CHOICES.isdisjoint(steps[-2:-1])
    is_compared = not isinstance(last, int) and (not _is_operator(last) or last in _EQUALITIES)
    return (is_list or is_object) and (is_element or is_compared or last == "$not")


def _is_operator(step: str | int) -> bool:
    return isinstance(step, str) and step.startswith("$")
