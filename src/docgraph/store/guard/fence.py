"""Fence behind a row filter: nothing that can fail runs on a row outside of it (decision 49).

MongoDB evaluates the conditions of a filter in any order, merges a `$match` with the one before it,
and moves it across `$sort`, `$project`, `$unwind`, `$lookup` and `$unionWith`. A condition of a
caller or an author next to a row filter therefore also sees hidden rows, and whether it fails
answers questions about them. So a filter is split: conditions that cannot fail stay in front,
together with the row filter and its indexes. All others come behind a stage that the optimizer does
not cross.

Safe operators are in a list. All others run behind the fence.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from bson import Regex

from docgraph.exchange.data import Document, Filter
from docgraph.exchange.errors import QueryError, SecurityViolation
from docgraph.store.guard.references import ExpressionPath, visit_stages
from docgraph.store.guard.stage_checks import has_key

# `$skip: 0` is removed by the optimizer, and stages without effect of its own are not public.
FENCE: Final[Mapping[str, Any]] = {"$limit": (1 << 63) - 1}

_LOGICAL: Final = frozenset({"$and", "$or", "$nor"})
_BITS: Final = frozenset({"$bitsAllClear", "$bitsAllSet", "$bitsAnyClear", "$bitsAnySet"})
# They compare stored values with operands that are checked when the command is parsed. `$text` and
# `$near` use their index and must be in the first `$match`, or in a `find`.
_SAFE: Final = _BITS | {
    *("$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$exists", "$type", "$size", "$mod", "$comment"),
    *("$geoWithin", "$geoIntersects", "$text"),
    *("$near", "$nearSphere", "$maxDistance", "$minDistance"),
}
_LISTS: Final = frozenset({"$in", "$nin", "$all"})
_NESTED: Final = frozenset({"$not", "$elemMatch"})
_PATTERNS: Final = (Regex, re.Pattern)
_PATTERN: Final = "a regular expression"
_TEXT: Final = frozenset({"$text"})
_NEAR: Final = frozenset({"$near", "$nearsphere"})  # in lower case, as `has_key` expects them
# Operators of templates: their value is known when the pipeline runs.
_TEMPLATES: Final = frozenset({"$arg", "$var", "$fk", "$ifarg", "$ifvar"})
# Stages that a `$match` is moved across.
_PASSED: Final = frozenset(
    {"$match", "$sort", "$project", "$unset", "$set", "$addFields", "$unwind", "$redact"}
    | {"$replaceRoot", "$replaceWith", "$lookup", "$unionWith"}
)
_SEARCHED: Final = {"$geoNear": "query", "$graphLookup": "restrictSearchWithMatch"}

_PREFIX: Final = re.compile(
    r"(?:\^|\\A)((?:[A-Za-z0-9_ /:,;@%&\"'<>=~!-]|\\[!-/:-@[-`{-~])+)", re.ASCII
)
_QUANTIFIERS: Final = tuple("*+?{")
_EXACT_OPTIONS: Final = frozenset("su")  # `.` matches line ends, and Unicode: the prefix stays
_EXACT_FLAGS: Final = re.DOTALL | re.UNICODE

_HINT: Final = (
    "compare with $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $exists, $type, $size, $all, $mod, "
    "$geoWithin or $geoIntersects, alone or in $and, $or, $nor, $not and $elemMatch"
)

Serves = Callable[[Filter, Filter], bool]


class FilterParts(NamedTuple):
    """A filter: the part next to a row filter, and the part behind the fence."""

    front: Filter
    behind: Filter = {}  # noqa: RUF012 - a filter is never changed

    @property
    def stages(self) -> list[Filter]:
        front: list[Filter] = [{"$match": self.front}] if self.front else []
        return [*front, FENCE, match_behind(self.behind)] if self.behind else front


def match_behind(condition: Filter) -> Document:
    """Return the first stage behind the fence, which requires whole documents.

    Otherwise the database could read an index that has all properties of the pipeline instead of
    the documents. Such an index contains null for missing properties.
    """
    whole = {"$expr": "$$ROOT"}
    return {"$match": _join([condition, whole]) if condition else whole}


class Ground(NamedTuple):
    """The properties of a collection that a fence depends on.

    `by_bytes`: strings are compared by their bytes, as patterns do. `serves` returns whether an
    index certainly returns the documents of a filter in the order of a sort.
    """

    by_bytes: bool = False
    serves: Serves = lambda sort, filter: False


UNKNOWN: Final = Ground()


def find_unsafe(filter: Any) -> str | None:
    """Return the first part of a filter that can fail or evaluates something; None if safe."""
    if not isinstance(filter, (dict, Mapping)):
        return "a filter that is no object"
    return next((unsafe for entry in filter.items() if (unsafe := _find_in(*entry))), None)


def _find_in(key: str, value: Any) -> str | None:
    if key[:1] != "$":
        return _find_in_condition(value)
    if key in _SAFE:
        return None
    if key in _NESTED:
        return find_unsafe(value) if isinstance(value, Mapping) else key
    if key in _LISTS:
        return _find_in_list(key, value)
    if key in _LOGICAL and isinstance(value, (list, tuple)):
        return next((unsafe for branch in value if (unsafe := find_unsafe(branch))), None)
    return key


def _find_in_condition(value: Any) -> str | None:
    """Check the condition on a path: operators if the first key is one, else a value to equal."""
    if isinstance(value, _PATTERNS):
        return _PATTERN
    return find_unsafe(value) if _is_operators(value) else None


def _find_in_list(key: str, values: Any) -> str | None:
    if not isinstance(values, (list, tuple)):
        return key
    types = set(map(type, values))  # lists of ids are long
    if any(issubclass(kind, _PATTERNS) for kind in types):
        return _PATTERN
    if key != "$all" or not any(issubclass(kind, Mapping) for kind in types):
        return None
    return next((unsafe for value in values if (unsafe := _find_in_condition(value))), None)


def _is_operators(value: Any) -> bool:
    return isinstance(value, (dict, Mapping)) and next(iter(value), "")[:1] == "$"


def split(filter: Filter, *, by_bytes: bool = False) -> FilterParts:
    """Split a filter; the safe implications of the part behind the fence stay in front."""
    if find_unsafe(filter) is None:
        return FilterParts(filter)
    if has_key(filter, _NEAR):
        raise QueryError(
            "$near and $nearSphere cannot be combined with this filter under a row filter: "
            f"it holds {find_unsafe(filter)}",
            hint="use $geoWithin with $centerSphere, or leave out what is not a comparison",
        )
    front: list[Filter] = []
    behind: list[Filter] = []
    for condition in _list_conditions(filter):
        if find_unsafe(condition) is None:
            front.append(condition)
            continue
        behind.append(condition)
        if implied := _relax(condition, by_bytes):
            front.append(implied)
    parts = FilterParts(_join(front), _join(behind))
    if has_key(parts.behind, _TEXT):
        raise QueryError(
            "$text cannot be an alternative to this condition under a row filter: "
            f"it holds {find_unsafe(parts.behind)}",
            hint="put $text next to the other conditions, not into $or or $nor",
        )
    return parts


def split_leading(stages: Sequence[Filter]) -> tuple[list[Filter], list[Filter]]:
    """Return the conditions of the first `$match` stages, which must all hold, and the rest."""
    conditions: list[Filter] = []
    for count, stage in enumerate(stages):
        match stage:
            case {"$match": Mapping() as condition, **others} if not others:
                conditions += _list_conditions(condition)
            case _:
                return conditions, list(stages[count:])
    return conditions, []


def _list_conditions(filter: Filter) -> Iterator[Filter]:
    for key, value in filter.items():
        if key == "$and" and isinstance(value, (list, tuple)):
            for branch in value:
                if isinstance(branch, Mapping):
                    yield from _list_conditions(branch)
                else:
                    yield {key: [branch]}  # the database reports what is wrong with it
        else:
            yield {key: value}


def _join(conditions: Sequence[Filter]) -> Filter:
    if len(conditions) <= 1:
        return conditions[0] if conditions else {}
    return {"$and": list(conditions)}


def _relax(filter: Filter, by_bytes: bool) -> Document:
    """Return safe conditions that hold wherever the filter holds; empty: there are none."""
    kept: Document = {}
    for key, value in filter.items():
        if _find_in(key, value) is None:
            kept[key] = value
        elif (implied := _imply(key, value, by_bytes)) is not None:
            kept[key] = implied
    if by_bytes and "$regex" in filter:
        kept = {**_find_range(filter["$regex"], filter.get("$options", "")), **kept}
    return kept


def _imply(key: str, value: Any, by_bytes: bool) -> Any:
    if key[:1] != "$" and isinstance(value, _PATTERNS):
        return (_find_range(value) or None) if by_bytes else None
    if key in ("$and", "$or") and isinstance(value, (list, tuple)):
        implied = [
            _relax(branch, by_bytes) if isinstance(branch, Mapping) else {} for branch in value
        ]
        if key == "$or" and not all(implied):
            return None
        return [condition for condition in implied if condition] or None
    if key == "$nor" and isinstance(value, (list, tuple)):
        return [branch for branch in value if find_unsafe(branch) is None] or None
    if key == "$elemMatch" or (key[:1] != "$" and _is_operators(value)):
        return (_relax(value, by_bytes) if isinstance(value, Mapping) else {}) or None
    return None


def _find_range(pattern: Any, options: Any = "") -> Document:
    """Return the range of strings with the pattern's prefix; empty: the prefix is not literal."""
    if isinstance(pattern, _PATTERNS):
        if pattern.flags & ~_EXACT_FLAGS:
            return {}
        pattern = pattern.pattern
    if not isinstance(pattern, str) or not isinstance(options, str):
        return {}
    literal = _PREFIX.match(pattern)
    if literal is None or not _EXACT_OPTIONS.issuperset(options):
        return {}
    prefix, rest = re.sub(r"\\(.)", r"\1", literal[1]), pattern[literal.end() :]
    if rest.startswith(_QUANTIFIERS):
        prefix = prefix[:-1]  # the last character is optional, or repeated
    if not prefix or "|" in rest:
        return {}
    return {"$gte": prefix, "$lt": prefix[:-1] + chr(ord(prefix[-1]) + 1)}


