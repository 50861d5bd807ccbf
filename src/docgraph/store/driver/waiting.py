"""Commands that wait for a server, and what ends their waiting.

A command that a living server executes is bounded by the time of its request and by the ceiling.
One for which there is no server waits, and so does one whose server the driver has given up. That
is bounded by what is left of the patience of its request, and over at once when the database is
known to be away: then nobody begins to wait, either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from docgraph.exchange.deadline import Deadline, Patience
from docgraph.store.driver.rights import Right, parse_denial

__all__ = ["Waits"]

_MOST_DENIED = 100
_NO_LOGIN = "requires authentication"


@dataclass(slots=True, eq=False)
class _Entry:
    """Around a command under way: the bound that ends it, and how long it may wait."""

    entries: set[_Entry]
    timeout: asyncio.Timeout
    has_server: Callable[[], bool]
    patience: Patience
    left: float
    since: float | None = None  # when it began to wait

    def __enter__(self) -> None:
        self.entries.add(self)

    def __exit__(self, *_: object) -> None:
        self.entries.discard(self)
        if self.since is not None:
            self.settle(asyncio.get_running_loop().time())

    def waits_at(self, now: float) -> bool:
        """Whether it may go on; what it waited before and does no more is accounted for."""
        if self.since is None:
            self.since = now
        return now - self.since < self.left

    def settle(self, now: float) -> None:
        """It has a server again, or is over."""
        if self.since is not None:
            self.left -= now - self.since
            self.since = None
            self.patience.left = min(self.patience.left, self.left)


class Waits:
    """The commands of one process that are under way, by the bound of each."""

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._entries: set[_Entry] = set()
        self.is_away = False
        self.is_refused = False  # a server has refused our login
        self.has_lost_login = False  # a connection is open, and its user is not there any more
        self.denied: set[Right] = set()  # rights that commands did not have

    def bounding(
        self, timeout: asyncio.Timeout, has_server: Callable[[], bool], deadline: Deadline
    ) -> AbstractContextManager[None]:
        """Around the work of that `timeout`, which is moved forward to end the waiting."""
        patience = deadline.patience or Patience(self._limit)
        return _Entry(self._entries, timeout, has_server, patience, patience.left)

    def note_denial(self, text: str) -> None:
        """Remember what the database says of a command for which we lack a right, or a login."""
        if _NO_LOGIN in text:
            self.is_refused = self.has_lost_login = True
        right = parse_denial(text)
        if right is not None and len(self.denied) < _MOST_DENIED:
            self.denied.add(right)

    @property
    def count(self) -> int:
        """How many are under way."""
        return len(self._entries)

    @property
    def _limit(self) -> float:
        return float("inf") if self._seconds is None else self._seconds

    def look(self, now: float, *, is_away: bool) -> None:
        """End what has waited too long; `now` is the time of the event loop."""
        self.is_away = is_away
        for entry in tuple(self._entries):
            if not is_away and entry.has_server():
                entry.settle(now)
            elif is_away or not entry.waits_at(now):
                _end(entry, now)


def _end(entry: _Entry, now: float) -> None:
    if not entry.timeout.expired():
        entry.timeout.reschedule(now)
