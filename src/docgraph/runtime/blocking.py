"""Blocking and CPU-heavy work in threads, off the event loop: use `run_blocking` for all of it.

Work of one kind shares a lane, which bounds concurrent and waiting work and rejects the rest. A
flood in one lane (logins) does not use the threads of the others.

Lanes for CPU-heavy work run at most `core.workers-scheduler-parallelism` functions at a time. A
blocking lane is for plugin methods that wait for something. It has its own threads and grows to
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

from docgraph.runtime.admission_queue import AdmissionQueue
from docgraph.runtime.threads import ThreadPool

P = ParamSpec("P")
T = TypeVar("T")

QUEUE = 256
_NAME = "docgraph-blocking"


def count_threads(parallelism: int) -> int:
    """Return `core.workers-scheduler-parallelism`; 0 or less: 1.5 times the cores, rounded up."""
    return parallelism if parallelism > 0 else math.ceil(1.5 * count_cores())


def count_cores() -> int:
    """Return the number of cores that this process may use."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on Linux
        return os.cpu_count() or 1


async def run_blocking(
    lane: Lane, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Return the result of `function(*args, **kwargs)`, run in a thread of the lane.

    Raise `Overloaded` when the lane is full. The function sees the context variables of the caller.
    Cancelling removes waiting work from the queue. A function that has begun runs to its end and
    occupies its slot until then, because a thread cannot be stopped.
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
    """Work of one kind: `concurrency` at a time, `queue` waiting. Created by `Blocking.lane`."""

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
        self._gate = AdmissionQueue(concurrency, queue, refusal, longest, foresees=0.5)
        self._gate.bound = "threads"

    @property
    def waiting(self) -> int:
        """The number of callers in the queue."""
        return self._gate.waiting

    @property
    def running(self) -> int:
        """The number of functions that are running."""
        return self._gate.inside

    async def enter(self) -> None:
        """Acquire a slot after earlier callers; raise `Overloaded` if there is no room."""
        await self._gate.enter()

    def leave(self) -> None:
        """Pass the slot to the next waiting caller."""
        self._gate.leave()

    async def drain(self) -> None:
        """Wait until no work of the lane is running."""
        await self._gate.drain()


class Blocking:
    """The worker threads of a process and their lanes.

    `parallelism` is the default concurrency of a lane. `max_pool_size` bounds the threads of each
    blocking lane, and those of all other lanes together. `longest` is how many seconds work may
    wait for a thread of a blocking lane.
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
        """Return the lane of that name; the first call creates it with these bounds.

        Callers that have waited for `longest` seconds are rejected as if the queue were full.
        Callers that would wait for more than half of that are rejected immediately.
        """
        if name not in self._lanes:
            width = self.parallelism if concurrency is None else concurrency
            self._lanes[name] = Lane(name, width, queue, self._pool, longest)
        return self._lanes[name]

    def blocking_lane(self, name: str) -> Lane:
        """Return the lane of that name for blocking work: as many at a time as it may have threads.

        It has its own threads: blocked ones do not delay other lanes.
        """
        if name not in self._lanes:
            pool = ThreadPool(f"{_NAME}-{name}", self._max_pool_size)
            self._lanes[name] = Lane(name, self._max_pool_size, QUEUE, pool, self._longest)
        return self._lanes[name]

    async def close(self, grace: float = 5.0) -> None:
        """Let running functions finish, but wait at most `grace` seconds for them."""
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
    """Call the function, unless the caller has left, and post the result; runs in the thread."""
    if done.cancelled():
        post(None, None)
        return
    try:
        result = call()
    except BaseException as error:  # any error is raised again where the result is awaited
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
    """Send the result from the thread to the event loop."""
    with suppress(RuntimeError):  # the loop is closed, and the caller with it
        loop.call_soon_threadsafe(_complete, lane, done, result, error)


def _complete(
    lane: Lane, done: asyncio.Future[Any], result: Any, error: BaseException | None
) -> None:
    """Release the slot and notify the caller if it still waits; runs in the event loop."""
    lane.leave()
    if done.done():
        return
    if error is None:
        done.set_result(result)
    elif isinstance(error, StopIteration):
        done.set_exception(RuntimeError("the function raised StopIteration"))
    else:
        done.set_exception(error)
