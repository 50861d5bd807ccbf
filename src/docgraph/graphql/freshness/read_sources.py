"""Sources: which collections a namespace reads, and how they compare texts.

A view reads other collections, a collation finds other texts than those of a filter, and a time
series has no change events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.freshness.trackability import find_moving
from docgraph.runtime import LruDict
from docgraph.runtime.clock import elapsed
from docgraph.store import Store
from docgraph.store.catalog import Inventory, Listed
from docgraph.store.guard.references import find_references

_KEPT: Final = 10_000
_TTL: Final = 10.0  # seconds
_PATIENCE_MS: Final = 2_000
_MAX_VIEWS: Final = 20  # that follow each other, as in the database


class ReadSource(NamedTuple):
    """The collections behind a namespace; `untrackable` is why they cannot be followed.

    `has_keys`: values of a filter find the documents of a change event. `has_texts`: texts, too.
    """

    namespaces: frozenset[str] = frozenset()
    has_keys: bool = False
    has_texts: bool = False
    untrackable: str | None = None


class Sources:
    """The sources of namespaces, cached for some seconds.

    The owner calls `forget` when a change stream begins in a database, and after each change that
    is not one of documents.
    """

    def __init__(self, store: Store) -> None:
        self._inventory = Inventory(store)
        self._known: LruDict[str, tuple[float, ReadSource]] = LruDict(_KEPT)
        self._generation = 0
        self.follows_views = True  # MongoDB 5.0 does not report changed views

    def forget(self) -> None:
        """Clear the cache; loads in progress store nothing."""
        self._known.clear()
        self._generation += 1

    async def find(self, namespaces: Iterable[str]) -> dict[str, ReadSource]:
        return {each: await self._find(each, _MAX_VIEWS) for each in namespaces}

    async def _find(self, namespace: str, depth: int) -> ReadSource:
        kept = self._known.get(namespace)
        if kept is not None and kept[0] > elapsed():
            return kept[1]
        generation = self._generation
        source = await self._load(namespace, depth)
        if source.untrackable is None and generation == self._generation:
            self._known.put(namespace, (elapsed() + _TTL, source))
        return source

    async def _load(self, namespace: str, depth: int) -> ReadSource:
        db, _, name = namespace.partition(".")
        deadline = Deadline.after_ms(_PATIENCE_MS)
        try:
            listed = await self._inventory.describe(db, name, deadline)
        except DocgraphError:
            return ReadSource(untrackable=f"the type of {namespace} cannot be read")
        if listed is None:
            return ReadSource(untrackable=f"{namespace} does not exist")
        if listed.kind == "view" and depth and self.follows_views:
            return await self._resolve_view(db, listed, depth - 1)
        if listed.kind != "collection":
            return ReadSource(
                untrackable=f"{namespace} is a {listed.kind}, which has no change events"
            )
        has_texts = not listed.is_capped and not listed.has_collation
        return ReadSource(frozenset({namespace}), not listed.is_capped, has_texts)

    async def _resolve_view(self, db: str, view: Listed, depth: int) -> ReadSource:
        """Return the collections that a view reads; its own stages decide about keys."""
        if (name := find_moving(view.stages)) is not None:
            return ReadSource(untrackable=f"the view {db}.{view.name} uses {name}")
        read = [view.source, *(each.collection for each in find_references(view.stages, db))]
        inner = [await self._find(f"{db}.{name}", depth) for name in dict.fromkeys(read)]
        reason = next((source.untrackable for source in inner if source.untrackable), None)
        namespaces = frozenset[str]().union(*(source.namespaces for source in inner))
        return ReadSource(namespaces, untrackable=reason)
