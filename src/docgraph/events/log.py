"""The latest events of a cursor, bounded in number and bytes, and those who read them.

Events have consecutive numbers; a reader is a number, the next one it wants. Whoever is so slow
that its number falls out of the log is ended. Events are noted first, and told together: readers
that wait for the same ones get the same bytes, all of them in one message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

from docgraph.events.ending import MOVED, TOO_SLOW, Ended, Ending
from docgraph.events.notice import Notice
from docgraph.exchange import NotifyWhen, Prepared

__all__ = ["Log", "Reader"]

_FEW: Final = 32


class _News(NamedTuple):
    """The events from a number on, for all who wait for these."""

    notices: list[Notice]
    message: Prepared  # of all of them
    first: str  # the tokens of the first …
    last: str  # … and of the last


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
        self._untold: list[Notice] = []
        self._position_then = floor  # when these are told
        self._news: dict[int, _News] = {}  # by the number of their first event
        self._first = 0  # the number of the oldest
        self.next = 0  # the number of the event to come
        self._size = 0

    def note(self, notice: Notice) -> None:
        """One more event, which readers learn of when they are told."""
        self._untold.append(notice)

    def tell(self) -> list[Notice]:
        """Tell all readers what was noted; what is beyond the bounds is forgotten, oldest first."""
        told, self._untold = self._untold, []
        if told:
            self._append(told)
        self.advance(self._position_then)
        return told

    def _append(self, notices: Sequence[Notice]) -> None:
        self._notices.extend(notices)
        self.next += len(notices)
        self._size += sum(notice.size for notice in notices)
        self._news.clear()
        while len(self._notices) > self._most or (
            self._size > self._most_bytes and len(self._notices) > 1
        ):
            forgotten = self._notices.popleft()
            self._first += 1
            self._size -= forgotten.size
            self.floor = forgotten.token
        first = self._first
        for reader in list(self.readers):
            if reader.position < first:
                reader.lag()
            else:
                reader.wake()

    def advance(self, position: str) -> None:
        """The cursor has come so far, be there events for its readers or not."""
        self._position_then = position
        if self._untold or position == self.position:
            return
        self.position = position
        for reader in self.readers:
            if reader.limit is not None:
                reader.wake()

    def is_pressed_by(self, notice: Notice) -> bool:
        """Whether this event, after what was noted, pushes out one that somebody has not read."""
        untold = self._untold
        size = self._size + sum(one.size for one in untold) + notice.size
        count, kept = len(self._notices) + len(untold) + 1, self._first
        for oldest in chain(self._notices, untold):
            if count <= self._most and size <= self._most_bytes:
                break
            size, count, kept = size - oldest.size, count - 1, kept + 1
        return kept > self._first and any(reader.position < kept for reader in self.readers)

    def end(self, ending: Ending) -> None:
        """There will be no more; readers are told after what they have not read yet."""
        self.ending = self.ending or ending
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

    def find_news(self, position: int) -> _News:
        """The events from that number on, of which there is at least one; made once for all."""
        news = self._news.get(position)
        if news is None:
            notices = self.read(position)
            message = _prepare(notices)
            news = _News(notices, message, notices[0].token, notices[-1].token)
            self._news[position] = news
        return news


def _prepare(notices: Sequence[Notice]) -> Prepared:
    if len(notices) == 1:
        return notices[0].message
    return Prepared([notice.message.contents[0] for notice in notices])


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
        waiter = self._waiter
        if waiter is None or waiter.done() or self._pass_on():
            return
        waiter.set_result(None)

    def leave(self) -> None:
        """The client is gone."""
        self._log.readers.discard(self)

    def _pass_on(self) -> bool:
        """Whether everything new went straight to where it is wanted; it waits for more, then."""
        log, offer = self._log, self.offer
        if offer is None or self.limit is not None:
            return False
        if self._ending is not None or log.ending is not None:
            return False
        if self.position == log.next:
            return True
        news = log.find_news(self.position)
        if self._condition is None and self.known < news.first:
            is_passed = offer(news.message)
        else:
            wanted = [notice for notice in news.notices if self._wants(notice)]
            is_passed = not wanted or offer(_prepare(wanted))
        if is_passed:
            self.position = log.next
            self.known = max(self.known, news.last)
        return is_passed

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
