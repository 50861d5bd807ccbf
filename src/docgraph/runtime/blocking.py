"""Blocking and CPU-heavy work off the event loop: `run_blocking` is the one way to do it.

Work of one kind shares a lane: so many at a time, so many waiting, and one more is rejected.
A flood in one lane (logins) leaves the threads of the others alone.

Lanes for work that computes are as wide as `core.workers-scheduler-parallelism` at most. A blocking
lane, for methods of plugins that wait for something, has threads of its own and grows to
`core.workers-scheduler-max-pool-size`.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import os
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

from docgraph.runtime.gate import Gate
from docgraph.runtime.threads import ThreadPool

__all__ = ["Blocking", "Lane", "count_cores", "count_threads", "run_blocking"]

P = ParamSpec("P")
T = TypeVar("T")

QUEUE = 256
_NAME = "docgraph-blocking"


def count_threads(parallelism: int) -> int:
    """`core.workers-scheduler-parallelism`: 0 or less means 1.5 times the cores, rounded up."""
    return parallelism if parallelism > 0 else math.ceil(1.5 * count_cores())


def count_cores() -> int:
    """The cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


async def run_blocking(
    lane: Lane, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """The result of `function(*args, **kwargs)`, run in a thread of the lane.

    Raises `Overloaded` when the lane is full. The function sees the context variables of the
    caller. Cancelling gives up a place in the queue; a function that has begun runs to its end and
    keeps its place so long, as a thread cannot be stopped.
    """
    await lane.enter()
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()
    call = partial(contextvars.copy_context().run, function, *args, **kwargs)
    try:
        lane.pool.submit(partial(_work, call, done, partial(_post, loop, lane, done)))
    except BaseException:
        lane.leave()
        raise
    return await done


class Lane:
    """Work of one kind: `concurrency` at once, `queue` more waiting. Made by `Blocking.lane`."""

    def __init__(
        self,
        name: str,
        concurrency: int,
        queue: int,
        pool: ThreadPool,
        longest: float | None = None,
    ) -> None:
        self.name = name
        self.concurrency = concurrency
        self.queue = queue
        self.pool = pool
        refusal = f"too much work of the kind {name!r} is waiting"
        self._gate = Gate(concurrency, queue, refusal, longest, foresees=True)

    @property
    def waiting(self) -> int:
        """How many stand in the queue."""
        return self._gate.waiting

    @property
    def running(self) -> int:
        """How many are being worked on."""
        return self._gate.inside

    async def enter(self) -> None:
        """Take a place, after those who came before; raises `Overloaded` if there is no room."""
        await self._gate.enter()

    def leave(self) -> None:
        """Hand the place to the next who still waits."""
        self._gate.leave()

    async def drain(self) -> None:
        """Wait until nothing of the lane runs."""
        await self._gate.drain()


class Blocking:
    """The worker threads of a process, with the lanes in them.

    `parallelism` is how many a lane runs at a time unless it says otherwise; `max_pool_size` bounds
    the threads of each blocking lane, and those of all other lanes together. `longest` is how many
    seconds work waits for a thread of a blocking lane.
    """

    def __init__(
        self, parallelism: int = 0, max_pool_size: int = 256, longest: float | None = None
    ) -> None:
        self.parallelism = min(count_threads(parallelism), max_pool_size)
        self._max_pool_size = max_pool_size
        self._longest = longest
        self._pool = ThreadPool(_NAME, max_pool_size)
        self._lanes: dict[str, Lane] = {}

    def lane(
        self,
        name: str,
        concurrency: int | None = None,
        queue: int = QUEUE,
        longest: float | None = None,
    ) -> Lane:
        """The lane of that name, made with these bounds at the first call.

        Who has waited for `longest` seconds is refused as if the queue were full, and so is at once
        who would wait for more than half of that.
        """
        if name not in self._lanes:
            width = self.parallelism if concurrency is None else concurrency
            self._lanes[name] = Lane(name, width, queue, self._pool, longest)
        return self._lanes[name]

    def blocking_lane(self, name: str) -> Lane:
        """The lane of that name, for work that blocks: as many at a time as there may be threads.

        Its threads are its own: however many of them block, other lanes are not held up.
        """
        if name not in self._lanes:
            pool = ThreadPool(f"{_NAME}-{name}", self._max_pool_size)
            self._lanes[name] = Lane(name, self._max_pool_size, QUEUE, pool, self._longest)
        return self._lanes[name]

    async def close(self, grace: float = 5.0) -> None:
        """Let running functions finish, but do not wait longer than `grace` seconds for them."""
        for pool in {self._pool, *(lane.pool for lane in self._lanes.values())}:
            pool.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(grace):
                for lane in self._lanes.values():
                    await lane.drain()


def _work(
    call: Callable[[], Any],
    done: asyncio.Future[Any],
    post: Callable[[Any, BaseException | None], None],
) -> None:
    """In the thread: call, unless the caller is gone, and post the outcome."""
    if done.cancelled():
        post(None, None)
        return
    try:
        result = call()
    except BaseException as error:  # not ours to judge: it is raised again where it is awaited
        post(None, error)
    else:
        post(result, None)


def _post(
    loop: asyncio.AbstractEventLoop,
    lane: Lane,
    done: asyncio.Future[Any],
    result: Any,
    error: BaseException | None,
) -> None:
    """In the thread: bring the outcome to the loop."""
    with suppress(RuntimeError):  # the loop is closed, and with it the caller
        loop.call_soon_threadsafe(_settle, lane, done, result, error)


def _settle(
    lane: Lane, done: asyncio.Future[Any], result: Any, error: BaseException | None
) -> None:
    """In the loop: give back the place and tell the caller, if he still waits."""
    lane.leave()
    if done.done():
        return
    if error is None:
        done.set_result(result)
    elif isinstance(error, StopIteration):
        done.set_exception(RuntimeError("the function raised StopIteration"))
    else:
        done.set_exception(error)
