"""How many are worked on at a time, how many wait, and who is turned away at once."""

from __future__ import annotations

import asyncio
from collections import deque

from docgraph.exchange.errors import Overloaded

__all__ = ["Gate"]


class Gate:
    """`capacity` inside, `queue` in front, first come first served; one more hears `refusal`.

    So does who has waited for `longest` seconds, where there is such a bound.
    """

    __slots__ = ("_capacity", "_emptied", "_longest", "_queue", "_refusal", "_waiting", "inside")

    def __init__(
        self, capacity: int, queue: int, refusal: str, longest: float | None = None
    ) -> None:
        self._longest = longest
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
        if len(self._waiting) >= self._queue:
            raise Overloaded(self._refusal)
        turn = asyncio.get_running_loop().create_future()
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

    def leave(self) -> None:
        """Go, and let the next one in."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self.inside -= 1
        if self.inside == 0 and self._emptied is not None:
            self._emptied.set()

    async def drain(self) -> None:
        """Wait until nobody is inside."""
        while self.inside:
            if self._emptied is None:
                self._emptied = asyncio.Event()
            self._emptied.clear()
            await self._emptied.wait()
