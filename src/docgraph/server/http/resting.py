"""Connections whose request was one too many: they stay open, and are not read for a moment.

Whoever is refused asks again. Were everybody read at once, refusals would fill every turn of the
event loop, and those who were let in would wait for them; were their connections closed, they
would stand in the system's queue of new ones, of which the loop takes one in a turn. So they rest,
and are read again in their order: a few at a time, and as many as there is room for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Final, Protocol

__all__ = ["AT_ONCE", "Resting"]

_REST: Final = 0.1  # seconds
_TICK: Final = 0.005  # seconds between two looks
AT_ONCE: Final = 8  # connections in a look; refusing 1 600 a second takes a fifth of a core


class _Rested(Protocol):
    def go_on(self) -> None:
        """Read on."""


class Resting:
    """Those of this process, with the moment until which each of them rests."""

    def __init__(self, count_room: Callable[[], int]) -> None:
        self._count_room = count_room  # how many requests would not be refused now
        self._until: dict[_Rested, float] = {}  # the oldest first
        self._next: asyncio.TimerHandle | None = None  # look

    def enter(self, connection: _Rested, loop: asyncio.AbstractEventLoop) -> None:
        """Rest; `go_on` is called when it is over."""
        self._until[connection] = loop.time() + _REST
        if self._next is None:
            self._next = loop.call_later(_TICK, self._look, loop)

    def leave(self, connection: _Rested) -> None:
        """Rest no longer: it has ended, or is needed."""
        self._until.pop(connection, None)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now, room = loop.time(), self._count_room()
        first = list(islice(self._until.items(), room + AT_ONCE))
        try:
            for place, (connection, until) in enumerate(first):
                if place < room or until <= now:
                    self.leave(connection)
                    connection.go_on()
        finally:  # whatever becomes of one of them, the others are read again
            self._next = loop.call_later(_TICK, self._look, loop) if self._until else None
