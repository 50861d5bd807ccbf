"""Background work for the life of the server: watchers, polling, revalidation.

A task that raises is told (`BackgroundFailed`) and started again, after a pause that grows with
each failure in a row and is never the same for two workers.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from types import TracebackType

from docgraph.observe import emit
from docgraph.observe.events import BackgroundFailed, LoopLagged

__all__ = ["Tasks", "watch_loop"]

FIRST_PAUSE = 0.5
LONGEST_PAUSE = 30.0


class Tasks:
    """Runs named coroutines until `close`; also an asynchronous context manager."""

    def __init__(
        self, *, first_pause: float = FIRST_PAUSE, longest_pause: float = LONGEST_PAUSE
    ) -> None:
        self._first_pause = first_pause
        self._longest_pause = longest_pause
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work()`, and again whenever it raises; it is over when it returns."""
        running = self._tasks.get(name)
        if running is not None and not running.done():
            raise ValueError(f"the background task {name!r} is running already")
        self._tasks[name] = asyncio.create_task(self._supervise(name, work), name=name)

    def is_running(self, name: str) -> bool:
        """Whether that task was started and is not over; a pause between two attempts counts."""
        task = self._tasks.get(name)
        return task is not None and not task.done()

    async def stop(self, name: str) -> None:
        """Cancel one task and wait until it is over."""
        task = self._tasks.pop(name, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])

    async def close(self, grace: float = 5.0) -> None:
        """Cancel all tasks; one that does not listen is left behind after `grace` seconds."""
        tasks = list(self._tasks.values())
        self._tasks.clear()
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=grace)

    async def __aenter__(self) -> Tasks:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def _supervise(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        failures = 0
        while True:
            started = time.monotonic()
            try:
                await work()
                return
            except (Exception, asyncio.CancelledError) as error:
                if _is_asked_to_stop(error):
                    raise
                if time.monotonic() - started > self._longest_pause:
                    failures = 0  # it worked for a good while: a new trouble, not the old one
                failures += 1
                pause = self._find_pause(failures)
                emit(BackgroundFailed(name, error, failures, round(pause, 3)))
            await asyncio.sleep(pause)

    def _find_pause(self, failures: int) -> float:
        longest = min(self._longest_pause, self._first_pause * 2.0 ** min(failures - 1, 16))
        return random.uniform(longest / 2, longest)  # noqa: S311 - spreads load, guards nothing


def _is_asked_to_stop(error: BaseException) -> bool:
    # A cancellation from inside the work itself must not end the task unnoticed.
    task = asyncio.current_task()
    return isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling() > 0


async def watch_loop(threshold: float = 0.25, interval: float = 0.5) -> None:
    """Notice when something holds the event loop longer than `threshold` seconds."""
    loop = asyncio.get_running_loop()
    while True:
        due = loop.time() + interval
        await asyncio.sleep(interval)
        late = loop.time() - due
        if late > threshold:
            emit(LoopLagged(round(late, 3)))
