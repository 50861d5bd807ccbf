"""The latest events of a cursor, bounded in number and bytes, and those who read them.

Events have consecutive numbers; a reader is a number, the next one it wants. Whoever is so slow
that its number falls out of the log is ended.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Final

from docgraph.events.ending import MOVED, TOO_SLOW, Ended, Ending
from docgraph.events.notice import Notice
from docgraph.exchange import NotifyWhen, Prepared

__all__ = ["Log", "Reader"]

_FEW: Final = 32


class Log:
    """What was told lately. Everything after the token `floor` is in it."""

    def __init__(self, floor: str, *, most: int, most_bytes: int) -> None:
        self.floor = floor
        self.position = floor  # the cursor has told everything up to here
        self.readers: set[Reader] = set()
        self.ending: Ending | None = None
        self._most = most
        self._most_bytes = most_bytes
        self._notices: deque[Notice] = deque()
        self._first = 0  # the number of the oldest
        self._size = 0

    @property
    def next(self) -> int:
        """The number of the event to come."""
        return self._first + len(self._notices)

    def append(self, notices: Sequence[Notice]) -> None:
        """Tell all readers; what is beyond the bounds is forgotten, oldest first."""
        for notice in notices:
            self._notices.append(notice)
            self._size += notice.size
        while len(self._notices) > self._most or (
            self._size > self._most_bytes and len(self._notices) > 1
        ):
            forgotten = self._notices.popleft()
            self._first += 1
            self._size -= forgotten.size
            self.floor = forgotten.token
        for reader in list(self.readers):
            if reader.position < self._first:
                reader.lag()
            else:
                reader.wake()

    def advance(self, position: str) -> None:
        """The cursor has come so far, be there events for its readers or not."""
        self.position = position
        for reader in self.readers:
            if reader.limit is not None:
                reader.wake()

    def is_pressed_by(self, notice: Notice) -> bool:
        """Whether this event would push out one that somebody has not read."""
        size, count = self._size + notice.size, len(self._notices) + 1
        kept = self._first
        for oldest in self._notices:
            if count <= self._most and size <= self._most_bytes:
                break
            size, count, kept = size - oldest.size, count - 1, kept + 1
        return kept > self._first and any(reader.position < kept for reader in self.readers)

    def end(self, ending: Ending) -> None:
        """There will be no more; readers are told after what they have not read yet."""
        self.ending = ending
        for reader in list(self.readers):
            reader.wake()

    def add_reader(
        self,
        condition: NotifyWhen | None = None,
        *,
        after: str | None = None,
        on_lag: Callable[[Ending], None] | None = None,
    ) -> Reader:
        """One who reads what comes; with `after`, also what is known and behind that token.

        `on_lag` is called when it has been too slow.
        """
        if after is None:
            after = self._notices[-1].token if self._notices else self.floor
        position = self.next - sum(notice.token > after for notice in self._notices)
        reader = Reader(self, position, after, condition, on_lag)
        self.readers.add(reader)
        return reader

    def find_place(self) -> bytes:
        """The id of the latest event, or of the place where the log begins."""
        return self._notices[-1].id if self._notices else b'{"_data":"%s"}' % self.floor.encode()

    def read(self, position: int) -> list[Notice]:
        """The events from that number on."""
        count = self.next - position
        if count <= _FEW:  # found from the end; else all before them would be passed by
            return [self._notices[place] for place in range(-count, 0)]
        return list(islice(self._notices, position - self._first, None))


class Reader:
    """The place of one client in the log."""

    __slots__ = (
        "_condition",
        "_ending",
        "_log",
        "_on_lag",
        "_waiter",
        "known",
        "limit",
        "offer",
        "position",
    )

    def __init__(
        self,
        log: Log,
        position: int,
        after: str,
        condition: NotifyWhen | None,
        on_lag: Callable[[Ending], None] | None,
    ) -> None:
        self._log = log
        self._on_lag = on_lag
        # Where one who waits gets events without being woken, unless that is refused.
        self.offer: Callable[[Prepared], bool] | None = None
        self.position = position
        self.known = after  # events up to this token have been told
        self.limit: str | None = None  # events after this token are for another reader
        self._condition = condition
        self._ending: Ending | None = None
        self._waiter: asyncio.Future[None] | None = None

    async def read(self) -> list[Notice]:
        """The next events, at least one; raises `Ended` when there are no more for this client."""
        while True:
            if self._ending is not None:
                raise Ended(self._ending)
            found = self._take()
            if found:
                return found
            if self.limit is not None and self._log.position >= self.limit:
                raise Ended(MOVED)
            if self._log.ending is not None:
                raise Ended(self._log.ending)
            await self._wait()

    def end(self, ending: Ending) -> None:
        """End it, whatever is left to read."""
        if self._ending is None:
            self._ending = ending
        self.wake()

    def lag(self) -> None:
        """What it has not read is gone."""
        self.leave()
        self.end(TOO_SLOW)
        if self._on_lag is not None:
            self._on_lag(TOO_SLOW)

    def wake(self) -> None:
        """There is something new."""
        if self._waiter is None or self._waiter.done() or self._pass_on():
            return
        self._waiter.set_result(None)

    def leave(self) -> None:
        """The client is gone."""
        self._log.readers.discard(self)

    def _pass_on(self) -> bool:
        """Whether everything new went straight to where it is wanted; it waits for more, then."""
        if self.offer is None or self.limit is not None:
            return False
        if self._ending is not None or self._log.ending is not None:
            return False
        for notice in self._log.read(self.position):
            if self._wants(notice) and not self.offer(notice.message):
                return False
            self.position += 1
            self.known = max(self.known, notice.token)
        return True

    def _take(self) -> list[Notice]:
        notices = self._log.read(self.position) if self.position < self._log.next else []
        if self.limit is not None:
            notices = [one for one in notices if one.token <= self.limit]
        if not notices:
            return []
        self.position += len(notices)
        wanted = [notice for notice in notices if self._wants(notice)]
        self.known = max(self.known, notices[-1].token)
        return wanted

    def _wants(self, notice: Notice) -> bool:
        return notice.token > self.known and notice.concerns(self._condition)

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None
