"""Event log of a channel: the latest events, bounded in number and bytes, and their readers.

Events have consecutive numbers; the position of a reader is the number of its next event. A reader
is ended when it is so slow that its position drops out of the log. Events are appended first and
published together: readers that wait at the same position get the same bytes, all events in one
message.

A log retains events that its clients have read, for those who come back. With thousands of logs
that would be much: beyond the budget of the process such events are dropped first, then the clients
that are furthest behind are closed.
"""

from __future__ import annotations

import asyncio
import gc
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import Final, NamedTuple

from docgraph.events.encoded_event import EncodedEvent
from docgraph.exchange import NotifyWhen, SharedMessages
from docgraph.exchange.close_reason import TOO_SLOW, CloseReason, StreamClosed
from docgraph.exchange.errors import Overloaded
from docgraph.runtime.loop_share import LoopShare

_WOKEN_PER_TURN: Final = 100  # readers; the work of each takes up to 0.2 ms
_WOKEN_PER_COLLECTION: Final = 500  # each of them may replace 20 objects


class LogBudget:
    """Counts retained events once, however many logs retain them; readers share `wakes`."""

    def __init__(self, most_bytes: int | None = None) -> None:
        self.size = 0
        self.wakes = LoopShare(_WOKEN_PER_TURN)
        self._woken = 0  # readers, since the last collection
        self._most = most_bytes
        # Those that retain events, the one with the oldest news first.
        self._logs: dict[EventLog, None] = {}

    def add(self, log: EventLog, notices: Iterable[EncodedEvent]) -> None:
        """Count the events that a log has published."""
        self._logs.pop(log, None)
        self._logs[log] = None
        for notice in notices:
            notice.holders += 1
            if notice.holders == 1:
                self.size += notice.size

    def remove(self, log: EventLog, notice: EncodedEvent) -> None:
        """Count an event that a log has dropped."""
        notice.holders -= 1
        if not notice.holders:
            self.size -= notice.size
        if not log.size:
            self.forget(log)

    def count_woken(self) -> None:
        """Collect the youngest objects after every few hundred readers that were woken.

        The collector counts new objects less freed ones. A reader that replaces what it waits with
        counts nothing, and of 10 000 readers the next collection would take 0.1 s in one step.
        """
        self._woken += 1
        if self._woken >= _WOKEN_PER_COLLECTION:
            self._woken = 0
            gc.collect(1)

    def forget(self, log: EventLog) -> None:
        """Forget a log that retains nothing, or has ended."""
        self._logs.pop(log, None)

    @property
    def is_exceeded(self) -> bool:
        return self._most is not None and self.size > self._most

    def enforce(self) -> None:
        """Drop what all clients of a log have read; then end the clients furthest behind."""
        for log in list(self._logs) if self.is_exceeded else ():
            log.drop_read()
            if not self.is_exceeded:
                return
        while self.is_exceeded and self._logs:
            max(self._logs, key=lambda log: log.size).drop_slowest()


class FilterSlots:
    """Counts the filters and shapes of this process about which the database decides."""

    def __init__(self, most: int) -> None:
        self.count = 0
        self._most = most

    def acquire(self) -> None:
        """Reserve a slot for a filter or shape; raise `Overloaded` if there is none."""
        if self.count >= self._most:
            raise Overloaded(
                "too many different filters and stages of change streams need the database, "
                "events.max-filters bounds them"
            )
        self.count += 1

    def release(self) -> None:
        self.count -= 1


_FEW: Final = 32


class _News(NamedTuple):
    """The events after one position, for all readers at that position."""

    notices: list[EncodedEvent]
    message: SharedMessages  # with all of these events
    first: str  # the tokens of the first event …
    last: str  # … and of the last


