"""Fair share of the event loop: spread large steps over its turns.

A step that takes milliseconds is no problem, but a hundred of them in one turn of the event loop
delay everything else, such as health checks. So each turn has room for a number of bytes, and steps
that exceed it wait for a later turn, in order.
"""

from __future__ import annotations

import asyncio
from collections import deque


class LoopShare:
    """Admits steps of `size` bytes per turn, and at least one step."""

    __slots__ = ("_is_scheduled", "_left", "_size", "_waiting", "waiting_size")

    def __init__(self, size: int) -> None:
        self._size = self._left = size
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()
        self._is_scheduled = False
        self.waiting_size = 0  # bytes of the steps that wait

    async def enter(self, size: int) -> None:
        """Wait for a turn with room for a step that processes so many bytes."""
        loop = asyncio.get_running_loop()
        if not self._waiting and self._left > 0:
            self._left -= size
            self._schedule(loop)
            return
        turn = loop.create_future()
        self._waiting.append((turn, size))
        self.waiting_size += size
        await turn

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._begin_turn, loop)

    def _begin_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_scheduled = False
        self._left = self._size
        while self._waiting and self._left > 0:
            turn, size = self._waiting.popleft()
            self.waiting_size -= size
            if not turn.done():  # cancelled
                turn.set_result(None)
                self._left -= size
        if self._left < self._size:
            self._schedule(loop)  # behind the steps that were just admitted
