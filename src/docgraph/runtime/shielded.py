"""Shielded tasks: work that finishes even if the request that started it is cancelled.

A request is cancelled when its client disconnects. The follow-ups of a committed write
(revocations, announcements to other workers) must run nevertheless, so the write and its follow-ups
form one unit in a task of its own. Shutdown waits for these units.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from docgraph.observe import emit
from docgraph.observe.events import UnattendedFailed

T = TypeVar("T")

MAX_TASKS: Final = 1000  # at the same time; clients that reconnect must not pile up work
_CLEANUP_SECONDS: Final = 1.0  # for the cleanup of cancelled units

# The unit that the current code is a part of.
_unit: ContextVar[asyncio.Task[Any] | None] = ContextVar("unit", default=None)


class ShieldedTasks:
    """The units of a process that have not ended yet."""

    def __init__(self, most: int = MAX_TASKS) -> None:
        self._running: set[asyncio.Task[Any]] = set()
        self._room = asyncio.Semaphore(most)

    def __len__(self) -> int:
        return len(self._running)

    async def run(self, name: str, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await `work()`, which continues when the caller is cancelled.

        Context variables are visible inside; values that are set inside stay there. The waiting
        caller gets the error; when no caller waits any more, it is emitted. A unit within a unit is
        a part of it.
        """
        outer = _unit.get()
        if outer is not None and not outer.done():
            return await work()
        await self._room.acquire()  # here a caller may still leave: nothing has happened yet
        task = asyncio.create_task(_enter(work), name=name)
        self._running.add(task)
        task.add_done_callback(self._end)
        try:
            await asyncio.wait((task,))
        except asyncio.CancelledError:
            task.add_done_callback(_report)
            raise
        return task.result()

    async def drain(self, grace: float) -> None:
        """Wait until all units end; cancel the ones that take longer than `grace` seconds."""
        loop = asyncio.get_running_loop()
        end = loop.time() + grace
        while self._running and (left := end - loop.time()) > 0:
            await asyncio.wait(tuple(self._running), timeout=left)
        late = tuple(self._running)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=_CLEANUP_SECONDS)

    def _end(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        self._room.release()


async def _enter(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    _unit.set(asyncio.current_task())
    return await work()


def _report(task: asyncio.Task[Any]) -> None:
    """Emit the failure of a unit that no caller waits for."""
    if task.cancelled():
        emit(UnattendedFailed(task.get_name(), TimeoutError("it was cut off by the shutdown")))
    elif (error := task.exception()) is not None:
        emit(UnattendedFailed(task.get_name(), error))