@dataclass(eq=False, slots=True)
class EventLog:
    """The latest published events. The log has everything after the token `floor`."""

    floor: str
    most: int
    most_bytes: int
    budget: LogBudget = field(default_factory=LogBudget)
    readers: set[LogReader] = field(default_factory=set)
    ending: CloseReason | None = None
    next: int = 0  # the number of the next event
    size: int = 0  # the bytes of the published events that it retains
    _notices: deque[EncodedEvent] = field(default_factory=deque)
    _untold: list[EncodedEvent] = field(default_factory=list)
    _untold_size: int = 0
    _news: dict[int, _News] = field(default_factory=dict)  # by the number of their first event
    _first: int = 0  # the number of the oldest event

    def append(self, notice: EncodedEvent) -> None:
        """Append an event; readers are notified by `publish`."""
        self._untold.append(notice)
        self._untold_size += notice.size

    def publish(self) -> list[EncodedEvent]:
        """Publish the appended events to all readers; drop the oldest ones beyond the bounds."""
        told, self._untold, self._untold_size = self._untold, [], 0
        if not told:
            return told
        self._notices.extend(told)
        self.next += len(told)
        self.size += sum(notice.size for notice in told)
        self.budget.add(self, told)
        self._news.clear()
        while len(self._notices) > self.most or (
            self.size > self.most_bytes and len(self._notices) > 1
        ):
            self._forget_oldest()
        first = self._first
        for reader in list(self.readers):
            if reader.position < first:
                reader.lag()
            else:
                reader.notify(self.budget.wakes)
        return told

    def wake_readers(self) -> None:
        """Wake all readers immediately: events that they have not read are about to be dropped."""
        for reader in list(self.readers):
            reader.wake()

    def _forget_oldest(self) -> None:
        forgotten = self._notices.popleft()
        self._first += 1
        self.size -= forgotten.size
        self.floor = forgotten.token
        self.budget.remove(self, forgotten)

    def drop_read(self) -> None:
        unread = min((reader.position for reader in self.readers), default=self.next)
        while self._first < unread:
            self._forget_oldest()
        self._news.clear()

    def drop_slowest(self) -> None:
        """End the readers that are furthest behind, and drop what only they have not read."""
        last = min((reader.position for reader in self.readers), default=self.next)
        for reader in list(self.readers):
            if reader.position == last < self.next:
                reader.lag()
        self.drop_read()

    def detach(self) -> None:
        """Leave the budget after the end: what clients have not read yet is soon read."""
        for notice in self._notices:
            self.budget.remove(self, notice)
        self.budget.forget(self)
        self.budget = LogBudget()

    def is_pressed_by(self, notice: EncodedEvent) -> bool:
        """Return whether this event would evict one that a reader has not read."""
        size = self.size + self._untold_size + notice.size
        count, kept = len(self._notices) + len(self._untold) + 1, self._first
        if count <= self.most and size <= self.most_bytes:
            return False
        for oldest in chain(self._notices, self._untold):
            if count <= self.most and size <= self.most_bytes:
                break
            size, count, kept = size - oldest.size, count - 1, kept + 1
        return any(reader.position < kept for reader in self.readers)

    def end(self, ending: CloseReason) -> None:
        """End the log; readers get the close reason after the events not read yet."""
        self.ending = self.ending or ending
        for reader in list(self.readers):
            reader.notify(self.budget.wakes)

    def add_reader(
        self,
        condition: NotifyWhen | None = None,
        *,
        after: str | None = None,
        on_lag: Callable[[CloseReason], None] | None = None,
    ) -> LogReader:
        """Add a reader of new events; with `after`, also of the logged events after that token.

        `on_lag` is called when the reader has been too slow.
        """
        if after is None:
            after = self._notices[-1].token if self._notices else self.floor
        position = self.next - sum(notice.token > after for notice in self._notices)
        reader = LogReader(self, position, after, condition, on_lag)
        self.readers.add(reader)
        return reader

    def has(self, token: str) -> bool:
        return token == self.floor or any(
            notice.token == token for notice in chain(self._notices, self._untold)
        )

    def read(self, position: int) -> list[EncodedEvent]:
        count = self.next - position
        if count <= _FEW:  # read from the end; the other branch skips all events before them
            return [self._notices[place] for place in range(-count, 0)]
        return list(islice(self._notices, position - self._first, None))

    def find_news(self, position: int) -> _News:
        """Return the message for a position with events; it is built once for all readers."""
        news = self._news.get(position)
        if news is None:
            notices = self.read(position)
            message = _prepare(notices)
            news = _News(notices, message, notices[0].token, notices[-1].token)
            self._news[position] = news
        return news


def _prepare(notices: Sequence[EncodedEvent]) -> SharedMessages:
    if len(notices) == 1:
        return notices[0].message
    return SharedMessages([notice.message.contents[0] for notice in notices])


@dataclass(eq=False, slots=True)
class LogReader:
    """The position of one client in the log."""

    _log: EventLog
    position: int
    known: str  # events up to this token have been delivered
    _condition: NotifyWhen | None
    _on_lag: Callable[[CloseReason], None] | None
    # Receives events directly while the client waits, without waking it, unless it returns False.
    offer: Callable[[SharedMessages], bool] | None = None
    _ending: CloseReason | None = None
    _waiter: asyncio.Future[None] | None = None
    _is_due: bool = False  # it is woken in a later turn of the event loop

    async def read(self) -> list[EncodedEvent]:
        """Return the next events, at least one; raise `StreamClosed` when there are no more."""
        while True:
            if self._ending is not None:
                raise StreamClosed(self._ending)
            if notices := self._drain():
                return notices
            if self._log.ending is not None:
                raise StreamClosed(self._log.ending)
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None

    def end(self, ending: CloseReason) -> None:
        """End the reader, even with unread events."""
        if self._ending is None:
            self._ending = ending
        self.wake()

    def lag(self) -> None:
        """End the reader because events that it has not read were dropped."""
        on_lag = self._on_lag
        self.leave()
        self.end(TOO_SLOW)
        if on_lag is not None:
            on_lag(TOO_SLOW)

    def notify(self, share: LoopShare) -> None:
        """Wake the reader for new events, in this turn of the event loop or in a later one."""
        if self._waiter is not None and not self._is_due:
            self._is_due = True
            share.call(self._wake_due)

    def _wake_due(self) -> None:
        self._is_due = False
        self.wake()
        self._log.budget.count_woken()

    def wake(self) -> None:
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        try:
            is_passed = self._pass_on()
        except Exception:  # the client reads the events itself, and fails if the error persists
            is_passed = False
        if not is_passed:
            waiter.set_result(None)

    def leave(self) -> None:
        """Remove the reader after its client disconnected."""
        self._log.readers.discard(self)
        self._on_lag = self.offer = None  # a cycle would wait for the garbage collector

    def _pass_on(self) -> bool:
        """Return whether all new events were passed on, so that the reader keeps waiting."""
        log, offer = self._log, self.offer
        if offer is None or self._ending is not None or log.ending is not None:
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

    def _drain(self) -> list[EncodedEvent]:
        if self.position == self._log.next:
            return []
        notices = self._log.read(self.position)
        self.position += len(notices)
        wanted = [notice for notice in notices if self._wants(notice)]
        self.known = max(self.known, notices[-1].token)
        return wanted

    def _wants(self, notice: EncodedEvent) -> bool:
        return notice.token > self.known and notice.concerns(self._condition)
