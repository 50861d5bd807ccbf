"""Sources: cursors of the database, each shared by all listeners of a collection.

One task reads the events of a source. Another one decides who may see them, runs the stages of the
listeners' streams on what they may see, and appends the result to the logs of the channels
concerned. The number of cursors depends on the stored streams, and not on their listeners.

A source survives elections, restarts and lost connections of the database. It resumes after the
last event that it read, so that no event is lost or delivered twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import takewhile
from time import monotonic
from typing import Any, Final

from docgraph.codec import JsonMode
from docgraph.events.audiences import Audience, Audiences, Channel, Portion
from docgraph.events.change_record import ChangeRecord, RecordQueue
from docgraph.events.delivery import Delivery
from docgraph.events.encoded_event import Rendering, read_token
from docgraph.events.event_log import EventLog, FilterSlots, LogBudget
from docgraph.events.event_shapes import EventShape, ShapePlan, Shapes, plan_shape
from docgraph.events.row_index import DecisionSample
from docgraph.events.sections import Events
from docgraph.exchange import Subscription
from docgraph.exchange.close_reason import FAILED, GONE, LEFT, CloseReason
from docgraph.exchange.errors import (
    Overloaded,
    QueryError,
    ResumePointLost,
    StoreError,
    StoreForbidden,
    StoreUnavailable,
    TimeLimitExceeded,
)
from docgraph.runtime import cancel_until_over
from docgraph.runtime.backoff import GrowingPauses
from docgraph.runtime.loop_share import in_portions
from docgraph.store import Store
from docgraph.store.change_stream import ChangeEvents, RawEvent, ResumeToken
from docgraph.store.guard.event_stages import hides_ids
from docgraph.store.streams import StreamView
from docgraph.variables.resolvers import has_moments

_CLOSE_SECONDS: Final = 3.0
# Errors of a read of past events; all others mean that its token is invalid.
_NOT_OF_THE_TOKEN: Final = (ResumePointLost, StoreForbidden, StoreUnavailable, TimeLimitExceeded)
_FIRST_PAUSE: Final = 0.1  # seconds before a lost stream is opened again; doubled each time …
_LONGEST_PAUSE: Final = 2.0  # … up to this
_READ_AT_ONCE: Final = 500  # events that are read without a pause
_LINGER_SECONDS: Final = 1.0  # for which a channel without clients is kept
_PORTION: Final = 500  # events per read for a client that catches up
_RETRIED: Final = (StoreUnavailable, Overloaded)


@dataclass(frozen=True, slots=True)
class SourceKey:
    """What distinguishes the cursors of the database; `shared` has conditions of the streams."""

    db: str
    collection: str
    images: bool
    shared: tuple[Mapping[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """The options, and what all sources of the process share."""

    options: Events
    slots: FilterSlots
    budget: LogBudget


class Source:
    """Reads the events of a collection for its channels.

    `users` are the clients that need it. When there have been none for about a second, the source
    ends by itself: cancelling it in the driver would cost a connection each time.
    """

    def __init__(self, store: Store, key: SourceKey, limits: SourceLimits) -> None:
        self.users = 0
        self.position = ""  # everything up to this token is delivered
        self.channels: dict[bytes, Channel] = {}
        self._store = store
        self._key = key
        self._limits = limits
        self._events = self._watch(None)
        self._queue = RecordQueue()
        self._received: ResumeToken | None = None  # up to which the database was read
        self._is_closing = False
        self._is_ended = False
        self._is_finished = False  # and nothing drops unused channels any more
        self._unused: dict[Channel, float] = {}  # since when
        self._collation: asyncio.Task[Mapping[str, Any] | None] | None = None
        place = (key.db, key.collection)
        match = partial(store.streams.pipelines.match_documents, key.db, collection=key.collection)
        sample = DecisionSample(*place, match)
        self._audiences = Audiences(store, place, limits.slots, sample, images=key.images)
        self._shapes = Shapes(store, place, limits.slots, sample)
        self._delivery = Delivery(self._audiences, self._shapes, limits.budget)
        self._is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self._run(), name="change stream")

    @property
    def is_over(self) -> bool:
        if not self._is_open.done():
            return self._is_closing
        return self._is_open.exception() is not None or self._is_ended

    async def wait_open(self) -> None:
        """Return when the stream is open; raise the error that prevents it."""
        await asyncio.shield(self._is_open)  # others may wait for it, too

    async def close(self) -> None:
        """End the source and close its cursor of the database."""
        self._is_closing = True
        await asyncio.wait({self.task}, timeout=_CLOSE_SECONDS)
        await cancel_until_over({self.task})

    async def open_channel(self, key: bytes, subscription: Subscription) -> Channel:
        """Return the channel of a subscription, for one more client; raise what prevents it."""
        channel = self.channels.get(key)
        if channel is None or channel.log.ending is not None:
            view = find_view(self._store, subscription)
            plan = plan_shape(subscription, view)
            if view.row:
                self._audiences.collation = await self._find_collation()
                await self._audiences.check(view.row)
            await self._shapes.check(plan)
            channel = self.channels.get(key)
            if channel is None or channel.log.ending is not None:
                parts = self._acquire_parts(view, plan)
                channel = self._add_channel(key, subscription, parts)
        channel.users += 1
        self._unused.pop(channel, None)
        return channel

    def _add_channel(
        self, key: bytes, subscription: Subscription, parts: tuple[Audience, EventShape]
    ) -> Channel:
        mode = JsonMode(subscription.json_mode)
        is_secret = hides_ids(subscription.shown)
        rendering = Rendering(mode, subscription.with_ids, is_secret, subscription.before)
        options = self._limits.options
        log = EventLog(
            read_token(self._received),
            most=options.max_behind,
            most_bytes=options.max_behind_size,
            budget=self._limits.budget,
        )
        channel = Channel(self, key, subscription, *parts, rendering, log)
        if (ended := self.channels.get(key)) is not None:
            self._drop(ended)
        self.channels[key] = channel
        channel.audience.add(channel)
        return channel

    def _acquire_parts(self, view: StreamView, plan: ShapePlan) -> tuple[Audience, EventShape]:
        if self._is_ended:
            raise StoreUnavailable("the change stream has ended, connect again")
        audience = self._audiences.find(view.row)
        try:
            return audience, self._shapes.acquire(plan)
        except BaseException:
            self._audiences.release(audience)
            raise

    async def _find_collation(self) -> Mapping[str, Any] | None:
        """Return the collation of the collection, found once: it stays the same."""
        key = self._key
        task = self._collation
        if task is None or (task.done() and (task.cancelled() or task.exception() is not None)):
            find = self._store.streams.find_collation
            task = asyncio.create_task(find(key.db, key.collection, images=key.images))
            self._collation = task
        return await asyncio.shield(task)

    def release(self, channel: Channel) -> None:
        """Subtract a client of a channel; the log stays a while for clients that return soon."""
        self.users -= 1
        if not channel.users and self._is_finished:
            self._drop(channel)
        elif not channel.users:
            self._unused[channel] = monotonic()

    async def _drop_unused(self) -> None:
        until = monotonic() - _LINGER_SECONDS
        due = takewhile(lambda entry: entry[1] <= until, list(self._unused.items()))
        async for channel, since in in_portions(due):
            if self._unused.get(channel) == since:  # else a client has returned
                del self._unused[channel]
                self._drop(channel)

    def _drop(self, channel: Channel) -> None:
        if self.channels.get(channel.key) is channel:
            del self.channels[channel.key]
            channel.audience.remove(channel)
            self._audiences.release(channel.audience)
            self._shapes.release(channel.shape)
            channel.log.detach()

    def flush(self, channel: Channel) -> None:
        self._delivery.publish(channel)

    async def read_portion(self, channel: Channel, token: ResumeToken) -> Portion:
        """Return a bounded portion of a channel's events after the token, and where it ends."""
        if read_token(token) > self.position and not await self._store.streams.has_happened(token):
            raise ResumePointLost("the change stream cannot be resumed from a token of the future")
        try:
            records, token = await self._read_records(channel, token)
        except _NOT_OF_THE_TOKEN:
            raise
        except (StoreError, QueryError) as error:  # MongoDB rejects invalid tokens with many errors
            raise ResumePointLost("the change stream cannot be resumed from this token") from error
        prepared = await self._delivery.prepare(records, channel)
        return [event.render(channel.rendering) for event in prepared], token

    async def _read_records(
        self, channel: Channel, token: ResumeToken
    ) -> tuple[list[ChangeRecord], ResumeToken]:
        records: list[ChangeRecord] = []
        size = 0
        async with await self._resume(channel.subscription, token) as events:
            while len(records) < _PORTION and size < self._limits.options.max_behind_size:
                raw = await events.try_next_raw()
                if raw is None:
                    token = events.resume_token or token
                    break
                records.append(self._build_record(raw))
                size += records[-1].size
                token = records[-1].token
                if records[-1].position >= channel.log.floor:
                    break
        return records, token

    async def _resume(self, subscription: Subscription, token: ResumeToken) -> ChangeEvents:
        view = find_view(self._store, subscription)
        collation = await self._find_collation() if view.row else None
        plan = plan_shape(subscription, view, is_past=True)
        # A stream compares strings by their bytes. If the collection does not, it has all events.
        # So it has with a filter about the time: this may no longer admit the event of the token.
        row = view.row if collation is None and not has_moments(view.row) else None
        key = self._key
        return self._store.streams.watch_source(
            key.db,
            key.collection,
            match=plan.shared,
            row=row,
            images=key.images,
            resume_after=token,
            is_past=True,
        )

    def _watch(self, token: ResumeToken | None) -> ChangeEvents:
        key = self._key
        return self._store.streams.watch_source(
            key.db, key.collection, match=key.shared, images=key.images, resume_after=token
        )

    def _build_record(self, raw: RawEvent) -> ChangeRecord:
        return ChangeRecord(raw, partial(self._store.streams.decode, db=self._key.db))

    async def _run(self) -> None:
        try:
            if await self._open():
                reading = asyncio.create_task(self._read())
                try:
                    await self._deliver_all()
                    ending = await reading
                except Exception as error:
                    ending = self._find_ending(error)
                finally:
                    self._is_ended = True
                    await cancel_until_over({reading})
                await self._delivery.finish()
                async for channel in in_portions(list(self.channels.values())):
                    self._delivery.publish(channel)
                    channel.log.end(ending)
        finally:
            self._is_ended = True
            self._is_finished = True
            await self._delivery.close()
            async for channel in in_portions(list(self.channels.values())):
                if not channel.users:  # others still have clients that read the past
                    self._drop(channel)
            self._unused.clear()
            await self._events.aclose()

    async def _open(self) -> bool:
        """Open the stream and find the token where it begins, for clients that resume later.

        If events happened in the meantime, the first batch of the database contains them, and no
        token before them. Then the stream begins after the first of them.
        """
        try:
            await self._events.open()
            while self._events.resume_token is None:
                await self._events.try_next_raw()
        except BaseException as error:
            self._is_open.set_exception(error)
            self._is_open.exception()  # all waiting clients may have left
            return False
        self._received = self._events.resume_token
        self.position = read_token(self._received)
        self._is_open.set_result(None)
        return True

    async def _read(self) -> CloseReason:
        """Read events until the stream ends or no client needs it; return the reason."""
        try:
            return await self._read_all()
        except Exception as error:
            return self._find_ending(error)
        finally:
            self._is_ended = True  # before anything else runs: who joins now needs another source
            self._queue.end()

    async def _read_all(self) -> CloseReason:
        pauses = GrowingPauses(_FIRST_PAUSE, _LONGEST_PAUSE, least=1)
        count = 0
        while True:
            try:
                raw = await self._events.try_next_raw()
            except StoreUnavailable:
                if self._is_unneeded:
                    return LEFT
                await asyncio.sleep(next(pauses))
                await self._events.aclose()
                self._events = self._watch(self._received)
                continue
            pauses.reset()
            if raw is not None:
                record = self._build_record(raw)
                self._received = record.token
                await self._queue.put(record)
                count += 1
                if count % _READ_AT_ONCE == 0:
                    await asyncio.sleep(0)  # a batch must not block the event loop
            else:
                self._received = self._events.resume_token or self._received
                self._queue.advance(self._received)
            if self._is_unneeded:
                return LEFT
            if raw is None and not self._events.alive:
                return GONE

    @property
    def _is_unneeded(self) -> bool:
        return self._is_closing or not self.users

    async def _deliver_all(self) -> None:
        while True:
            records, position = await self._queue.read()
            if records:
                await self._deliver(records)
            self.position = max(self.position, read_token(position))
            await self._drop_unused()
            if not records and position is None and self._queue.is_over:
                return

    async def _deliver(self, records: list[ChangeRecord]) -> None:
        """Deliver events; wait during an outage of the database."""
        pauses = GrowingPauses(_FIRST_PAUSE, _LONGEST_PAUSE, least=1)
        while True:
            try:
                prepared = await self._delivery.prepare(records)
                break
            except _RETRIED:
                if self._is_unneeded:
                    return
                await asyncio.sleep(next(pauses))
        await self._delivery.append(prepared)

    def _find_ending(self, error: Exception) -> CloseReason:
        """Return the close reason for an error that ends the source; it is logged once."""
        channel = next(iter(self.channels.values()), None)
        return FAILED if channel is None else channel.find_ending(error)


def find_view(store: Store, subscription: Subscription) -> StreamView:
    """Check the stages and permissions of a subscription; raise the error that rejects it."""
    asked = subscription
    return store.streams.check_view(
        asked.db,
        asked.collection,
        asked.stages,
        row=asked.row,
        shown=asked.shown,
        before=asked.before,
    )
