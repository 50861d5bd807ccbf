"""Fair share of the event loop: spread large steps over its turns.

A step that takes milliseconds is no problem, but a hundred of them in one turn of the event loop
delay everything else, such as health checks. So each turn has room for some size, in bytes or in
requests, and steps that exceed it wait for a later turn, in order. A step larger than the room of a
turn uses up that of the next turns, too: a health check needs several turns, and would else wait
for a large step in each of them.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import TypeVar

T = TypeVar("T")


class LoopShare:
    """Admits steps of `size` together per turn, and at least one step."""

    __slots__ = ("_is_scheduled", "_left", "_size", "_waiting", "waiting_size")

    def __init__(self, size: int) -> None:
        self._size = self._left = size
        self._waiting: deque[tuple[asyncio.Future[None] | Callable[[], None], int]] = deque()
        self._is_scheduled = False
        self.waiting_size = 0  # of the steps that wait

    def try_enter(self, size: int) -> bool:
        """Enter without waiting, if this turn has room and no other step waits."""
        if self._waiting or self._left <= 0:
            return False
        self._left -= size
        if not self._is_scheduled:
            self._schedule(asyncio.get_running_loop())
        return True

    async def enter(self, size: int) -> None:
        """Wait for a turn with room for a step of this size."""
        if self.try_enter(size):
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, size))
        self.waiting_size += size
        await turn

    def call(self, step: Callable[[], None]) -> None:
        """Call a step of size 1 in this turn if there is room, else in a later one."""
        if self.try_enter(1):
            step()
            return
        self._waiting.append((step, 1))
        self.waiting_size += 1

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_scheduled = True
        loop.call_soon(self._begin_turn, loop)

    def _begin_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_scheduled = False
        if not self._waiting:
            self._left = self._size
            return
        self._left = min(self._size, self._left + self._size)
        while self._waiting and self._left > 0:
            turn, size = self._waiting.popleft()
            self.waiting_size -= size
            if not isinstance(turn, asyncio.Future):
                loop.call_soon(turn)
            elif turn.done():  # cancelled
                continue
            else:
                turn.set_result(None)
            self._left -= size
        self._schedule(loop)  # behind the steps that were just admitted


async def in_portions(items: Iterable[T], size: int = 100) -> AsyncIterator[T]:
    """Yield the items, and let others use the event loop after every `size` of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % size == 0:
            await asyncio.sleep(0)
