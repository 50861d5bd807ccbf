"""One change stream of the database, for all clients that may see the same.

It survives what the database does: an election, a restart, a lost connection. It goes on after the
last event that it has told, so that none is lost and none is told twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from docgraph.events.ending import FAILED, GONE, HISTORY_LOST, LEFT, Ending
from docgraph.events.log import Log
from docgraph.events.notice import Notice, build_notice, read_token
from docgraph.events.sections import Events
from docgraph.events.waves import Waves
from docgraph.exchange import Subscription
from docgraph.exchange.errors import ResumePointLost, StoreRejected, StoreUnavailable
from docgraph.observe import emit
from docgraph.observe.stream_events import StreamFailed, StreamTold
from docgraph.runtime import cancel_until_over
from docgraph.store import Store
from docgraph.store.names import namespace_of
from docgraph.store.watch import ChangeEvents

__all__ = ["Cursor", "ResumeToken"]

ResumeToken = Mapping[str, Any]

_CLOSE_SECONDS: Final = 3.0
_FIRST_PAUSE: Final = 0.1  # seconds before a lost stream is opened again; doubled each time …
_LONGEST_PAUSE: Final = 2.0  # … up to this
_ROOM_PAUSE: Final = 0.01
_ROOM_PAUSES: Final = 25  # that a burst waits for clients which read as fast as they can
_WITHOUT_PAUSE: Final = 32  # events that are read in one go …
_SIZE_WITHOUT_PAUSE: Final = 65_536  # … and bytes; with so many, clients are told at once
_PORTION: Final = 500  # events that are read at once for a client that is behind


class Cursor:
    """Reads events, encodes each once and writes it into its log.

    `users` are those who need it: when there have been none for about a second, it ends by itself.
    Nothing is cancelled in the driver for that, which would cost a connection each time.
    """

    def __init__(self, store: Store, subscription: Subscription, options: Events) -> None:
        self.users = 0
        self.log: Log
        self._store = store
        self._subscription = subscription
        self._options = options
        self._events: ChangeEvents
        self._position: ResumeToken | None = None
        self._is_closing = False
        self._waves = Waves(self._tell_untold)
        self._count = 0  # of what was read without a pause
        self._size = 0  # of what was not told
        self._is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.task = asyncio.create_task(self._run(), name="change stream")

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to be expected of it."""
        if not self._is_open.done():
            return self._is_closing
        return self._is_open.exception() is not None or self.log.ending is not None

    @property
    def position(self) -> str:
        """Up to here everything has been told, or is noted and told at the next `flush`."""
        return read_token(self._position)

    async def wait_open(self) -> None:
        """Return when events are heard; raises what keeps it from that."""
        await asyncio.shield(self._is_open)  # others may wait for it, too

    def flush(self) -> None:
        """Tell clients at once what there is to tell."""
        if self._size:
            self._waves.tell()

    async def close(self) -> None:
        """End it, and give back the cursor of the database."""
        self._is_closing = True
        await asyncio.wait({self.task}, timeout=_CLOSE_SECONDS)
        await cancel_until_over({self.task})

    async def read_portion(self, token: ResumeToken) -> tuple[list[Notice], ResumeToken]:
        """What happened after the token, and where that ends: at most so much at a time."""
        notices: list[Notice] = []
        size = 0
        async with await self._resume(token) as events:
            while len(notices) < _PORTION and size < self._options.max_behind_size:
                event = await events.try_next()
                if event is not None:
                    notices.append(build_notice(event, self._subscription))
                    size += notices[-1].size
                token = events.resume_token or token
                if event is None or read_token(token) >= self.log.floor:
                    break
        return notices, token

    async def _resume(self, token: ResumeToken) -> ChangeEvents:
        events = self._watch(token)
        try:
            await events.open()
        except ResumePointLost:
            raise
        except StoreRejected as error:  # what is no token, it refuses in many ways
            raise ResumePointLost("the change stream cannot be resumed from this token") from error
        return events

    def _watch(self, token: ResumeToken | None) -> ChangeEvents:
        asked = self._subscription
        namespace = namespace_of(asked.db, asked.collection)
        return self._store.watch(
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
            self._events = self._watch(None)  # it checks the stages and the rights
        except Exception as error:
            self._refuse(error)
            return
        try:
            if await self._open():
                ending = await self._tell_all()
                self.flush()
                self.log.end(ending)
        finally:
            self._waves.stop()
            await self._events.aclose()

    def _refuse(self, error: BaseException) -> None:
        self._is_open.set_exception(error)
        self._is_open.exception()  # whoever waited for it may have left

    async def _open(self) -> bool:
        try:
            await self._begin()
        except BaseException as error:
            self._refuse(error)
            return False
        self._position = self._events.resume_token
        options = self._options
        self.log = Log(self.position, most=options.max_behind, most_bytes=options.max_behind_size)
        self._is_open.set_result(None)
        return True

    async def _begin(self) -> None:
        """Open the stream, and know the place where it begins: who resumes is asked for it.

        The answer of the database has events already, and no place before them, if there were
        some in the meantime: then the stream begins after the first of them.
        """
        await self._events.open()
        while self._events.resume_token is None:
            await self._events.try_next()

    async def _tell_all(self) -> Ending:
        """Tell of events until there can be no more; why that is."""
        try:
            return await self._tell()
        except Exception as error:
            return self.find_ending(error)

    async def _tell(self) -> Ending:
        """Tell of events until there can be no more, or nobody needs them."""
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
                await self._note(build_notice(event, self._subscription))
            self._position = self._events.resume_token or self._position
            self.log.advance(self.position)
            if self._is_closing or not self.users:
                return LEFT
            if event is None and not self._events.alive:
                return GONE

    async def _note(self, notice: Notice) -> None:
        if self.log.is_pressed_by(notice):
            self.flush()
            await self._make_room(notice)
        self.log.note(notice)
        self._count += 1
        self._size += notice.size
        is_much = self._size >= _SIZE_WITHOUT_PAUSE
        self._waves.tell() if is_much else self._waves.plan()
        if is_much or self._count >= _WITHOUT_PAUSE:
            self._count = 0
            await asyncio.sleep(0)  # a batch of events must not keep the event loop to itself

    async def _make_room(self, notice: Notice) -> None:
        for _ in range(_ROOM_PAUSES):
            if not self.log.is_pressed_by(notice):
                break
            await asyncio.sleep(_ROOM_PAUSE)

    def _tell_untold(self) -> None:
        self._size = 0
        try:
            told = self.log.tell()
        except Exception as error:  # a wave may be nobody's: those whom it missed would not learn
            self.log.end(self.find_ending(error))
            return
        for notice in told:
            emit(StreamTold(len(self.log.readers), notice.find_lag()))

    async def _reopen(self) -> None:
        """Another change stream that goes on where this one was."""
        await self._events.aclose()
        self._events = self._watch(self._position)

    def find_ending(self, error: Exception) -> Ending:
        """What clients are told when this keeps the stream from going on; the log has it all."""
        asked = self._subscription
        emit(StreamFailed(asked.db, asked.collection, asked.uri, error))
        return HISTORY_LOST if isinstance(error, ResumePointLost) else FAILED
