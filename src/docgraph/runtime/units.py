"""Work that is done to its end, also when its caller does not wait any more.

A request is cancelled when its client goes away. What has to follow a committed write (revocations,
the news for other workers) must follow it nevertheless, so both are one unit in a task of its own.
At shutdown the units are waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from docgraph.observe import emit
from docgraph.observe.events import UnattendedFailed

__all__ = ["Units"]

T = TypeVar("T")

MOST: Final = 1000  # at once; clients that come and go must not pile up work without an end
_LAST_WORDS: Final = 1.0  # seconds that units which were cancelled have for their own clean-up

# The unit that the present code is a part of.
_unit: ContextVar[asyncio.Task[Any] | None] = ContextVar("unit", default=None)


class Units:
    """The units of a process that are not over yet."""

    def __init__(self, most: int = MOST) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._room = asyncio.Semaphore(most)

    def __len__(self) -> int:
        return len(self._running)

    async def run(self, name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await `work()`, which goes on when the caller is cancelled.

        Context variables are seen inside; what is set inside stays there. Who waits gets the
        error; when no caller waits any more, it is emitted. A unit within a unit is a part of it.
        """
        outer = _unit.get()
        if outer is not None and not outer.done():
            return await work()
        await self._room.acquire()  # here a caller may still leave, and nothing has happened
        task = asyncio.create_task(_enter(work), name=name)
        self._running.add(task)
        task.add_done_callback(self._end)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.add_done_callback(_report)
            raise
        return task.result()

    async def settle(self, grace: float) -> None:
        """Wait until all are over; those that take longer than `grace` seconds are cancelled."""
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        while self._running and (left := end - loop.time()) > 0:
            await asyncio.wait(tuple(self._running), timeout=left)
        late = tuple(self._running)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_LAST_WORDS)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self._room.release()


async def _enter(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    _unit.set(asyncio.current_task())
    return await work()


def _report(task: asyncio.Task[Any]) -> None:
    """No caller waits for the outcome: a failure is emitted."""
    if task.cancelled():
        emit(UnattendedFailed(task.get_name(), TimeoutError("it was cut off by the shutdown")))
    elif (error := task.exception()) is not None:
        emit(UnattendedFailed(task.get_name(), error))
