"""Bounds on the time of many short pieces of work, kept by one timer.

A timer for each of them would cost more than most of them do. The one here is set for the first end
there is, and stays when that work is over in time, as nearly all is: it then looks for the next.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from math import inf
from types import TracebackType
from typing import Final

__all__ = ["Patrol", "Watched"]

_TICK: Final = 0.001  # seconds: the event loop counts in them, and may be early by a part of one


class Watched:
    """Around a piece of work in the current task: raises `late()` when it is ended for its time."""

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
            raise self.late() from error

    def late(self) -> Exception:
        """What is raised."""
        return TimeoutError()

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
        self._looks_at = inf

    def until(self, moment: float) -> Watched:
        """A context whose work is ended when the clock shows that moment."""
        return Watched(self, moment)

    def add(self, watched: Watched) -> None:
        """Begin to look after it."""
        self._watched.add(watched)
        if watched.until < self._looks_at:
            self._set_timer(watched.until)

    def remove(self, watched: Watched) -> None:
        """It is over."""
        self._watched.discard(watched)

    def look(self) -> None:
        """End what is late; look again at the next end, as long as there is work."""
        soon = self._clock() + _TICK
        for watched in [one for one in self._watched if one.until <= soon]:
            self._watched.discard(watched)
            watched.expire()
        self._set_timer(min((one.until for one in self._watched), default=inf))

    def _set_timer(self, moment: float) -> None:
        self.close()
        if moment < inf:
            delay = max(moment - self._clock(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(delay, self.look)
            self._looks_at = moment

    def close(self) -> None:
        """Look no more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._looks_at = inf
