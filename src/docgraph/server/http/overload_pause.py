"""Overload pause: connections whose request got a 503 stay open, and are not read for a moment.

Rejected clients retry. If all of them were read immediately, rejections would fill every iteration
of the event loop, and delay admitted requests. If their connections were closed, each retry would
cost a new connection. So they pause, and are read again in order: a few at a time, and as many as
there is room for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

_REST: Final = 0.5  # seconds; clients are asked to wait for 1 s
_TICK: Final = 0.005  # seconds between two checks
AT_ONCE: Final = 8  # connections per check; rejecting 1 600 a second takes a fifth of a core


class _Rested(Protocol):
    def go_on(self) -> None:
        """Resume reading."""


class Resting:
    """The paused connections of this process, with the end of each pause."""

    def __init__(self, count_room: Callable[[], int]) -> None:
        self._count_room = count_room  # how many requests would be admitted now
        self._until: dict[_Rested, float] = {}  # the oldest first
        self._next: asyncio.TimerHandle | None = None  # check

    def enter(self, connection: _Rested, loop: asyncio.AbstractEventLoop) -> None:
        """Pause; `go_on` is called at the end."""
        self._until[connection] = loop.time() + _REST
        if self._next is None:
            self._next = loop.call_later(_TICK, self._resume_due, loop)

    def leave(self, connection: _Rested) -> None:
        """End the pause: the connection has ended, or is needed."""
        self._until.pop(connection, None)

    def _resume_due(self, loop: asyncio.AbstractEventLoop) -> None:
        now, room = loop.time(), self._count_room()
        first = list(islice(self._until.items(), room + AT_ONCE))
        try:
            for place, (connection, until) in enumerate(first):
                if place < room or until <= now:
                    self.leave(connection)
                    connection.go_on()
        finally:  # whatever happens to one of them, the others are read again
            self._next = loop.call_later(_TICK, self._resume_due, loop) if self._until else None
