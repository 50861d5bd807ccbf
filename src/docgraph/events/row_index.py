"""Row index: which of many row filters match a document, decided in memory.

It takes filters that compare properties with scalars: equality and `$in`, alone or in `$and` and
`$or`. Every filter is registered under some of its values, so that a document without any of them
cannot match. A lookup by the values of a document finds the few filters that could match; these are
evaluated. So the cost of a document does not grow with the number of filters.

Values are equal by the rules of MongoDB (`codec/equality.py`) under the simple collation. The
database decides about everything else: null, arrays, documents, patterns, positions in arrays,
other operators and collations.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, Final

from docgraph.codec.equality import SINGLE_TYPES, EqualityKey, candidate_keys, equality_key
from docgraph.exchange.data import Document, FieldPath, Filter
from docgraph.exchange.errors import DocgraphError
from docgraph.observe import emit
from docgraph.observe.engine_events import StreamIndexWrong, StreamSampled
from docgraph.store.exact import normalize

_MAX_VALUES: Final = 1000  # of one filter
_MAX_DEPTH: Final = 20


class RowIndex:
    """Finds the filters that match a document, by the values that they compare with."""

    def __init__(self) -> None:
        self._conditions: dict[Hashable, _Condition] = {}
        self._anchors: dict[FieldPath, dict[EqualityKey, set[Hashable]]] = {}
        self._chosen: dict[Hashable, Sequence[_OneOf]] = {}

    def __len__(self) -> int:
        return len(self._conditions)

    def __contains__(self, key: object) -> bool:
        return key in self._conditions

    def add(self, key: Hashable, filter: Filter) -> bool:
        """Add a filter, or replace that of the key; return False if it cannot be indexed."""
        condition = _parse(filter)
        if condition is None:
            return False
        self.remove(key)
        self._conditions[key] = condition
        self._chosen[key] = chosen = condition.choose(self._count)
        for values in chosen:
            by_value = self._anchors.setdefault(values.path, {})
            for value in values.keys:
                by_value.setdefault(value, set()).add(key)
        return True

    def remove(self, key: Hashable) -> None:
        self._conditions.pop(key, None)
        for values in self._chosen.pop(key, ()):
            by_value = self._anchors.get(values.path, {})
            for value in values.keys:
                if owners := by_value.get(value):
                    owners.discard(key)
                    if not owners:
                        del by_value[value]
            if not by_value:
                self._anchors.pop(values.path, None)

    def match(self, document: Document) -> set[Hashable]:
        """Return the keys of the filters that match the document, which is decoded exactly."""
        reached = _Reached(document)
        possible: set[Hashable] = set()
        for path, by_value in self._anchors.items():
            for value in by_value.keys() & reached[path]:
                possible |= by_value[value]
        return {key for key in possible if self._conditions[key].is_met(reached)}

    def _count(self, values: _OneOf) -> int:
        """Return how many filters are registered under these values, and would be evaluated."""
        by_value = self._anchors.get(values.path, {})
        return sum(len(by_value.get(value, ())) for value in values.keys)


def is_indexable(filter: Filter) -> bool:
    """Return whether a `RowIndex` can decide about the filter."""
    return _parse(filter) is not None


class _Reached(dict[FieldPath, frozenset[EqualityKey]]):
    """The keys that each path reaches in a document, computed once."""

    __slots__ = ("_document",)

    def __init__(self, document: Document) -> None:
        self._document = document

    def __missing__(self, path: FieldPath) -> frozenset[EqualityKey]:
        keys = self[path] = frozenset(candidate_keys(self._document, path))
        return keys


@dataclass(frozen=True, slots=True)
class _OneOf:
    """The path reaches one of the values."""

    path: FieldPath
    keys: frozenset[EqualityKey]

    @property
    def size(self) -> int:
        return len(self.keys)

    def is_met(self, reached: _Reached) -> bool:
        return not self.keys.isdisjoint(reached[self.path])

    def choose(self, count: _Count) -> Sequence[_OneOf]:
        """Return values of which every matching document has one."""
        return (self,)


@dataclass(frozen=True, slots=True)
class _Combined:
    """All parts are met, or any of them."""

    parts: Sequence[_Condition]
    needs_all: bool = True

    @property
    def size(self) -> int:
        return sum(part.size for part in self.parts)

    def is_met(self, reached: _Reached) -> bool:
        met = (part.is_met(reached) for part in self.parts)
        return all(met) if self.needs_all else any(met)

    def choose(self, count: _Count) -> Sequence[_OneOf]:
        """Return values of each alternative; of parts, those with the fewest registered filters."""
        chosen = [part.choose(count) for part in self.parts]
        if not self.needs_all:
            return tuple(chain.from_iterable(chosen))
        return min(
            chosen, key=lambda some: (sum(map(count, some)), sum(each.size for each in some))
        )


_Condition = _OneOf | _Combined
_Count = Callable[[_OneOf], int]


class _NotIndexable(Exception):
    """The filter has a part about which only the database can decide."""


def _parse(filter: Filter) -> _Condition | None:
    try:
        condition = _parse_filter(normalize(filter), _MAX_DEPTH)
    except (_NotIndexable, DocgraphError):  # the database reports what it cannot encode
        return None
    return condition if condition.size <= _MAX_VALUES else None


def _parse_filter(filter: Any, depth: int) -> _Condition:
    if not isinstance(filter, dict) or not filter or not depth:
        raise _NotIndexable
    parts = [part for entry in filter.items() for part in _parse_entry(*entry, depth - 1)]
    return parts[0] if len(parts) == 1 else _Combined(tuple(parts))


def _parse_entry(name: str, value: Any, depth: int) -> Iterator[_Condition]:
    if name in ("$and", "$or"):
        if not isinstance(value, list) or not value:
            raise _NotIndexable
        parts = tuple(_parse_filter(branch, depth) for branch in value)
        yield _Combined(parts, needs_all=name == "$and")
        return
    path = tuple(name.split("."))
    if not all(step and step[0] != "$" and not step.isdigit() for step in path):
        raise _NotIndexable
    if not isinstance(value, dict):
        yield _OneOf(path, _read_keys([value]))
        return
    if not value:
        raise _NotIndexable
    for operator, operand in value.items():
        operands = [operand] if operator == "$eq" else operand
        if operator not in ("$eq", "$in") or not isinstance(operands, list):
            raise _NotIndexable
        yield _OneOf(path, _read_keys(operands))


def _read_keys(values: list[Any]) -> frozenset[EqualityKey]:
    if not SINGLE_TYPES.issuperset(map(type, values)):
        raise _NotIndexable
    return frozenset(map(equality_key, values))


# Of `DocumentPipelines.match_documents`, for one database and collation.
MatchFilters = Callable[
    [Sequence[Mapping[str, Any]], Sequence[Filter]],
    Awaitable[Sequence[frozenset[int] | DocgraphError]],
]

_EVERY: Final = 1000  # one of this many images is compared
_MAX_FILTERS: Final = 250  # that match, and as many that do not


class DecisionSample:
    """Compares one in many decisions of the row indexes of a source with those of the database.

    Both must always decide the same. If they ever differ, the index is not used any more
    (`is_trusted`), and the database decides about all row filters of the source.
    """

    def __init__(self, db: str, collection: str, match: MatchFilters, every: int = _EVERY) -> None:
        self.is_trusted = True
        self._place = (db, collection)
        self._match = match
        self._every = every
        self._left = random.randrange(every)  # before the next one  # noqa: S311 - no secret

    def choose(self, images: int) -> int | None:
        """Count the images of a batch; return the position of the one to compare, if it is due."""
        if self._left >= images:
            self._left -= images
            return None
        chosen, self._left = self._left, self._every
        return chosen

    async def compare(
        self, image: Mapping[str, Any], filters: Mapping[Any, Filter], matched: Collection[Any]
    ) -> bool:
        """Compare the decision about an image; return whether the index is still trusted.

        `filters` are those of the index, `matched` the keys of those that match by its decision.
        Compare before the decision is used. A database that does not answer shows nothing about
        the index.
        """
        chosen: list[Any] = []
        for keys in ([*matched], [key for key in filters if key not in matched]):
            chosen += random.sample(keys, min(len(keys), _MAX_FILTERS))
        try:
            results = await self._match([image], [filters[key] for key in chosen])
        except DocgraphError:
            results = []
        pairs = [
            (key in matched, bool(positions))
            for key, positions in zip(chosen, results, strict=False)
            if not isinstance(positions, DocgraphError)
        ]
        is_same = all(by_index == by_database for by_index, by_database in pairs)
        emit(StreamSampled(("same" if is_same else "different") if pairs else "failed"))
        if not is_same and self.is_trusted:
            self.is_trusted = False
            emit(StreamIndexWrong(*self._place))
        return self.is_trusted
