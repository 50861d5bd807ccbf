"""Placement checks: stages and conditions that can never work at their position.

Only what is certainly before a stage counts: an optional stage may be left out, and so may a sort
whose directions come from outside.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from docgraph.store.guard.references import nested_pipelines
from docgraph.variables.compilation import PartPath, Vocabulary, render_place
from docgraph.variables.errors import Flaw

_FIRST: Final = frozenset({"$documents", "$geoNear", "$search", "$searchMeta", "$vectorSearch"})
_LOGICAL: Final = frozenset({"$and", "$or", "$nor"})
_NEAR: Final = frozenset({"$near", "$nearSphere", "$geoNear"})
_MAKERS: Final = {
    "textScore": ("$text",),
    "geoNearDistance": ("$geoNear", "$near", "$nearSphere"),
    "geoNearPoint": ("$geoNear", "$near", "$nearSphere"),
}
_HOLDING_FILTERS: Final = _LOGICAL | {"$match", "$facet", "$lookup", "$unionWith", "pipeline"}
_SEARCHES: Final = frozenset({"$text", "$near", "$nearSphere"})
_COLLECTION: Final = "collection"  # before the stages of the mapping
_LITERALS: Final = "use it in a $lookup without from, or in a $unionWith without coll"
_NOT_FIRST: Final = "must be the first stage of a pipeline on a collection"
_USE_STAGE: Final = "use the stage $geoNear, or $geoWithin"


def find_misplaced(stages: Any, vocabulary: Vocabulary) -> list[Flaw]:
    """Return the flaws of a pipeline as it is written, with their locations."""
    flaws = _Walk(vocabulary).find_in_stages(stages, (), {_COLLECTION})
    return [*flaws, *find_missing_metadata(stages, stages, vocabulary)]


def find_missing_metadata(part: Any, source: Any, vocabulary: Vocabulary) -> Iterator[Flaw]:
    """Yield each `$meta` in a part whose metadata no stage or filter of the source provides."""
    if not _holds(part, ("$meta",)) or _has_open_filter(source, vocabulary):
        return
    for name, makers in _MAKERS.items():
        if not _holds(source, makers):
            what = f"there is no {name} without {' or '.join(makers)}"
            yield from (Flaw(render_place(where), what) for where in _find_meta(part, name, ()))


def find_search_conflicts(
    filter: Any, vocabulary: Vocabulary, place: PartPath = ()
) -> Iterator[Flaw]:
    """Yield each `$text` and `$near` of a filter that MongoDB cannot evaluate at its position.

    A filter has one of them, outside of `$nor`, and `$near` is outside of `$or`, too. Optional
    conditions and those with placeholders may be left out, and do not count.
    """
    before: PartPath | None = None
    for where, is_sure in _find_searches(filter, place, vocabulary, is_sure=True):
        name = str(where[-1])
        if "$nor" in where or (name != "$text" and "$or" in where):
            outside = "$nor" if name == "$text" else "$or and $nor"
            yield Flaw(render_place(where), f"{name} must be outside of {outside}")
        elif is_sure and before is not None:
            what = f"a filter can have only one $text or $near: {render_place(before)} is another"
            yield Flaw(render_place(where), what)
        elif is_sure:
            before = where


def _find_searches(
    value: Any, where: PartPath, vocabulary: Vocabulary, *, is_sure: bool
) -> Iterator[tuple[PartPath, bool]]:
    """Yield each search with its location, and whether it is always a part of the filter."""
    for key, inner in value.items() if isinstance(value, Mapping) else ():
        location = (*where, key)
        if key in _SEARCHES:
            yield location, is_sure and not _holds(inner, (*vocabulary.operators,))
        elif key in _LOGICAL or key == vocabulary.optional:
            parts = [*enumerate(inner)] if isinstance(inner, list) else []
            # Of one member, $or is that member.
            place = where if key == "$or" and len(parts) == 1 else location
            for index, part in parts:
                sure = is_sure and key != vocabulary.optional
                yield from _find_searches(part, (*place, index), vocabulary, is_sure=sure)
        elif key[:1] != "$" and isinstance(inner, Mapping):
            near = {name: inner[name] for name in inner if name in _NEAR}
            yield from _find_searches(near, location, vocabulary, is_sure=is_sure)


def _has_open_filter(value: Any, vocabulary: Vocabulary) -> bool:
    """Return whether a whole filter is supplied, which may have any condition."""
    if isinstance(value, list):
        return any(_has_open_filter(inner, vocabulary) for inner in value)
    if not isinstance(value, Mapping):
        return False
    return vocabulary.argument in value or any(
        _has_open_filter(inner, vocabulary)
        for key, inner in value.items()
        if key in _HOLDING_FILTERS or key == vocabulary.optional
    )


def _holds(value: Any, keys: tuple[str, ...]) -> bool:
    if isinstance(value, Mapping):
        return any(key in value for key in keys) or _holds([*value.values()], keys)
    return isinstance(value, list) and any(_holds(item, keys) for item in value)


def _find_meta(value: Any, name: str, where: PartPath) -> Iterator[PartPath]:
    entries: Any = ()
    if isinstance(value, Mapping):
        entries = value.items()
        if value.get("$meta") == name:
            yield (*where, "$meta")
    elif isinstance(value, list):
        entries = enumerate(value)
    for key, inner in entries:
        if key != "$literal":
            yield from _find_meta(inner, name, (*where, key))


class _Walk:
    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary

    def find_in_stages(self, stages: Any, where: PartPath, before: set[str]) -> Iterator[Flaw]:
        """Yield the flaws of stages; `before` has the stages that certainly run before them."""
        for index, stage in enumerate(stages if isinstance(stages, list) else ()):
            yield from self._find_in_entry(stage, (*where, index), before)

    def _find_in_entry(self, stage: Any, where: PartPath, before: set[str]) -> Iterator[Flaw]:
        if not isinstance(stage, Mapping) or len(stage) != 1:
            return
        ((name, body),) = stage.items()
        location = (*where, name)
        if name == self._vocabulary.optional:
            for index, branch in enumerate(body if isinstance(body, list) else ()):
                find = self.find_in_stages if isinstance(branch, list) else self._find_in_entry
                if index > 0:  # behind the names
                    yield from find(branch, (*location, index), {*before})
            return
        yield from self._find_in_stage(name, body, location, before)
        if name != "$sort" or not self._has_placeholder(body):
            # A `$match` that may have no conditions does nothing.
            is_sure = isinstance(body, Mapping) and any(key[:1] != "$" for key in body)
            before.add("" if name == "$match" and not is_sure else name)

    def _find_in_stage(
        self, name: str, body: Any, where: PartPath, before: set[str]
    ) -> Iterator[Flaw]:
        # The database runs $geoNear behind a stage that does nothing.
        hindering = before - {"$skip", ""} if name == "$geoNear" else before
        if name in _FIRST and hindering - {_COLLECTION}:
            yield Flaw(render_place(where), _NOT_FIRST)
        elif name == "$documents" and _COLLECTION in before:
            yield Flaw(render_place(where), "cannot be used on a collection", _LITERALS)
        if name == "$match":
            yield from self._find_in_filter(body, where, is_first=before <= {_COLLECTION})
            yield from find_search_conflicts(body, self._vocabulary, where)
        for key, nested in nested_pipelines(name, body):
            is_joined = "localField" in body  # by a condition that comes first
            inner = {name} if name == "$facet" else {"$match"} if is_joined else set[str]()
            yield from self.find_in_stages(nested, (*where, key), inner)

    def _find_in_filter(self, body: Any, where: PartPath, *, is_first: bool) -> Iterator[Flaw]:
        if isinstance(body, list):
            for index, member in enumerate(body):
                yield from self._find_in_filter(member, (*where, index), is_first=is_first)
        for key, value in body.items() if isinstance(body, Mapping) else ():
            location = (*where, key)
            if key == "$text" and not is_first:
                yield Flaw(render_place(location), f"a $match with $text {_NOT_FIRST}")
            elif key in _LOGICAL or key == self._vocabulary.optional:
                yield from self._find_in_filter(value, location, is_first=is_first)
            elif key[:1] != "$":
                yield from _find_near(value, location)

    def _has_placeholder(self, value: Any) -> bool:
        if not isinstance(value, Mapping):
            return False
        return bool(self._vocabulary.operators & value.keys()) or any(
            map(self._has_placeholder, value.values())
        )


def _find_near(condition: Any, where: PartPath) -> Iterator[Flaw]:
    for key, value in condition.items() if isinstance(condition, Mapping) else ():
        location = (*where, key)
        if key in _NEAR:
            yield Flaw(render_place(location), f"{key} cannot be used in a $match", _USE_STAGE)
        elif key in ("$not", "$elemMatch"):
            yield from _find_near(value, location)


_RANGES: Final = frozenset({"$all", "$gt", "$gte", "$lt", "$lte"})
_COMPARISONS: Final = frozenset({"$eq", "$ne", "$in", "$cmp", "$indexOfArray"}) | _RANGES
_EQUALITIES: Final = frozenset({"$eq", "$ne"})
_CHOICES: Final = frozenset({"$in", "$nin"})
_WHOLE: Final = "an object or list that is compared as a whole"


def find_text_comparison(
    key: str, place: PartPath, *, is_list: bool, is_object: bool
) -> str | None:
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


def _find_filter(steps: PartPath) -> int | None:
    """Return where the filter of a stage begins; None: the place is in no filter."""
    for end in range(len(steps), 0, -1):
        is_query = steps[max(0, end - 2) : end] == ("$geoNear", "query")
        if is_query or steps[end - 1] in ("$match", "restrictSearchWithMatch"):
            return end
    return None


def _is_part(steps: PartPath) -> bool:
    """Return whether the place is inside of an object or list that a condition compares."""
    for at, (step, following) in enumerate(pairwise(steps)):
        is_property = isinstance(step, str) and not _is_operator(step)
        if step in _EQUALITIES or (is_property and not _is_operator(following)):
            return True
        if step in _CHOICES and len(steps) > at + 2:  # beyond an element of the list
            return True
    return False


def _is_whole(steps: PartPath, is_list: bool, is_object: bool) -> bool:
    """Return whether the object or list at this place is compared as a whole."""
    last = steps[-1] if steps else "$and"
    if last in _CHOICES:
        return is_object
    is_element = isinstance(last, int) and not _CHOICES.isdisjoint(steps[-2:-1])
    is_compared = not isinstance(last, int) and (not _is_operator(last) or last in _EQUALITIES)
    return (is_list or is_object) and (is_element or is_compared or last == "$not")


def _is_operator(step: str | int) -> bool:
    return isinstance(step, str) and step.startswith("$")
