"""One client of a stream: first what it has missed, from the database, then what is told to all."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from docgraph.events.cursor import Cursor, ResumeToken
from docgraph.events.ending import MOVED, Ended, Ending
from docgraph.events.log import Reader
from docgraph.events.notice import Notice, read_token
from docgraph.exchange import DocgraphError, NotifyWhen, Prepared
from docgraph.exchange.errors import StoreUnavailable

__all__ = ["Client"]

_PAUSE: Final = 0.5  # seconds before the past is asked for again


class Client:
    """Reads events in order, at its own pace. `past` bounds how many look into the past at once."""

    def __init__(
        self,
        cursor: Cursor,
        condition: NotifyWhen | None,
        token: ResumeToken | None,
        past: asyncio.Semaphore,
    ) -> None:
        self.ending: Ending | None = None
        self.on_end: Callable[[], object] | None = None
        self._cursor = cursor
        self._condition = condition
        self._token = token  # everything up to it is known; None: nothing was missed
        self._past = past
        self._portion: list[Notice] = []
        self._reader: Reader | None = None
        self._offer: Callable[[Prepared], bool] | None = None
        self._next: tuple[Cursor, Reader] | None = None  # with what it goes on
        self._has_left = False

    async def begin(self) -> None:
        """Take a place, so that nothing from now on is missed; raises for a token that is bad."""
        if self._token is None:
            self._cursor.flush()
            self._reader = self._cursor.log.add_reader(self._condition, on_lag=self.end)
            return
        if not self._cursor.log.floor <= read_token(self._token) <= self._cursor.position:
            await self._read_past(self._token)
        self._join_others()

    def find_place(self) -> bytes:
        """The id after which one goes on who has begun now; empty for one that brought its own."""
        return self._cursor.log.find_place() if self._token is None else b""

    @property
    def is_up_to_date(self) -> bool:
        """Whether it has read its past: a `read` that is cancelled loses nothing from then on."""
        return self._reader is not None

    async def read(self) -> list[Notice]:
        """The next events, at least one; raises `Ended` when there are no more."""
        while True:
            if self.ending is not None:
                raise Ended(self.ending)
            portion, self._portion = self._portion, []
            wanted = [notice for notice in portion if notice.concerns(self._condition)]
            if wanted:
                return wanted
            if self._reader is not None:
                try:
                    return await self._reader.read()
                except Ended as ended:
                    if ended.ending is not MOVED:
                        raise
                    self._leave_cursor()
                    self._begin_next()
                    continue
            await self._read_on()

    def pass_to(self, offer: Callable[[Prepared], bool]) -> None:
        """Give events that come while one waits in `read` there; `read` gives what is refused."""
        self._offer = offer
        if self._reader is not None:
            self._reader.offer = offer

    def end(self, ending: Ending) -> None:
        """There is no more for this client; it is told why."""
        if self.ending is None:
            self.ending = ending
            if self._reader is not None:
                self._reader.end(ending)
            if self.on_end is not None:
                self.on_end()

    def can_move(self) -> bool:
        """Whether it can go on with another cursor: not in the past, and not twice at a time."""
        is_over = self._has_left or self.ending is not None
        return not is_over and self._reader is not None and self._next is None

    def move(self, cursor: Cursor) -> None:
        """Go on with another cursor, where that begins; up to there this one goes on.

        Nothing is resumed by a token: the database does not find the event of one that the other
        cursor would not tell.
        """
        assert self._reader is not None  # noqa: S101 - whoever moves it has asked `can_move`
        cursor.flush()
        reader = cursor.log.add_reader(self._condition, on_lag=self.end)
        self._reader.limit = reader.known
        reader.known = max(reader.known, self._reader.known)
        self._next = cursor, reader
        self._reader.wake()

    def leave(self) -> None:
        """The connection is over; a second call does nothing."""
        if self._has_left:
            return
        self._has_left = True
        self._leave_cursor()
        if self._next is not None:
            self._begin_next()
            self._leave_cursor()

    def _leave_cursor(self) -> None:
        self._cursor.users -= 1
        if self._reader is not None:
            self._reader.leave()

    def _begin_next(self) -> None:
        assert self._next is not None  # noqa: S101 - it was moved
        (self._cursor, self._reader), self._next = self._next, None
        self._reader.offer = self._offer

    async def _read_on(self) -> None:
        """More of the past; an outage of the database is a pause, as for everybody else."""
        assert self._token is not None  # noqa: S101 - else there is a reader
        try:
            await self._read_past(self._token)
        except StoreUnavailable:
            await asyncio.sleep(_PAUSE)
        except DocgraphError as error:
            self.end(self._cursor.find_ending(error))
        else:
            self._join_others()

    async def _read_past(self, token: ResumeToken) -> None:
        async with self._past:
            self._portion, self._token = await self._cursor.read_portion(token)

    def _join_others(self) -> None:
        """Read what all read, if that begins no later than what this client knows ends."""
        self._cursor.flush()  # or what was noted pushes out the events that it begins with
        log, known = self._cursor.log, read_token(self._token)
        if known >= log.floor:
            self._reader = log.add_reader(self._condition, after=known, on_lag=self.end)
            self._reader.offer = self._offer
