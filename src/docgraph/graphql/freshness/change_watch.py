"""Change watch: follows the changes of all databases that answers depend on; one per process."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final

from docgraph.graphql.freshness.database_watch import DatabaseWatch, WatchPosition
from docgraph.graphql.freshness.dependency import Dependency
from docgraph.graphql.freshness.invalidation_index import Registration
from docgraph.graphql.freshness.read_sources import Sources
from docgraph.runtime.clock import elapsed
from docgraph.store import Store

MAX_DATABASES: Final = 8  # that one process follows at the same time
_TOO_MANY: Final = "too-many-databases"

WatchMark = Mapping[
    str, WatchPosition
]  # a moment before the first command of an execution, by database


@dataclass(eq=False, slots=True)
class WatchRegistration:
    """The dependencies of one answer in all databases."""

    on_change: Callable[[], None]
    parts: list[tuple[DatabaseWatch, Registration]] = field(default_factory=list)

    @property
    def bytes(self) -> int:
        return sum(registration.bytes for _, registration in self.parts)

    def notify(self) -> None:
        """Report the first change, and no others."""
        self.release()
        self.on_change()

    def release(self) -> None:
        parts, self.parts = self.parts, []
        for watch, registration in parts:
            watch.index.remove(registration)


class ChangeWatch:
    """Reports when answers are outdated: to the cache and to live queries.

    A cursor for each database with dependents is opened at the first use, and closed when nothing
    uses it any more.
    """

    def __init__(self, store: Store, max_lag_ms: int) -> None:
        self._store = store
        self.sources = Sources(store)
        self.max_lag = max_lag_ms / 1000
        self._watches: dict[str, DatabaseWatch] = {}
        self._is_closed = False
        self.bypass_reason = ""  # why the last `begin` returned None

    async def begin(
        self, namespaces: Iterable[str], patience: float = 0, *, documents: bool = False
    ) -> WatchMark | None:
        """Return the moment before the first command of an execution; None: not usable now.

        `namespaces` are the databases, or `db.collection` where that is known. `patience` is how
        many seconds to wait until their changes are followed, with `documents` if values of theirs
        decide.
        """
        wanted = defaultdict[str, set[str]](set)
        for namespace in namespaces:
            db, _, collection = namespace.partition(".")
            wanted[db].update([collection] if collection else ())
        deadline = elapsed() + patience
        while (obstacle := self.find_obstacle(wanted, documents=documents)) is not None:
            reason, watch = obstacle
            left = deadline - elapsed()
            if watch is None or left <= 0:
                self.bypass_reason = reason
                return None
            with suppress(TimeoutError):
                await asyncio.wait_for(watch.progress.wait(), left)
        return self._mark(wanted)

    def begin_now(self, wanted: Mapping[str, Collection[str]]) -> WatchMark | None:
        """Return the moment as `begin` does, for collections by database, without waiting."""
        obstacle = self.find_obstacle(wanted)
        if obstacle is None:
            return self._mark(wanted)
        self.bypass_reason = obstacle[0]
        return None

    def _mark(self, wanted: Iterable[str]) -> WatchMark:
        return {db: self._watches[db].find_position() for db in wanted}

    def register(
        self, mark: WatchMark, dependencies: Sequence[Dependency], on_change: Callable[[], None]
    ) -> WatchRegistration | None:
        """Call `on_change` once when the answer is outdated; None: it may be outdated already."""
        by_database: dict[str, list[Dependency]] = {}
        for dependency in dependencies:
            db = dependency.namespace.partition(".")[0]
            by_database.setdefault(db, []).append(dependency)
        registration = WatchRegistration(on_change)
        for db, of_database in by_database.items():
            watch, since = self._find(db), mark.get(db)
            part = watch and since and watch.register(since, of_database, registration.notify)
            if not watch or not part:
                registration.release()
                return None
            registration.parts.append((watch, part))
        return registration

    def is_current(self, db: str) -> bool:
        """Return whether changes of the database are known within the longest lag."""
        watch = self._watches.get(db)
        return watch is not None and not watch.find_obstacle()

    async def close(self) -> None:
        self._is_closed = True
        await asyncio.gather(*(watch.close() for watch in self._watches.values()))

    def find_obstacle(
        self, wanted: Mapping[str, Collection[str]], *, documents: bool = False
    ) -> tuple[str, DatabaseWatch | None] | None:
        """Return why the changes of these collections are not known, and the watch to wait for."""
        for db, collections in wanted.items():
            watch = self._find(db)
            if watch is None:
                return _TOO_MANY, None
            if reason := watch.want(collections, documents=documents):
                return reason, watch
        return None

    def _find(self, db: str) -> DatabaseWatch | None:
        watch = self._watches.get(db)
        if watch is not None and not watch.is_over:
            return watch
        if self._is_closed:
            return None
        if watch is None and len(self._watches) >= MAX_DATABASES:
            ended = [name for name, other in self._watches.items() if other.is_over]
            if not ended:
                return None
            for name in ended:
                del self._watches[name]
        watch = self._watches[db] = DatabaseWatch(db, self._store, self.sources, self.max_lag)
        return watch
