"""Dependencies: what the answers of commands depend on."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

NO_KEYS: Final[Mapping[str, frozenset[Hashable]]] = MappingProxyType({})
MAX_VALUES: Final = 10_000  # of one path; more depend on the whole collection


class Dependency(NamedTuple):
    """What the result of one command depends on, in one collection.

    `ids` are the `_id`s of the documents read, `keys` the paths that the filter fixes, with their
    values, all as equality keys. Without keys, every change of the collection matters. `is_open`:
    documents that were not returned can matter, too (limit, skip, count, aggregation).
    """

    namespace: str  # `db.collection`; never a view
    ids: frozenset[Hashable] = frozenset()
    keys: Mapping[str, frozenset[Hashable]] = NO_KEYS
    is_open: bool = True

    def render(self) -> str:
        """Return the dependency as text: paths, but no values."""
        if not self.keys:
            return f"{self.namespace}: every change"
        paths = [f"{path} ({_count(values)})" for path, values in sorted(self.keys.items())]
        deletions = "; every deletion" if self.is_open else ""
        return f"{self.namespace}: changes by {', '.join(paths)}{deletions}"


def _count(values: frozenset[Hashable]) -> str:
    return "1 value" if len(values) == 1 else f"{len(values)} values"


def merge_dependencies(dependencies: Iterable[Dependency]) -> tuple[Dependency, ...]:
    """Return fewer dependencies that include these: one for each collection and set of paths."""
    dependencies = tuple(dependencies)
    if len({each.namespace for each in dependencies}) == len(dependencies):
        return dependencies
    groups: dict[tuple[str, tuple[str, ...], bool], list[Dependency]] = {}
    for dependency in dependencies:
        key = (dependency.namespace, tuple(sorted(dependency.keys)), dependency.is_open)
        groups.setdefault(key, []).append(dependency)
    merged = [_join(group) for group in groups.values()]
    whole = {each.namespace for each in merged if not each.keys}
    rest = [each for each in merged if each.namespace not in whole]
    return (*map(Dependency, sorted(whole)), *rest)


def _join(group: Sequence[Dependency]) -> Dependency:
    first = group[0]
    if len(group) == 1:
        return first
    keys = {
        path: frozenset().union(*(member.keys[path] for member in group)) for path in first.keys
    }
    if any(len(values) > MAX_VALUES for values in keys.values()):
        return Dependency(first.namespace)
    ids = frozenset[Hashable]().union(*(member.ids for member in group))
    return Dependency(first.namespace, ids, keys, first.is_open)
