"""Watch of one database: follows its changes, and knows up to when it has seen them.

The watch is current while its lag is short. The lag is the time since a moment for which all writes
of the primary have been received: the watch reads the time of the primary's last write, and waits
until its own position in the change stream has reached it. The resume token alone would not show
that: it does not move while nothing is written, nor while writes wait for a majority.

After another primary was elected, or a break in the stream, everything counts as changed.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from math import inf
from typing import Any, Final, NamedTuple

from docgraph.codec.bson_types import ObjectId, Timestamp
from docgraph.exchange.errors import NotSupported
from docgraph.graphql.freshness.change_facts import EVERYTHING, OTHER, ChangeFacts
from docgraph.graphql.freshness.dependency import Dependency
from docgraph.graphql.freshness.invalidation_index import InvalidationIndex, Registration
from docgraph.graphql.freshness.read_sources import Sources
from docgraph.observe import emit
from docgraph.observe.engine_events import CacheLag, WatchReset
from docgraph.observe.events import BackgroundFailed
from docgraph.runtime.backoff import GrowingPauses
from docgraph.runtime.clock import elapsed
from docgraph.runtime.tasks import cancel_until_over
from docgraph.store import Store
from docgraph.store.change_stream import ChangeEvents, RawEvent
from docgraph.store.streams import PrimaryState, find_token_time

_TASK: Final = "graphql-watch"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 5.0  # seconds before a broken watch is opened again
_UNSUPPORTED_PAUSE: Final = 30.0  # seconds before the kind of the database is checked again
_MAX_RECENT: Final = 1_000  # changes …
_MAX_RECENT_BYTES: Final = 1024 * 1024  # … that are compared with answers in progress
_MAX_COLLECTIONS: Final = 1_000  # of one database
_MAX_PENDING: Final = 64
_LONGEST_AWAIT_MS: Final = 250  # that the database waits for an event
_UNUSED_SECONDS: Final = 60.0  # after which a collection is no longer followed
_PORTION: Final = 100  # events, or answers, in one turn of the event loop

STARTING, BROKEN, LAGGING, CROWDED = "starting", "unavailable", "lag", "too-many-collections"


class WatchPosition(NamedTuple):
    """A moment in the changes of one database."""

    epoch: int
    number: int


class _Recent(NamedTuple):
    number: int
    size: int
    facts: ChangeFacts


@dataclass(eq=False)
class DatabaseWatch:
    """Follows the changes of the collections of one database that something depends on."""

    db: str
    _store: Store
    _sources: Sources
    _max_lag: float
    index: InvalidationIndex = field(default_factory=InvalidationIndex)
    # Set, and replaced, whenever the state has changed.
    progress: asyncio.Event = field(default_factory=asyncio.Event)
    _epoch: int = 0
    _number: int = 0  # counts changes, and collections that are followed from then on
    _recent: deque[_Recent] = field(default_factory=deque)
    _recent_bytes: int = 0
    _forgotten: int = 0  # changes up to this number are no longer in `_recent`
    # By collection: the number from which it is followed, and when it was last wanted.
    _followed: dict[str, int] = field(default_factory=dict)
    _wanted: dict[str, float] = field(default_factory=dict)
    _documents: int | None = None  # the number from which updates contain documents
    _wants_documents: bool = False
    _as_of: float = -inf  # all writes until this moment have been received
    _state: str = STARTING
    _election: ObjectId | None = None
    _used: float = field(default_factory=elapsed)

    def __post_init__(self) -> None:
        self._await_ms = min(_LONGEST_AWAIT_MS, int(self._max_lag * 1000 / 4))
        self._pending: deque[tuple[float, Timestamp]] = deque(maxlen=_MAX_PENDING)
        # It belongs to no request, so it has none of the context of the current one.
        self._task = asyncio.create_task(self._run(), name=f"{_TASK}-{self.db}", context=Context())

    @property
    def is_over(self) -> bool:
        """Whether it has ended because nothing depends on the database."""
        return self._task.done()

    @property
    def lag(self) -> float:
        """The seconds since a moment for which all writes have been received."""
        return elapsed() - self._as_of

    def find_obstacle(self) -> str:
        """Return why the watch cannot be relied on now; empty if it can."""
        if self._state:
            return self._state
        if self._store.election != self._election:
            return STARTING  # reads would go to a primary that was replaced
        return LAGGING if self.lag > self._max_lag else ""

    def want(self, collections: Iterable[str], *, documents: bool = False) -> str:
        """Follow these collections; return the obstacle that remains, empty if there is none.

        `documents`: updates have to contain the documents.
        """
        self._used = now = elapsed()
        self._wants_documents |= documents
        is_complete = not documents or self._documents is not None
        for name in collections:
            if name not in self._wanted and len(self._wanted) >= _MAX_COLLECTIONS:
                return CROWDED
            self._wanted[name] = now
            is_complete &= name in self._followed
        return self.find_obstacle() or ("" if is_complete else STARTING)

    def find_position(self) -> WatchPosition:
        return WatchPosition(self._epoch, self._number)

    def register(
        self,
        since: WatchPosition,
        dependencies: Sequence[Dependency],
        on_change: Callable[[], None],
    ) -> Registration | None:
        """Call `on_change` after the next change; None if there may have been one since then."""
        names = [dependency.namespace.partition(".")[2] for dependency in dependencies]
        obstacle = self.want(names)
        needs_documents = any(
            [dependency.keys and "_id" not in dependency.keys for dependency in dependencies]
        )
        self._wants_documents |= needs_documents
        if obstacle or since.epoch != self._epoch or since.number < self._forgotten:
            return None
        start = max(map(self._followed.__getitem__, names), default=0)
        if needs_documents:
            documents = self._number + 1 if self._documents is None else self._documents
            start = max(start, documents)
        if start > since.number or self._has_changed(since.number, dependencies):
            return None
        return self.index.add(dependencies, on_change)

    async def close(self) -> None:
        await cancel_until_over([self._task])

    def _has_changed(self, number: int, dependencies: Sequence[Dependency]) -> bool:
        """Compare with the changes that were received since then."""
        if not self._recent or self._recent[-1].number <= number:
            return False
        trial = InvalidationIndex()
        trial.add(dependencies, lambda: None)
        return any(trial.apply(change.facts) for change in self._recent if change.number > number)

    async def _run(self) -> None:
        """Follow the changes until nothing depends on them."""
        try:
            await self._keep_following()
        finally:
            self._reset(BROKEN)

    async def _keep_following(self) -> None:
        pauses = GrowingPauses(_FIRST_PAUSE, _LONGEST_PAUSE)
        while True:
            began = elapsed()
            try:
                if await self._follow():
                    return
                pause = next(pauses)
            except NotSupported as error:
                self._reset(error.message)
                pause = _UNSUPPORTED_PAUSE
            except Exception as error:  # whatever it was: changes may have been missed
                self._reset(BROKEN)
                if not await self._store.outage.explains(error):
                    emit(BackgroundFailed(_TASK, error))
                pause = next(pauses)
            if elapsed() - began > _UNUSED_SECONDS:
                pauses = GrowingPauses(_FIRST_PAUSE, _LONGEST_PAUSE)
            await asyncio.sleep(pause)

    async def _follow(self) -> bool:
        """Follow from now on; return whether nothing depends on the database any more."""
        primary = await self._store.streams.read_primary()
        if isinstance(primary, str):
            raise NotSupported(primary)
        self._election = primary.election
        self._sources.follows_views = primary.shows_views
        token: Mapping[str, Any] | None = None
        while True:
            self._forget_unused()
            collections, documents = set(self._wanted), self._wants_documents
            async with self._store.streams.watch_collections(
                self.db,
                collections,
                documents=documents,
                views=primary.shows_views,
                resume_after=token,
                await_ms=self._await_ms,
            ) as events:
                self._begin(collections, documents=documents)
                token = await self._read(events, primary)
                if self._is_unused():
                    return True
                if token is None:
                    self._reset(STARTING)
                    return False

    def _begin(self, collections: set[str], *, documents: bool) -> None:
        """Record the collections that are followed from now on."""
        self._sources.forget()
        self._number += 1
        self._followed = {name: self._followed.get(name, self._number) for name in collections}
        if documents:
            self._documents = self._number if self._documents is None else self._documents
        self._notify()

    async def _read(self, events: ChangeEvents, primary: PrimaryState) -> Mapping[str, Any] | None:
        """Apply changes until other collections are needed; return the resume token, or None."""
        checked, count = -inf, 1  # the first batch may have events that were not read
        while events.alive:
            if elapsed() - checked >= self._await_ms / 2000:
                checked = elapsed()
                current = await self._store.streams.read_primary()
                if isinstance(current, str) or current.election != primary.election:
                    return None
                self._pending.append((checked, current.last_write))
                self._confirm(events, is_drained=count == 0)
                if not self._state:
                    emit(CacheLag(self.db, self.lag))
                if self._is_unused() or self._has_new_wishes():
                    return events.resume_token
            event = await events.try_next_raw()
            count = 0 if event is None else count + 1
            if event is not None:
                while self.index.flush(_PORTION):  # noqa: ASYNC110 - it lets requests run
                    await asyncio.sleep(0)
                self._apply(event)
                if count % _PORTION == 0:
                    await asyncio.sleep(0)
            self._confirm(events, is_drained=event is None)
        return None

    def _confirm(self, events: ChangeEvents, *, is_drained: bool) -> None:
        """Update the lag: compare the position with the writes that it had to reach.

        Several events can have the time of the last one, unless there were no more.
        """
        token = events.resume_token if self._pending else None
        if token is None:
            return
        reached = find_token_time(token)
        while self._pending and (
            self._pending[0][1] < reached or (is_drained and self._pending[0][1] == reached)
        ):
            self._as_of = self._pending.popleft()[0]
            self._state = ""
            self._notify()

    def _apply(self, event: RawEvent) -> None:
        # An event may concern a view, which no dependency names.
        description = event.get("operationDescription") or {}
        may_be_view = event["operationType"] == "drop" or "viewOn" in description
        facts = EVERYTHING if may_be_view else ChangeFacts.read(event)
        self._number += 1
        self._recent.append(_Recent(self._number, len(event.raw), facts))
        self._recent_bytes += len(event.raw)
        while len(self._recent) > _MAX_RECENT or self._recent_bytes > _MAX_RECENT_BYTES:
            oldest = self._recent.popleft()
            self._recent_bytes -= oldest.size
            self._forgotten = oldest.number
        if facts.operation == OTHER:
            self._sources.forget()
            self._store.stats.forget()
        self.index.apply(facts)

    def _reset(self, state: str) -> None:
        """Treat everything as changed; nothing is followed until the stream is open again."""
        self._epoch += 1
        self._state = state
        self._as_of = -inf
        self._followed.clear()
        self._documents = None
        for changes in (self._recent, self._pending):
            changes.clear()
        self._recent_bytes = 0
        if answers := self.index.reset():
            emit(WatchReset(self.db, state, answers))
        self._notify()

    def _has_new_wishes(self) -> bool:
        """Return whether other collections must be followed, or some are no longer needed."""
        if self._wants_documents and self._documents is None:
            return True
        self._forget_unused()
        return self._wanted.keys() != self._followed.keys()

    def _forget_unused(self) -> None:
        oldest = elapsed() - _UNUSED_SECONDS
        if all(used >= oldest for used in self._wanted.values()):
            return
        needed = {name.partition(".")[2] for name in self.index.namespaces}
        now = elapsed()  # a collection that is needed is checked again after the same time
        self._wanted = {
            name: used if used >= oldest else now
            for name, used in self._wanted.items()
            if used >= oldest or name in needed
        }

    def _is_unused(self) -> bool:
        return not len(self.index) and elapsed() - self._used > _UNUSED_SECONDS

    def _notify(self) -> None:
        self.progress.set()
        self.progress = asyncio.Event()
