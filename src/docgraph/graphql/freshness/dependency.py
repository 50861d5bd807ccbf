"""Dependencies: what the answers of commands depend on."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

from docgraph.graphql.plan.plan_tree import PlanTree

NO_KEYS: Final[Mapping[str, frozenset[Hashable]]] = MappingProxyType({})
MAX_SHOWN: Final = 5  # values and ids that a text names


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
        """Return the dependency as text."""
        if not self.keys:
            return f"{self.namespace}: every change"
        parts = [f"{path} = {_render_values(values)}" for path, values in sorted(self.keys.items())]
        rows = "and every deletion" if self.is_open else f"and {len(self.ids)} documents"
        return f"{self.namespace}: {', '.join(parts)} {rows}"


def render_dependencies(dependencies: Iterable[Dependency]) -> list[str]:
    """Return each different dependency as text, sorted."""
    return sorted({one.render() for one in dependencies})


def list_databases(tree: PlanTree) -> frozenset[str]:
    """Return the databases that the commands of a tree read."""
    return frozenset(fetch.mapping.db for fetch in tree.fetches)


def _render_values(values: frozenset[Hashable]) -> str:
    if len(values) == 1:
        return str(next(iter(values)))
    return f"one of {len(values)} values"


def merge_dependencies(dependencies: Sequence[Dependency]) -> tuple[Dependency, ...]:
    """Return the dependencies without those that another one of the same collection includes."""
    whole = {one.namespace for one in dependencies if not one.keys}
    merged = {name: Dependency(name) for name in whole}
    return (*merged.values(), *(one for one in dependencies if one.namespace not in whole))
