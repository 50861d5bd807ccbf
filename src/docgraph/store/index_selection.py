"""Index selection: which index would serve a query, and how few would serve many queries.

The keys are in the order that an index can use: equality, sort, range. An index also serves every
query that needs a prefix of it. So of several wants the longest is satisfied first, its equality
keys in the sequence that satisfies most of the others, too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, Final

from bson.regex import Regex

from docgraph.exchange.data import Filter
from docgraph.store.order import find_alternatives, pinned_paths

IndexKeys = tuple[tuple[str, int], ...]

_RANGES: Final = frozenset({"$gt", "$gte", "$lt", "$lte"})
_COMPARISONS: Final = _RANGES | {"$eq", "$in"}
_MAX_EQUAL: Final = 4
_MAX_RANGES: Final = 1


@dataclass(frozen=True, slots=True)
class Want:
    """The parts of an index: properties with one value, the sort, properties with a range."""

    equal: frozenset[str]
    sort: IndexKeys = ()
    ranges: tuple[str, ...] = ()

    @property
    def length(self) -> int:
        return len(self.equal) + len(self.sort) + len(self.ranges)

    @property
    def paths(self) -> list[str]:
        """The properties that find documents: a range of the first one of the sort, too."""
        return [*self.equal, *self.ranges, *(path for path, _ in self.sort[:1])]

    def arrange(self) -> Iterator[IndexKeys]:
        """Yield the key sequences that serve it, the shortest first."""
        tail = (*self.sort, *((path, 1) for path in self.ranges))
        for sequence in permutations(sorted(self.equal)):
            yield (*((path, 1) for path in sequence), *tail)

    def is_served_by(self, keys: Sequence[tuple[str, Any]]) -> bool:
        """Return whether an index with these keys finds the documents in this order."""
        head = [path for path, _ in keys[: len(self.equal)]]
        if frozenset(head) != self.equal or len(head) != len(self.equal):
            return False
        rest = list(keys[len(head) :])
        wanted = [*self.sort]
        if len(rest) < len(wanted):
            return False
        directions = set()
        for (path, direction), (key, key_direction) in zip(wanted, rest, strict=False):
            if path != key or not isinstance(key_direction, int | float):
                return False
            directions.add((direction < 0) == (key_direction < 0))
        if len(directions) > 1:
            return False
        behind = [path for path, _ in rest[len(wanted) :]]
        return not self.ranges or (bool(behind) and behind[0] in self.ranges)


def find_wants(
    filter_: Filter,
    sort: Mapping[str, Any],
    find_array: Callable[[str], str | None],
    *,
    is_scan: bool = False,
) -> list[Want]:
    """Return the indexes, all of which are needed; none if no index could help.

    `find_array` returns the array that contains a property: an index may have only one. For a scan,
    an index that has only the order does not help.
    """
    filter_ = _spread(filter_)
    want = _find_want(filter_, sort, find_array)
    found_by = {*want.equal, *want.ranges, *_find_ranges(filter_)}
    if want.length and (not (is_scan and filter_) or not found_by.isdisjoint(want.paths)):
        return [want]
    branches = next(find_alternatives(filter_), [])
    wants = [
        _find_want(branch, sort, find_array) for branch in branches if isinstance(branch, Mapping)
    ]
    return wants if wants and all(want.equal or want.ranges for want in wants) else []


def _spread(filter_: Filter) -> dict[str, Any]:
    """Return the filter with the conditions on elements on its top level, as an index uses them."""
    spread: dict[str, Any] = {}
    for key, value in filter_.items():
        inner = value.get("$elemMatch") if isinstance(value, Mapping) else None
        if key == "$and" and isinstance(value, list):
            spread[key] = [_spread(part) if isinstance(part, Mapping) else part for part in value]
        elif isinstance(inner, Mapping) and inner and _COMPARISONS.issuperset(inner):
            spread[key] = inner
        elif isinstance(inner, Mapping) and not any(name.startswith("$") for name in inner):
            spread |= {f"{key}.{name}": condition for name, condition in inner.items()}
        else:
            spread[key] = value
    return spread


def _find_want(
    filter_: Filter, sort: Mapping[str, Any], find_array: Callable[[str], str | None]
) -> Want:
    arrays: set[str] = set()

    def fits(path: str) -> bool:
        array = find_array(path)
        if array is not None:
            if arrays - {array}:
                return False
            arrays.add(array)
        return not path.startswith("$")

    pinned = [path for path in dict.fromkeys(pinned_paths(filter_)) if fits(path)]
    equal = frozenset(pinned[:_MAX_EQUAL])
    order = [
        (path, -1 if direction < 0 else 1)
        for path, direction in sort.items()
        if path not in equal and isinstance(direction, int | float) and fits(path)
    ]
    named = {path for path, _ in order}
    ranges = [
        path
        for path in dict.fromkeys(_find_ranges(filter_))
        if path not in equal and path not in named and fits(path)
    ]
    return Want(equal, tuple(order), tuple(ranges[:_MAX_RANGES]))


def _find_ranges(filter_: Any) -> Iterator[str]:
    for key, value in filter_.items() if isinstance(filter_, Mapping) else ():
        if key == "$and" and isinstance(value, list):
            for part in value:
                yield from _find_ranges(part)
        elif key[:1] != "$" and _is_range(value):
            yield key


def _is_range(condition: Any) -> bool:
    if isinstance(condition, Regex):
        return condition.pattern[:1] == "^" and not condition.flags
    if not isinstance(condition, Mapping):
        return False
    pattern = condition.get("$regex")
    is_anchored = isinstance(pattern, str) and pattern[:1] == "^" and not condition.get("$options")
    return is_anchored or not _RANGES.isdisjoint(condition)