class FencedStages:
    """The stages of a pipeline on a collection, with a fence where they need one.

    `is_open`: no fence follows the row filter yet. An unsafe `$match` then gets a fence before it.
    If the database would move the `$match` further to the front, the fence is there, too: behind
    the row filter and the safe conditions that follow it. A `$sort` is in front of the fence only
    if an index serves it: otherwise it would sort all rows that the caller can see.
    """

    def __init__(self, row: Filter, ground: Ground, pipeline: Sequence[Filter] = ()) -> None:
        self.stages: list[Filter] = []
        self.is_open = bool(row)
        self._row = row
        self._ground = ground
        self._is_early = self.is_open and _is_moved_to_front(pipeline)
        self._conditions: list[Filter] | None = []  # None: not only `$match` came before
        self._fenced_at: int | None = None

    def restrict(self) -> None:
        """Add the row filter."""
        if self._row:
            self._add_match(self._row)

    def begin(self, stage: Filter) -> None:
        """Add a first stage that applies the row filter itself."""
        self.stages.append(stage)
        self._conditions = None

    def begin_search(self, condition: Filter) -> None:
        """Add a first `$match` with `$text`, together with the row filter."""
        parts = split(condition, by_bytes=self._ground.by_bytes)
        self._add_match(_join(list(filter(None, (self._row, parts.front)))))
        if parts.behind:
            self._close(None, parts.behind)

    def add(self, stage: Filter, *, is_open: bool = False) -> None:
        """Add a stage; `is_open`: its reads of other collections have an open row filter."""
        ((name, body),) = stage.items()
        if name == "$match":
            if self.is_open and isinstance(body, Mapping) and find_unsafe(body) is not None:
                parts = split(body, by_bytes=self._ground.by_bytes)
                sort = self._pop_sort()
                if parts.front:
                    self._add_match(parts.front)
                self._close(sort, parts.behind)
            else:
                self._add_match(body)
        elif name == "$sort" and self._fenced_at == len(self.stages) - 2 and self._is_served(body):
            self.stages.insert(len(self.stages) - 2, stage)
        else:
            is_crossed = self._is_early and not _is_leading(name, body)
            if self.is_open and (holds_unsafe(stage) if name == "$facet" else is_crossed):
                self._close(self._pop_sort(), {})
            self.stages.append(stage)
            if name != "$sort":
                self._conditions = None
            if name == "$limit":
                self.is_open = False  # acts as a fence
        self.is_open = self.is_open or is_open

    def _add_match(self, condition: Any) -> None:
        self.stages.append({"$match": condition})
        if self._conditions is not None and self._fenced_at is None:
            self._conditions.append(condition)

    def _pop_sort(self) -> Filter | None:
        return self.stages.pop() if self.stages and "$sort" in self.stages[-1] else None

    def _close(self, sort: Filter | None, behind: Filter) -> None:
        sorts = [sort] if sort is not None else []
        is_served = sort is not None and self._is_served(sort["$sort"])
        self.stages += sorts if is_served else []
        self._fenced_at = len(self.stages)
        self.stages += [FENCE, match_behind(behind)]
        self.stages += [] if is_served else sorts
        self.is_open = self._is_early = False

    def _is_served(self, sort: Any) -> bool:
        if self._conditions is None or not isinstance(sort, Mapping):
            return False
        return self._ground.serves(sort, {"$and": self._conditions})


