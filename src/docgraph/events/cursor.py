"""Change stream cursor of the database, shared by all clients that see the same events.

It survives elections, restarts and lost connections of the database. It resumes after the last
event that it delivered, so that no event is lost or delivered twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from docgraph.events.close_reason import FAILED, GONE, HISTORY_LOST, LEFT, CloseReason
from docgraph.events.encoded_event import EncodedEvent, build_notice, read_token
from docgraph.events.event_log import EventLog
from docgraph.events.fanout import Fanout
from docgraph.events.sections import Events
from docgraph.exchange import Subscription
from docgraph.exchange.errors import (
    QueryError,
    ResumePointLost,
    StoreError,
    StoreForbidden,
    StoreUnavailable,
    TimeLimitExceeded,
)
from docgraph.observe import emit
from docgraph.observe.stream_events import StreamFailed, StreamTold
from docgraph.runtime import cancel_until_over
from docgraph.store import Store
from docgraph.store.change_stream import ChangeEvents
from docgraph.store.names import namespace_of

__all__ = ["Cursor", "ResumeToken"]

ResumeToken = Mapping[str, Any]

_CLOSE_SECONDS: Final = 3.0
_FIRST_PAUSE: Final = 0.1  # seconds before a lost stream is opened again; doubled each time …
_LONGEST_PAUSE: Final = 2.0  # … up to this
_ROOM_PAUSE: Final = 0.01
_ROOM_PAUSES: Final = 25  # while a burst waits for clients that read as fast as they can
_WITHOUT_PAUSE: Final = 32  # events that are read without a pause …
_SIZE_WITHOUT_PAUSE: Final = 65_536  # … and bytes; beyond them, clients are notified
# Errors of a read of past events; all others mean that its token is invalid.
_NOT_OF_THE_TOKEN: Final = (
    ResumePointLost,
    StoreForbidden,
    StoreUnavailable,
    TimeLimitExceeded,
)
_PORTION: Final = 500  # events per read for a client that catches up


class Cursor:
    """Reads events, encodes each of them once and writes them into the log.

    `users` are the clients that need the cursor. When there have been none for about a second, the
    cursor ends by itself: cancelling it in the driver would cost a connection each time.
    """

    def __init__(self, store: Store, subscription: Subscription, options: Events) -> None:
        self.users = 0
        self.log: EventLog
        self._store = store
        self._subscription = subscription
        self._options = options
        self._events: ChangeEvents
        self._position: ResumeToken | None = None
        self._is_closing = False
        self._waves = Fanout(self._notify_missed)
        self._count = 0  # events read without a pause
        self._size = 0  # bytes not published yet
        self._is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self._run(), name="change stream")

    @property
    def is_over(self) -> bool:
        """Whether no more events can come."""
        if not self._is_open.done():
            return self._is_closing
        return self._is_open.exception() is not None or self.log.ending is not None

    @property
    def position(self) -> str:
        """The token up to which all events are published, or published by the next `flush`."""
        return read_token(self._position)

    async def wait_open(self) -> None:
        """Return when the stream is open; raise the error that prevents it."""
        await asyncio.shield(self._is_open)  # others may wait for it, too

    def flush(self) -> None:
        """Publish the pending events to clients immediately."""
        if self._size:
            self._waves.flush()

    async def close(self) -> None:
        """End the cursor and close the cursor of the database."""
        self._is_closing = True
        await asyncio.wait({self.task}, timeout=_CLOSE_SECONDS)
        await cancel_until_over({self.task})

    async def read_portion(self, token: ResumeToken) -> tuple[list[EncodedEvent], ResumeToken]:
        """Return a bounded portion of the events after the token, and the token where it ends."""
        try:
            return await self._read_portion(token)
        except _NOT_OF_THE_TOKEN:
            raise
        except (StoreError, QueryError) as error:  # MongoDB rejects invalid tokens with many errors
            raise ResumePointLost("the change stream cannot be resumed from this token") from error

    async def _read_portion(self, token: ResumeToken) -> tuple[list[EncodedEvent], ResumeToken]:
        notices: list[EncodedEvent] = []
        size = 0
        async with self._watch(token) as events:
            while len(notices) < _PORTION and size < self._options.max_behind_size:
                event = await events.try_next()
                if event is not None:
                    notices.append(build_notice(event, self._subscription))
                    size += notices[-1].size
                token = events.resume_token or token
                if event is None or read_token(token) >= self.log.floor:
                    break
        return notices, token

    async def check_past(self, token: ResumeToken) -> None:
        """Reject a token of a time that has not come yet: all events until then would be lost."""
        if not await self._store.streams.has_happened(token):
            raise ResumePointLost("the change stream cannot be resumed from a token of the future")

    def _watch(self, token: ResumeToken | None) -> ChangeEvents:
        asked = self._subscription
        namespace = namespace_of(asked.db, asked.collection)
        return self._store.streams.watch(
            asked.db,
            asked.collection,
            asked.stages,
            resume_after=token,
            rows={namespace: asked.row} if asked.row else None,
            shown=asked.shown,
            images=asked.images,
        )

    async def _run(self) -> None:
        try:
            self._events = self._watch(None)  # it checks the stages and the permissions
        except Exception as error:
            self._reject(error)
            return
        try:
            if await self._open():
                ending = await self._notify_all()
                self.flush()
                self.log.end(ending)
        finally:
            self._waves.stop()
            await self._events.aclose()

    def _reject(self, error: BaseException) -> None:
        self._is_open.set_exception(error)
        self._is_open.exception()  # all waiting clients may have left

    async def _open(self) -> bool:
        try:
            await self._begin()
        except BaseException as error:
            self._reject(error)
            return False
        self._position = self._events.resume_token
        options = self._options
        self.log = EventLog(
            self.position, most=options.max_behind, most_bytes=options.max_behind_size
        )
        self._is_open.set_result(None)
        return True

    async def _begin(self) -> None:
        """Open the stream and find the token where it begins, for clients that resume later.

        If events happened in the meantime, the first batch of the database contains them, and no
        token before them. Then the stream begins after the first of them.
        """
        await self._events.open()
        while self._events.resume_token is None:
            await self._events.try_next()

    async def _notify_all(self) -> CloseReason:
        """Deliver events until the stream ends; return the reason."""
        try:
            return await self._deliver()
        except Exception as error:
            return self.find_ending(error)

    async def _deliver(self) -> CloseReason:
        """Deliver events until the stream ends or no client needs it."""
        pause = _FIRST_PAUSE
        while True:
            try:
                event = await self._events.try_next()
            except StoreUnavailable:
                if self._is_closing or not self.users:
                    return LEFT
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE)
                await self._reopen()
                continue
            pause = _FIRST_PAUSE
            if event is not None:
                await self._record(build_notice(event, self._subscription))
            self._position = self._events.resume_token or self._position
            self.log.advance(self.position)
            if self._is_closing or not self.users:
                return LEFT
            if event is None and not self._events.alive:
                return GONE

    async def _record(self, notice: EncodedEvent) -> None:
        if self.log.is_pressed_by(notice):
            self.flush()
            await self._make_room(notice)
        self.log.append(notice)
        self._count += 1
        self._size += notice.size
        is_much = self._size >= _SIZE_WITHOUT_PAUSE
        self._waves.flush() if is_much else self._waves.plan()
        if is_much or self._count >= _WITHOUT_PAUSE:
            self._count = 0
            await asyncio.sleep(0)  # a batch of events must not block the event loop

    async def _make_room(self, notice: EncodedEvent) -> None:
        for _ in range(_ROOM_PAUSES):
            if not self.log.is_pressed_by(notice):
                break
            await asyncio.sleep(_ROOM_PAUSE)

    def _notify_missed(self) -> None:
        self._size = 0
        try:
            told = self.log.publish()
        except Exception as error:  # a wave may belong to no client: they would not notice
            self.log.end(self.find_ending(error))
            return
        for notice in told:
            emit(StreamTold(len(self.log.readers), notice.find_lag()))

    async def _reopen(self) -> None:
        """Open another change stream that resumes where this one stopped."""
        await self._events.aclose()
        self._events = self._watch(self._position)

    def find_ending(self, error: Exception) -> CloseReason:
        """Return the close reason for an error that ends the stream; the error itself is logged."""
        asked = self._subscription
        emit(StreamFailed(asked.db, asked.collection, asked.uri, error))
        return HISTORY_LOST if isinstance(error, ResumePointLost) else FAILED
