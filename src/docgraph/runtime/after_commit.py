"""Shielded tasks, follow-ups after a commit, and keyed locks for writers of one document.

After a transaction, listeners are notified of each of its writes. Their follow-up of a single write
(a raised version, revoked tokens) would repeat the same command a thousand times. Inside
`AfterCommit.enter` it is recorded, and `finish` runs it once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine, Hashable
from contextlib import asynccontextmanager
from contextvars import Context, ContextVar
from typing import Any, Final, TypeVar

from docgraph.observe import emit
from docgraph.observe.events import UnattendedFailed

DeferredWork = Callable[[Collection[str]], Awaitable[None]]


class AfterCommit:
    """Work that is deferred until after a commit, by key, with the items to process."""

    def __init__(self) -> None:
        self._noted: dict[Hashable, tuple[DeferredWork, dict[str, None]]] = {}

    def enter(self, context: Context) -> None:
        """Defer the work that is requested inside this context."""
        context.run(_present.set, self)

    def defer(self, key: Hashable, items: Collection[str], work: DeferredWork) -> None:
        """Defer work; work with the same key is merged."""
        _, noted = self._noted.setdefault(key, (work, {}))
        noted.update(dict.fromkeys(items))

    async def finish(self) -> None:
        """Run the deferred work; an error does not stop the rest, and is raised at the end."""
        first: Exception | None = None
        for work, items in self._noted.values():
            try:
                await work(tuple(items))
            except Exception as error:  # it is raised below
                first = first or error
        if first is not None:
            raise first


_present: ContextVar[AfterCommit | None] = ContextVar("gathering", default=None)


async def gather(key: Hashable, items: Collection[str], work: DeferredWork) -> None:
    """Await `work(items)`; while work is deferred, once for the items of all callers."""
    present = _present.get()
    if present is None:
        await work(items)
    else:
        present.defer(key, items, work)


class KeyedLock:
    """Locks (mutex) by key that exist as long as a caller holds them or waits for them."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Waiters] = {}

    def __len__(self) -> int:
        return len(self._lines)

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the lock of a key; waiting callers follow in order."""
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Waiters()
        line.people += 1
        try:
            async with line.lock:
                yield
        finally:
            line.people -= 1
            if line.people == 0:
                del self._lines[key]


class _Waiters:
    __slots__ = ("lock", "people")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.people = 0


T = TypeVar("T")

MAX_TASKS: Final = 1000  # at the same time; clients that reconnect must not pile up work
_CLEANUP_SECONDS: Final = 1.0  # for the cleanup of cancelled units

# The unit that the current code is a part of.
_unit: ContextVar[asyncio.Task[Any] | None] = ContextVar("unit", default=None)


class ShieldedTasks:
    """Runs tasks that a cancelled caller does not interrupt.

    A request is cancelled when its client disconnects. The follow-ups of a committed write
    (revocations, announcements to other workers) must run nevertheless, so the write and its
    follow-ups form one unit in a task of its own. Shutdown waits for these units.
    """

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
