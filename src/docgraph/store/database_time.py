"""Database clock: the time of the database, shared by all instances.

It is read periodically and advances by the local monotonic clock in between. So reading it costs
nothing, and changes of this machine's time of day have no effect. Until the first read it is the
time of day of the start.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

from docgraph.observe import emit
from docgraph.observe.events import ClocksDiffer
from docgraph.runtime.clock import elapsed

_TOLERATED: Final = 10.0  # seconds by which the time of day may differ before it is reported
_DRIFT: Final = 1e-4  # seconds by which two clocks may drift apart within a second


class DatabaseClock:
    """The database's time in seconds since the epoch."""

    def __init__(
        self,
        measure: Callable[[], float] = elapsed,
        time_of_day: Callable[[], float] = time.time,
    ) -> None:
        self._measure = measure
        self._time_of_day = time_of_day
        self._differs = False  # and that was reported
        self._offset = time_of_day() - measure()
        self._error: float | None = None  # None: never read
        self._read_at = 0.0

    def __call__(self) -> float:
        """Return the current time."""
        return self._measure() + self._offset

    @property
    def is_set(self) -> bool:
        """Whether the time of the database was ever read."""
        return self._error is not None

    def earliest(self) -> float:
        """Return the earliest possible time: for values that must not seem too young."""
        return self() - (self._find_error(self._measure()) or 0.0)

    def latest(self) -> float:
        """Return the latest possible time: for values that must not seem too old."""
        return self() + (self._find_error(self._measure()) or 0.0)

    async def set(self, read: Awaitable[datetime]) -> None:
        """Read the time of the database and adopt it."""
        asked = self._measure()
        time = await read
        self.learn(time.replace(tzinfo=UTC).timestamp(), asked, self._measure())

    def learn(self, time: float, asked: float, answered: float) -> None:
        """Adopt the time that the database returned between two moments of the monotonic clock.

        The result of a faster response is retained, unless the two contradict each other.
        """
        error = (answered - asked) / 2
        offset = time - (asked + answered) / 2
        known = self._find_error(answered)
        if known is None or error <= known or abs(offset - self._offset) > error + known:
            self._offset, self._error, self._read_at = offset, error, answered
        self._compare()

    def _compare(self) -> None:
        """Report a wrong time of day once, and again if it was right in the meantime."""
        ahead = self._time_of_day() - self()
        sure = abs(ahead) - (self._error or 0.0)
        if sure > _TOLERATED and not self._differs:
            emit(ClocksDiffer(round(ahead, 1)))
        self._differs = sure > _TOLERATED

    def _find_error(self, now: float) -> float | None:
        """Return by how much the clock may be wrong: the error grows since the last read."""
        return None if self._error is None else self._error + (now - self._read_at) * _DRIFT
