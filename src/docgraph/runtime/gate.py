"""How many are worked on at a time, how many wait, and who is turned away at once."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Final

from docgraph.exchange.errors import Overloaded

__all__ = ["Gate"]

_WEIGHT: Final = 0.2  # of the newest turn in the pace of the queue


class Gate:
    """`capacity` inside, `queue` in front, first come first served; one more hears `refusal`.

    So does who has waited for `longest` seconds, where there is such a bound. One that `foresees`
    tells at once whoever would wait for more than half of it at the pace of the queue. As many as
    fit inside may wait in any case, so that the pace is seen to change.
    """

    __slots__ = (
        "_capacity",
        "_clock",
        "_emptied",
        "_foresees",
        "_has_turned",
        "_longest",
        "_pace",
        "_queue",
        "_refusal",
        "_since",
        "_waiting",
        "inside",
    )

    def __init__(
        self,
        capacity: int,
        queue: int,
        refusal: str,
        longest: float | None = None,
        *,
        foresees: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._longest = longest
        self._clock = clock
        self._foresees = foresees
        self._pace = 0.0  # seconds between two turns; 0 before the second one
        self._since = 0.0  # the last turn, or the beginning of the queue
        self._has_turned = False  # since the queue is there
        self._capacity = capacity
        self._queue = queue
        self._refusal = refusal
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._emptied: asyncio.Event | None = None  # made by the first that waits for it
        self.inside = 0

    @property
    def waiting(self) -> int:
        """How many stand in the queue."""
        return len(self._waiting)

    @property
    def room(self) -> int:
        """How many more would be let in, now or when it is their turn."""
        return max(0, self._capacity - self.inside) + max(0, self._queue - len(self._waiting))

    def try_enter(self) -> bool:
        """Enter without waiting, when there is room and no other waits."""
        if self.inside < self._capacity:
            self.inside += 1
            return True
        return False

    async def enter(self) -> None:
        """Wait for room; a full queue is refused at once, so that the caller can go elsewhere."""
        if self.try_enter():
            return
        if len(self._waiting) >= self._queue or self._is_hopeless():
            raise Overloaded(self._refusal)
        turn = asyncio.get_running_loop().create_future()
        if not self._waiting:
            self._since, self._has_turned = self._clock(), False
        self._waiting.append(turn)
        try:
            await asyncio.wait((turn,), timeout=self._longest)
        except asyncio.CancelledError:
            if turn.done():  # it was our turn, in the same instant: hand it on
                self.leave()
            else:
                self._waiting.remove(turn)
            raise
        if not turn.done():
            self._waiting.remove(turn)
            raise Overloaded(self._refusal)

    def resize(self, capacity: int) -> None:
        """Let so many in from now on; those who wait come first, and nobody inside is sent away."""
        self._capacity = capacity
        while self._waiting and self.inside < capacity:
            self.inside += 1
            self.leave()

    def leave(self) -> None:
        """Go, and let the next one in."""
        while self._waiting and self.inside <= self._capacity:
            turn = self._waiting.popleft()
            if not turn.done():
                self._note_turn()
                turn.set_result(None)
                return
        self.inside -= 1
        if self.inside == 0 and self._emptied is not None:
            self._emptied.set()

    def _is_hopeless(self) -> bool:
        """Whether the turn of one more would come too late."""
        if not self._foresees or self._longest is None or len(self._waiting) < self._capacity:
            return False
        pace = max(self._pace, self._clock() - self._since)
        return (len(self._waiting) + 1) * pace > self._longest / 2

    def _note_turn(self) -> None:
        now = self._clock()
        took = now - self._since
        if self._has_turned or took > self._pace:  # the first one of a queue may come early
            self._pace += (took - self._pace) * (_WEIGHT if self._pace else 1.0)
        self._since, self._has_turned = now, True

    async def drain(self) -> None:
        """Wait until nobody is inside."""
        while self.inside:
            if self._emptied is None:
                self._emptied = asyncio.Event()
            self._emptied.clear()
            await self._emptied.wait()
