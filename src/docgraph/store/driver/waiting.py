"""Connection pool: waiting for a server or a free connection with a deadline.

A command that a live server executes is bounded by the time of its request and by the ceiling. A
command without a server waits, and so does one whose server the driver has given up. That wait is
bounded by the remaining patience of its request. It ends immediately when the database is known to
be away; then no command begins to wait, either.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import chain

from docgraph.exchange.deadline import Deadline, Patience
from docgraph.store.driver.rights import Right, parse_denial

_MAX_DENIED = 100
_NO_LOGIN = "requires authentication"


@dataclass(slots=True, eq=False)
class _WaitingCommand:
    """Around a running command: the bound that ends it, and how long it may wait."""

    entries: set[_WaitingCommand]
    timeout: asyncio.Timeout
    has_server: Callable[[], bool]
    patience: Patience
    left: float
    is_write: bool
    since: float | None = None  # when it began to wait

    def __enter__(self) -> None:
        self.entries.add(self)

    def __exit__(self, *_: object) -> None:
        self.entries.discard(self)
        if self.since is not None:
            self.complete(asyncio.get_running_loop().time())

    def waits_at(self, now: float) -> bool:
        """Check if it may continue to wait; start to measure the wait if it begins now."""
        if self.since is None:
            self.since = now
        return now - self.since < self.left

    def complete(self, now: float) -> None:
        """End the measured wait: the command has a server again, or has ended."""
        if self.since is not None:
            self.left -= now - self.since
            self.since = None
            self.patience.left = min(self.patience.left, self.left)


class Waits:
    """The running commands of one process, with the bound of each; both its clients share it."""

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = seconds
        self._entries: dict[int, set[_WaitingCommand]] = {}  # by the identity of their client
        self.is_away = False
        self.is_refused = False  # a server has rejected our login
        self.has_lost_login = False  # a connection is open, and its user no longer exists
        self.denied: set[Right] = set()  # privileges that commands lacked

    def bounding(
        self,
        client: object,
        timeout: asyncio.Timeout,
        has_server: Callable[[], bool],
        deadline: Deadline,
        *,
        writing: bool = False,
    ) -> AbstractContextManager[None]:
        """Register the work of that `timeout`, which is shortened to end the waiting."""
        patience = deadline.patience or Patience(self._limit)
        # Not by the client itself: clients of the same address are equal.
        entries = self._entries.setdefault(id(client), set())
        return _WaitingCommand(entries, timeout, has_server, patience, patience.left, writing)

    def record_denial(self, text: str) -> None:
        """Record the database's message about a command that lacked a privilege, or a login."""
        if _NO_LOGIN in text:
            self.is_refused = self.has_lost_login = True
        right = parse_denial(text)
        if right is not None and len(self.denied) < _MAX_DENIED:
            self.denied.add(right)

    def forget_denial(self, text: str) -> None:
        """Forget the message about a privilege that turned out not to be needed."""
        right = parse_denial(text)
        if right is not None:
            self.denied.discard(right)

    def count(self, client: object) -> int:
        """Return the number of running commands of a client."""
        return len(self._entries.get(id(client), ()))

    def count_writes(self, client: object) -> int:
        """Return the number of running writes of a client."""
        return sum(entry.is_write for entry in self._entries.get(id(client), ()))

    @property
    def _limit(self) -> float:
        return float("inf") if self._seconds is None else self._seconds

    def expire(self, now: float, *, is_away: bool) -> None:
        """End commands that waited too long; `now` is the time of the event loop."""
        self.is_away = is_away
        for entry in tuple(chain.from_iterable(self._entries.values())):
            if not is_away and entry.has_server():
                entry.complete(now)
            elif is_away or not entry.waits_at(now):
                _end(entry, now)


def _end(entry: _WaitingCommand, now: float) -> None:
    if not entry.timeout.expired():
        entry.timeout.reschedule(now)
