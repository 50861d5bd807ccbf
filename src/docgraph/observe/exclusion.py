"""Requests that come all the time and say little: a probe's `/ping` has a line now and then."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from docgraph.exchange.wildcards import Wildcard

__all__ = ["Exclusion"]


class Exclusion:
    """Patterns of paths; of the requests that match one, the first in each interval has its line.

    `*` stands for any text, slashes too. Without an interval (0 or less) only the very first has.
    """

    def __init__(
        self,
        patterns: Sequence[str],
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._seconds = seconds if seconds > 0 else float("inf")
        self._clock = clock
        self._patterns = [Wildcard(pattern) for pattern in patterns]
        self._quiet_until = [0.0] * len(patterns)

    def covers(self, path: str) -> bool:
        """Whether this request goes without a line; asking counts as having seen it."""
        for place, pattern in enumerate(self._patterns):
            if pattern.matches(path):
                return self._is_quiet(place)
        return False

    def _is_quiet(self, place: int) -> bool:
        now = self._clock()
        if now < self._quiet_until[place]:
            return True
        self._quiet_until[place] = now + self._seconds
        return False