def _is_moved_to_front(pipeline: Sequence[Filter]) -> bool:
    """Check if the database would move an unsafe `$match` next to a first `$match`."""
    for stage in pipeline:
        ((name, _),) = stage.items()
        if name == "$match" and holds_unsafe(stage):
            return True
        if name not in _PASSED:
            return False
    return False


def _is_leading(name: str, body: Any) -> bool:
    """Check if safe conditions behind the stage can still be moved in front of it."""
    if name == "$project" and isinstance(body, Mapping):
        return all(isinstance(shown, (bool, int)) for shown in body.values())
    return name in ("$match", "$sort", "$unset")


def holds_unsafe(stage: Filter) -> bool:
    """Return whether a pipeline inside the stage has an unsafe `$match`."""
    inside = visit_stages([stage], "", ExpressionPath(None, "stages"))
    return any(find_unsafe(inner.body) is not None for inner in inside if inner.name == "$match")


def check_found(filter: Filter) -> None:
    """Reject a write under a row filter whose own filter can fail: it has no room for a fence."""
    if filter and (unsafe := find_unsafe(filter)):
        raise SecurityViolation(
            f"the filter of a write under a row filter cannot hold {unsafe}",
            hint=f"{_HINT}; or read the documents first, and write them by their _id",
        )


