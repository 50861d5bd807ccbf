"""Connection pool: waiting for a server or a free connection with a deadline.

A command that a live server executes is bounded by the time of its request and by the ceiling. A
command without a server waits, and so does one whose server the driver has given up. That wait is
bounded by the remaining patience of its request. It ends immediately when the database is known to
be away; then no command begins to wait, either. `Election` tells whether requests still wait for a
primary.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from itertools import chain
from math import inf

from pymongo.server_type import SERVER_TYPE
from pymongo.topology_description import TOPOLOGY_TYPE, TopologyDescription

from docgraph.exchange.deadline import Deadline, Patience
from docgraph.runtime.timeouts import Timeout, TimeoutWheel
from docgraph.store.driver.rights import Right, parse_denial

_SECONDARY = SERVER_TYPE.RSSecondary
_MAX_DENIED = 100
_NO_LOGIN = "requires authentication"


class WaitingCommand(Timeout):
    """A running command: its time limit, and how long it may wait for a server."""

    __slots__ = ("_entries", "_left", "_patience", "_since", "has_server", "is_write")

    def __init__(
        self,
        waits: Waits,
        client: object,
        seconds: float | None,
        has_server: Callable[[], bool],
        deadline: Deadline,
        *,
        is_write: bool = False,
    ) -> None:
        super().__init__(waits.wheel, inf if seconds is None else time.monotonic() + seconds)
        # Not by the client itself: clients of the same address are equal.
        self._entries = waits.entries.setdefault(id(client), set())
        self.has_server = has_server
        self._patience = deadline.patience or Patience(waits.limit)
        self._left = self._patience.left
        self.is_write = is_write
        self._since: float | None = None  # when it began to wait

    def __enter__(self) -> WaitingCommand:
        self._entries.add(self)
        super().__enter__()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._entries.discard(self)
        if self._since is not None:
            self.complete(asyncio.get_running_loop().time())
        super().__exit__(kind, error, trace)

    def waits_at(self, now: float) -> bool:
        """Return whether the command may continue to wait; start to measure a new wait."""
        if self._since is None:
            self._since = now
        return now - self._since < self._left

    def complete(self, now: float) -> None:
        """End the measured wait: the command has a server again, or has ended."""
        if self._since is not None:
            self._left -= now - self._since
            self._since = None
            self._patience.left = min(self._patience.left, self._left)


class Waits:
    """The running commands of one process, with the bound of each; both its clients share it."""

    def __init__(self, seconds: float | None = None) -> None:
        self.limit = inf if seconds is None else seconds  # the longest wait of a request
        self.entries: dict[int, set[WaitingCommand]] = {}  # by the identity of their client
        self.wheel = TimeoutWheel()
        self.is_away = False
        self.is_refused = False  # a server has rejected our login
        self.has_lost_login = False  # a connection is open, and its user no longer exists
        self.denied: set[Right] = set()  # privileges that commands lacked

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

    def count_writes(self, client: object) -> int:
        return sum(entry.is_write for entry in self.entries.get(id(client), ()))

    def expire(self, now: float, *, is_away: bool) -> None:
        """End commands that waited too long; `now` is the time of the event loop."""
        self.is_away = is_away
        for entry in tuple(chain.from_iterable(self.entries.values())):
            if not is_away and entry.has_server():
                entry.complete(now)
            elif (is_away or not entry.waits_at(now)) and not entry.expired:
                self.wheel.remove(entry)
                entry.expire()


class Election:
    """The time without a primary, as one client of the database sees it (decision 60)."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds  # that a request waits for a server
        self._clock = clock
        self._since: float | None = None

    def is_awaited(self, topology: TopologyDescription) -> bool:
        """Return whether a set has members and no primary, and no request has waited in vain yet.

        Call it often: it measures the time from the first call that finds no primary.
        """
        is_leaderless = topology.topology_type == TOPOLOGY_TYPE.ReplicaSetNoPrimary
        members = topology.server_descriptions().values()
        if not is_leaderless or all(member.server_type != _SECONDARY for member in members):
            self._since = None
            return False
        now = self._clock()
        if self._since is None:
            self._since = now
        return now - self._since < self._seconds
