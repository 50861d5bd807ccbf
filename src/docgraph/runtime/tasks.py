"""Background tasks for the lifetime of the server: watchers, polling, revalidation.

A task that raises is reported (`BackgroundFailed`) and started again after a pause. The pause grows
with each consecutive failure and differs between workers. A failure caused by an outage that is
reported elsewhere is not reported; the task starts again when that outage may be over. A task that
is being stopped is not started again, whatever it raises.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Protocol, TypeVar

from docgraph.observe import emit
from docgraph.observe.events import BackgroundFailed, BackgroundLeft, LoopLagged
from docgraph.runtime.backoff import GrowingPauses

T = TypeVar("T")

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0
GRACE = 5.0
_CANCEL_AGAIN = 0.1  # seconds; doubled each time, so that a slow cleanup can finish


async def cancel_until_over(
    tasks: Iterable[asyncio.Task[Any]], grace: float = GRACE
) -> set[asyncio.Task[Any]]:
    """Cancel the tasks until they end; return the ones that are alive after `grace` seconds.

    Once is not enough: a cancellation can be lost. `asyncio.wait_for` before Python 3.12 loses it
    when the awaited task ends in the same tick, and the cancelled task continues. Errors of the
    tasks are not reported.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + grace
    living, pause = set(tasks), _CANCEL_AGAIN
    while living:
        for task in living:
            task.cancel()
        left = end - loop.time()
        over, living = await asyncio.wait(living, timeout=min(pause, max(left, 0)))
        for task in over:
            if not task.cancelled():
                task.exception()  # or asyncio would log that it was not retrieved
        if left <= pause:
            break
        pause *= 2
    return living


def is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


class Outage(Protocol):
    """A resource that many tasks need, and that reports its own outages."""

    async def explains(self, error: BaseException) -> bool:
        """Return whether a reported outage caused that failure."""

    async def over(self) -> None:
        """Wait until another attempt makes sense."""


@dataclass(eq=False)
class Tasks:
    """Runs named coroutines until `close`; also an asynchronous context manager."""

    _: KW_ONLY
    first_pause: float = FIRST_PAUSE
    longest_pause: float = LONGEST_PAUSE
    outage: Outage | None = None
    _tasks: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _is_closed: bool = False

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work()`, and again whenever it raises; the task ends when it returns.

        After `close` it does nothing: code that starts a task then is being stopped, too.
        """
        if self._is_closed:
            return
        running = self._tasks.get(name)
        if running is not None and not running.done():
            raise ValueError(f"the background task {name!r} is running already")
        self._tasks[name] = asyncio.create_task(self._supervise(name, work), name=name)

    def is_running(self, name: str) -> bool:
        """Return whether the task was started and has not ended; pauses between attempts count."""
        task = self._tasks.get(name)
        return task is not None and not task.done()

    async def stop(self, name: str) -> None:
        """Cancel one task and wait until it ends."""
        task = self._tasks.pop(name, None)
        if task is not None:
            await _stop([task], GRACE)

    async def close(self, grace: float = GRACE) -> None:
        """Cancel all tasks and accept no new ones.

        A task that does not end within `grace` seconds is abandoned and reported
        (`BackgroundLeft`).
        """
        self._is_closed = True
        tasks = list(self._tasks.values())
        self._tasks.clear()
        await _stop(tasks, grace)

    async def __aenter__(self) -> Tasks:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def _supervise(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        pauses = GrowingPauses(self.first_pause, self.longest_pause, least=0.5)
        while True:
            started = time.monotonic()
            try:
                await work()
                return
            except (Exception, asyncio.CancelledError) as error:
                # Otherwise a cancellation comes from inside the work, and must not end it
                # unnoticed.
                if is_being_cancelled():
                    if isinstance(error, Exception):
                        emit(BackgroundFailed(name, error, failures + 1))
                    raise
                if self.outage is not None and await self.outage.explains(error):
                    await self.outage.over()
                    continue
                if time.monotonic() - started > self.longest_pause:
                    failures = 0  # it worked for a good while: this failure is a new one
                    pauses.reset()
                failures += 1
                pause = next(pauses)
                emit(BackgroundFailed(name, error, failures, round(pause, 3)))
            await asyncio.sleep(pause)


async def _stop(tasks: Iterable[asyncio.Task[None]], grace: float) -> None:
    for task in await cancel_until_over(tasks, grace):
        emit(BackgroundLeft(task.get_name(), grace))


async def watch_loop(threshold: float = 0.25, interval: float = 0.5) -> None:
    """Report when something blocks the event loop longer than `threshold` seconds."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + interval
        await asyncio.sleep(interval)
        late = loop.time() - due
        if late > threshold:
            emit(LoopLagged(round(late, 3)))


async def concurrently(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run the calls concurrently; the first error cancels the others and is raised unchanged."""
    pending = list(calls)
    if len(pending) == 1:
        return [await pending[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in pending]
    except BaseExceptionGroup as errors:
        first = _first(errors)
        raise first from first.__cause__  # the cause identifies the origin of the error
    return [task.result() for task in tasks]


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