def check_searched(name: str, condition: Any) -> None:
    """Reject an unsafe condition of a search under a row filter."""
    if condition is not None and (unsafe := find_unsafe(condition)):
        raise SecurityViolation(
            f"{name}.{_SEARCHED[name]} cannot hold {unsafe} under a row filter", hint=_HINT
        )


def check_searches(pipeline: Sequence[Any], origin: str = "stages") -> None:
    """Reject a definition with a search that could not run under a row filter."""
    for stage in visit_stages(pipeline, "", ExpressionPath(None, origin)):
        name, body = stage.name, stage.body
        if name in _SEARCHED and isinstance(body, Mapping):
            condition = body.get(_SEARCHED[name])
            unsafe = None if condition is None else find_unsafe(_fill(condition))
            if unsafe:
                raise QueryError(
                    f"{stage.place}.{name}.{_SEARCHED[name]} cannot hold {unsafe}: "
                    "it would not run under a row filter",
                    hint=_HINT if name == "$graphLookup" else "put it into a $match behind it",
                )


def _fill(value: Any, key: str = "") -> Any:
    """Return the condition with a value for each operator of a template."""
    if isinstance(value, Mapping):
        if any(name in _TEMPLATES for name in value):
            return [] if key in _LISTS or key in _LOGICAL else {}
        return {name: _fill(inner, name) for name, inner in value.items()}
    return [_fill(item) for item in value] if isinstance(value, (list, tuple)) else value
