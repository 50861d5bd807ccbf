"""Bounds on the time of many short pieces of work, kept by one timer.

A timer for each of them would cost more than most of them do. The one here looks a few times a
second, and only while there is work; whoever is late by then is ended.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final

__all__ = ["Patrol", "Watched"]

_INTERVAL: Final = 0.25  # seconds


class Watched:
    """Around a piece of work in the current task: `TimeoutError` when it is ended for its time."""

    __slots__ = ("_cancelling", "_patrol", "_task", "expired", "until")

    def __init__(self, patrol: Patrol, until: float) -> None:
        self._patrol = patrol
        self.until = until
        self.expired = False

    def __enter__(self) -> Watched:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - there is no other way to get here
        self._task, self._cancelling = task, task.cancelling()
        self._patrol.add(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._patrol.remove(self)
        if (
            self.expired
            and self._task.uncancel() <= self._cancelling
            and kind is asyncio.CancelledError
        ):
            raise TimeoutError from error

    def expire(self) -> None:
        """End the work."""
        self.expired = True
        self._task.cancel()


class Patrol:
    """What is under way in one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._watched: set[Watched] = set()
        self._timer: asyncio.TimerHandle | None = None

    def until(self, moment: float) -> Watched:
        """A context whose work is ended when the clock shows that moment, or a little later."""
        return Watched(self, moment)

    def add(self, watched: Watched) -> None:
        """Begin to look after it."""
        self._watched.add(watched)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(_INTERVAL, self.look)

    def remove(self, watched: Watched) -> None:
        """It is over."""
        self._watched.discard(watched)

    def look(self) -> None:
        """End what is late; look again in a moment, as long as there is work."""
        now = self._clock()
        for watched in [one for one in self._watched if one.until <= now]:
            self._watched.discard(watched)
            watched.expire()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(_INTERVAL, self.look) if self._watched else None

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
