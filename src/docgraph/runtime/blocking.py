"""Blocking and CPU-heavy work in threads, off the event loop: use `run_blocking` for all of it.

Work of one kind shares a lane, which bounds concurrent and waiting work and rejects the rest. A
flood in one lane (logins) does not use the threads of the others (bulkhead).

Lanes for CPU-heavy work run at most `core.workers-scheduler-parallelism` functions at a time. A
blocking lane is for plugin methods that wait for something. It has its own threads and grows to
`core.workers-scheduler-max-pool-size`.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Any, Final, ParamSpec, TypeVar

from docgraph.exchange.errors import Overloaded
from docgraph.runtime.admission_queue import AdmissionQueue

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
        lane.pool.submit(partial(_work, call, loop, lane, done))
    except BaseException:
        lane.leave()
        raise
    return await done


class Lane(AdmissionQueue):
    """Work of one kind: `concurrency` at a time, `queue` waiting. Created by `Blocking.lane`."""

    def __init__(
        self,
        name: str,
        concurrency: int,
        queue: int,
        pool: ThreadPool,
        longest: float | None = None,
    ) -> None:
        refusal = f"too much work of the kind {name!r} is waiting"
        super().__init__(concurrency, queue, refusal, longest, foresees=0.5)
        self.bound = "threads"
        self.concurrency = concurrency
        self.pool = pool


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
        """Return the lane of that name, which has its own threads: blocked ones delay no other."""
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
    call: Callable[[], Any], loop: asyncio.AbstractEventLoop, lane: Lane, done: asyncio.Future[Any]
) -> None:
    """Call the function, unless the caller has left, and send the result; runs in the thread."""

    def send(result: Any, error: BaseException | None) -> None:
        loop.call_soon_threadsafe(_complete, lane, done, result, error)

    with suppress(RuntimeError):  # the loop is closed, and the caller with it
        try:
            result = None if done.cancelled() else call()
        except BaseException as error:  # any error is raised again where the result is awaited
            send(None, error)
        else:
            send(result, None)


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


Job = Callable[[], None]
IDLE_SECONDS: Final = 60.0


class ThreadPool:
    """At most `limit` threads; more jobs wait their turn. Jobs must not raise.

    It never delays the end of the process. The pool of `concurrent.futures` waits at exit for
    running jobs: one plugin that hangs would keep a stopped server alive. These threads are
    daemons. They are started when needed, reused, and ended after an idle time.
    """

    def __init__(self, name: str, limit: int, idle: float = IDLE_SECONDS) -> None:
        self._names = (f"{name}-{number}" for number in count(1))
        self._limit = limit
        self._idle = idle
        self._jobs: deque[Job] = deque()
        # Not a `SimpleQueue`: its `get` with a timeout may wait forever (Python 3.11).
        self._changed = threading.Condition(threading.Lock())
        self._threads = 0
        self._unfinished = 0
        self._closed = False

    @property
    def size(self) -> int:
        return self._threads

    def submit(self, job: Job) -> None:
        """Run the job in a thread as soon as one is free."""
        with self._changed:
            if self._closed:
                raise Overloaded("the server is stopping")
            self._unfinished += 1
            self._jobs.append(job)
            if self._threads < min(self._unfinished, self._limit):
                self._start()
            else:
                self._changed.notify()

    def _start(self) -> None:
        """Start a thread; if the system allows no more, the existing ones do the work."""
        try:
            threading.Thread(target=self._run, name=next(self._names), daemon=True).start()
        except RuntimeError:
            if self._threads == 0:
                self._jobs.pop()
                self._unfinished -= 1
                raise Overloaded("no thread can be started") from None
        else:
            self._threads += 1

    def close(self) -> None:
        """Accept no more jobs; threads end after the accepted ones are done."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while (job := self._find_job()) is not None:
            try:
                job()
            finally:
                del job  # or an idle thread would keep the objects of its last job alive
                with self._changed:
                    self._unfinished -= 1

    def _find_job(self) -> Job | None:
        """Return the next job; None if this thread is no longer needed."""
        with self._changed:
            while not self._jobs:
                if self._closed or not (self._changed.wait(self._idle) or self._jobs):
                    self._threads -= 1
                    return None
            return self._jobs.popleft()
