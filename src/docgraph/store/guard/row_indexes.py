"""Indexes for row filters: each needs an index that begins with a property of the filter.

With such an index a request under the filter examines the caller's rows, and not those of others.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from docgraph.store.collection_stats import Index
from docgraph.store.order import pinned_paths

_HASHED = "hashed"


class RowFilter(NamedTuple):
    """A filter of a rule for the rows of a collection, as it is written; `part` names it."""

    place: tuple[str, str]
    rule: str
    part: str
    filter: Mapping[str, Any]


def find_unindexed(
    filter: Mapping[str, Any], indexes: Iterable[Index]
) -> list[tuple[Mapping[str, Any], list[str]]]:
    """Return the branches of a filter that no index serves, each with its fixed properties.

    Return nothing if a branch fixes no property by `$eq` or `$in`: no index could serve it.
    """
    first = {index.keys[0][0] for index in indexes if index.complete and _is_ordered(index)}
    branches = list(_find_branches(filter))
    if not all(paths for _, paths in branches):
        return []
    return [(branch, paths) for branch, paths in branches if first.isdisjoint(paths)]


def _is_ordered(index: Index) -> bool:
    direction = index.keys[0][1]
    return direction == _HASHED or not isinstance(direction, str)


def _find_branches(filter: Any) -> Iterator[tuple[Mapping[str, Any], list[str]]]:
    """Return the alternatives of a filter; one that fixes a property does not need its `$or`."""
    paths = list(dict.fromkeys(pinned_paths(filter)))
    alternatives = None if paths else next(_find_alternatives(filter), None)
    if alternatives is None:
        yield filter, paths
        return
    for one in alternatives:
        yield from _find_branches(one)


def _find_alternatives(filter: Any) -> Iterator[list[Any]]:
    for key, value in filter.items() if isinstance(filter, Mapping) else ():
        if key == "$or" and isinstance(value, list) and value:
            yield value
        elif key == "$and" and isinstance(value, list):
            for part in value:
                yield from _find_alternatives(part)
