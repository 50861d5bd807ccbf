"""When the clients of a cursor are told: in waves, each with all events that have come meanwhile.

To write to a client costs about the same for one event and for ten. So that many clients of a busy
stream do not keep the event loop to themselves, there is a rest after a wave, in proportion to what
that wave took: with few clients there is none, and each event is told as it comes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Final

__all__ = ["Waves"]

_REST: Final = 4.0  # times what the wave took …
_LONGEST_REST: Final = 0.05  # … in seconds
_SHORTEST_REST: Final = 0.002  # a shorter one is left out: timers are not that exact


class Waves:
    """Calls `tell` when it is time to: at the end of this turn of the event loop, or of a rest."""

    def __init__(
        self, tell: Callable[[], object], *, clock: Callable[[], float] = perf_counter
    ) -> None:
        self._tell = tell
        self._clock = clock
        self._rested_at = 0.0
        self._due: asyncio.Handle | None = None

    def plan(self) -> None:
        """There is something to tell."""
        if self._due is None:
            loop = asyncio.get_running_loop()
            rest = self._rested_at - self._clock()
            self._due = loop.call_later(rest, self.tell) if rest > 0 else loop.call_soon(self.tell)

    def tell(self) -> None:
        """Tell at once, whatever is planned."""
        self.stop()
        begun = self._clock()
        self._tell()
        # After those whom that has woken: what they do is a part of it.
        asyncio.get_running_loop().call_soon(self._rest, begun)

    def _rest(self, begun: float) -> None:
        now = self._clock()
        rest = min(_REST * (now - begun), _LONGEST_REST)
        self._rested_at = now + rest if rest >= _SHORTEST_REST else now

    def stop(self) -> None:
        """Nothing is planned any more."""
        if self._due is not None:
            self._due.cancel()
            self._due = None
