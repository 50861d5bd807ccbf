"""Registry of the change stream sources of this process.

Each source is opened for its first client and ends after its last one.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Final

from docgraph.codec.bson_types import Timestamp
from docgraph.events.event_log import FilterSlots, LogBudget
from docgraph.events.event_shapes import plan_shape
from docgraph.events.sections import Events
from docgraph.events.source import Source, SourceKey, SourceLimits, find_view
from docgraph.events.stream_client import Client, SnapshotReader
from docgraph.events.subscription_key import identify
from docgraph.exchange import Snapshot, Subscription
from docgraph.exchange.errors import Overloaded
from docgraph.observe import emit
from docgraph.observe.engine_events import StreamCursors
from docgraph.runtime.cache import LoadingCache
from docgraph.runtime.loop_share import LoopShare
from docgraph.runtime.shared_slots import SharedSlots
from docgraph.store import Store
from docgraph.store.change_stream import ResumeToken
from docgraph.store.exact import to_bytes

_MAX_PAST: Final = 8  # clients for which past events are read at the same time
_MAX_SNAPSHOTS: Final = 8  # reads for snapshots at the same time
_BEGUN_PER_TURN: Final = 16  # clients that waited for the same time


class Hub:
    """Shares sources and channels; `most_cursors` bounds this process, `slots` all of them."""

    def __init__(
        self,
        store: Store,
        options: Events,
        *,
        most_cursors: int,
        most_filters: int,
        slots: SharedSlots | None = None,
    ) -> None:
        self._slots = slots
        self._store = store
        budget = LogBudget(options.max_log_size)
        self._limits = SourceLimits(options, FilterSlots(most_filters), budget)
        self._most_cursors = most_cursors
        self._past = asyncio.Semaphore(_MAX_PAST)
        self._snapshots = asyncio.Semaphore(_MAX_SNAPSHOTS)
        self._sources: dict[bytes, Source] = {}
        self._open_sources: set[Source] = set()  # also the ones that are being closed
        self._times: LoadingCache[str, Timestamp | None] = LoadingCache(0)  # it shares commands
        self._time_turn = asyncio.Lock()
        self._share = LoopShare(_BEGUN_PER_TURN)

    async def join(
        self,
        subscription: Subscription,
        token: ResumeToken | None,
        snapshot: Snapshot | None = None,
    ) -> Client:
        """Return a client that starts now, or after the token; call `leave` after use.

        A client that resumes has had its snapshot.
        """
        source = self._find_source(subscription)
        source.users += 1
        try:
            await source.wait_open()
            key = identify(replace(subscription, notify_when=None))
            channel = await source.open_channel(key, subscription)
        except BaseException:
            source.users -= 1
            raise
        client = Client(channel, subscription.notify_when, token, self._past)
        try:
            if token is None and snapshot is None:
                time = await self._times.get("committed", self._read_time)
                await self._share.enter(1)
                client.begin_after(time)
            else:
                await client.begin()
            if token is None and snapshot is not None:
                reader = SnapshotReader(snapshot, channel.rendering, self._snapshots)
                await client.begin_snapshot(reader)
        except BaseException:
            client.leave()
            raise
        return client

    async def close(self) -> None:
        await asyncio.gather(*(source.close() for source in self._open_sources))
        await self._times.close()

    async def _read_time(self, key: str) -> Timestamp | None:
        """Return a time for all clients that were waiting for it when the command was sent."""
        async with self._time_turn:
            self._times.invalidate(key)  # who comes from now on needs a later time
            return await self._store.streams.read_committed_time()

    def _find_source(self, subscription: Subscription) -> Source:
        view = find_view(self._store, subscription)
        shared = plan_shape(subscription, view).shared
        images = subscription.images and (view.row is not None or subscription.before)
        place = (subscription.db, subscription.collection)
        key = to_bytes({"place": list(place), "images": images, "shared": shared})
        source = self._sources.get(key)
        if source is None or source.is_over:
            source = self._open(key, SourceKey(*place, images, tuple(shared)))
        return source

    def _open(self, key: bytes, source_key: SourceKey) -> Source:
        is_full = len(self._open_sources) >= self._most_cursors
        slot = None if is_full or self._slots is None else self._slots.acquire()
        if is_full or (slot is None and self._slots is not None):
            raise Overloaded(
                "too many different change streams are open, events.max-cursors bounds them"
            )
        source = self._sources[key] = Source(self._store, source_key, self._limits)
        self._open_sources.add(source)
        source.task.add_done_callback(lambda _: self._forget(key, source, slot))
        emit(StreamCursors(len(self._open_sources)))
        return source

    def _forget(self, key: bytes, source: Source, slot: int | None) -> None:
        self._open_sources.discard(source)
        if slot is not None and self._slots is not None:
            self._slots.release(slot)
        if self._sources.get(key) is source:  # else another source has replaced it
            del self._sources[key]
        emit(StreamCursors(len(self._open_sources)))
