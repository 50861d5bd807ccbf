"""Fan-out of change events in waves; each wave delivers all events since the previous one.

Writing ten events to a client costs about as much as writing one. A rest follows each wave, in
proportion to its duration, so that many clients of a busy stream do not block the event loop. With
few clients there is no rest, and each event is delivered as it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Final

_REST: Final = 4.0  # times the duration of the wave …
_LONGEST_REST: Final = 0.05  # … in seconds
_SHORTEST_REST: Final = 0.002  # a shorter rest is skipped: timers are not that exact


class Fanout:
    """Calls `tell` at the end of this turn of the event loop, or at the end of a rest."""

    def __init__(
        self, tell: Callable[[], object], *, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._tell = tell
        self._clock = clock
        self._rested_at = 0.0
        self._due: asyncio.Handle | None = None

    def plan(self) -> None:
        """Schedule a wave for new events."""
        if self._due is None:
            loop = asyncio.get_running_loop()
            rest = self._rested_at - self._clock()
            self._due = (
                loop.call_later(rest, self.flush) if rest > 0 else loop.call_soon(self.flush)
            )

    def flush(self) -> None:
        """Start a wave immediately, even during a rest."""
        self.stop()
        begun = self._clock()
        self._tell()
        # Runs after the clients that the wave has woken: their work counts as a part of it.
        asyncio.get_running_loop().call_soon(self._rest, begun)

    def _rest(self, begun: float) -> None:
        now = self._clock()
        rest = min(_REST * (now - begun), _LONGEST_REST)
        self._rested_at = now + rest if rest >= _SHORTEST_REST else now

    def stop(self) -> None:
        """Cancel the scheduled wave."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
