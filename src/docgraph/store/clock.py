"""The time of the database, which all instances that share it have in common.

It is read now and then and goes on by our own clock in between, so that asking costs nothing and no
change of this machine's time of day is felt. Until it was read for the first time it is the time of
day of the start.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Final

from docgraph.observe import emit
from docgraph.observe.events import ClocksDiffer
from docgraph.runtime.clock import elapsed

__all__ = ["DatabaseClock"]

_TOLERATED: Final = 10.0  # seconds by which the time of day may differ before it is told
_DRIFT: Final = 1e-4  # seconds by which two clocks may part within a second


class DatabaseClock:
    """Seconds since the epoch as the database counts them."""

    def __init__(
        self,
        measure: Callable[[], float] = elapsed,
        time_of_day: Callable[[], float] = time.time,
    ) -> None:
        self._measure = measure
        self._time_of_day = time_of_day
        self._differs = False  # and that was told
        self._offset = time_of_day() - measure()
        self._error: float | None = None  # None: it was never read
        self._read_at = 0.0

    def __call__(self) -> float:
        """The time now."""
        return self._measure() + self._offset

    @property
    def is_set(self) -> bool:
        """Whether the database was ever asked."""
        return self._error is not None

    def earliest(self) -> float:
        """The earliest time that it may be: for what must not seem younger than it is."""
        return self() - (self._find_error(self._measure()) or 0.0)

    def latest(self) -> float:
        """The latest time that it may be: for what must not seem older than it is."""
        return self() + (self._find_error(self._measure()) or 0.0)

    async def set(self, read: Awaitable[datetime]) -> None:
        """Show the time that the database tells."""
        asked = self._measure()
        time = await read
        self.learn(time.replace(tzinfo=UTC).timestamp(), asked, self._measure())

    def learn(self, time: float, asked: float, answered: float) -> None:
        """The database said that time between these two moments of the measuring clock.

        What was learned from a quicker answer is kept, unless the two contradict each other.
        """
        error = (answered - asked) / 2
        offset = time - (asked + answered) / 2
        known = self._find_error(answered)
        if known is None or error <= known or abs(offset - self._offset) > error + known:
            self._offset, self._error, self._read_at = offset, error, answered
        self._compare()

    def _compare(self) -> None:
        """Tell it once when the time of day is another one, and again if it was right meanwhile."""
        ahead = self._time_of_day() - self()
        sure = abs(ahead) - (self._error or 0.0)
        if sure > _TOLERATED and not self._differs:
            emit(ClocksDiffer(round(ahead, 1)))
        self._differs = sure > _TOLERATED

    def _find_error(self, now: float) -> float | None:
        """By how much it may be wrong: more and more, since it was read."""
        return None if self._error is None else self._error + (now - self._read_at) * _DRIFT
