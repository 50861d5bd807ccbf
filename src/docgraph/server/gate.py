"""How many requests are worked on at a time, how many wait, and who is turned away at once."""

from __future__ import annotations

import asyncio
from collections import deque

from docgraph.exchange.errors import Overloaded

__all__ = ["Gate"]


class Gate:
    """A bounded number inside, a bounded queue in front, first come first served."""

    __slots__ = ("_capacity", "_inside", "_queue", "_waiting")

    def __init__(self, capacity: int, queue: int) -> None:
        self._capacity = capacity
        self._queue = queue
        self._inside = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    def try_enter(self) -> bool:
        """Enter without waiting, when there is room and nobody stands in front."""
        if self._inside < self._capacity:
            self._inside += 1
            return True
        return False

    async def enter(self) -> None:
        """Wait for room; a full queue is refused at once, so that the caller can go elsewhere."""
        if len(self._waiting) >= self._queue:
            raise Overloaded("too many requests at a time")
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it was our turn, in the same instant: hand it on
                self.leave()
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def leave(self) -> None:
        """Go, and let the next one in."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._inside -= 1
