"""Schedule of live queries: a rate of executions, with users in turn (no starvation).

Runs that are due wait in a queue per user; users take turns. Beyond the rate, runs wait, and
changes that come meanwhile are merged into them: the interval between answers grows.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

from docgraph.observe import emit
from docgraph.observe.events import UnattendedFailed
from docgraph.runtime import cancel_until_over

_AT_ONCE: Final = 16  # runs in progress
_BURST: Final = 0.25  # seconds whose executions may be run at one moment
SHARED_COST: Final = 0.2  # of a run that shares the execution of another: it is only authorized


class DueRun(Protocol):
    """A live query that is due."""

    user: str

    async def run(self) -> float:
        """Run the live query; return the cost, 1 for an execution."""


class RunSchedule:
    """The due runs of this process; `rate` is the number of executions per second."""

    def __init__(self, rate: float, *, clock: Callable[[], float] = monotonic) -> None:
        self._rate = rate
        self._burst = max(1.0, rate * _BURST)
        self._clock = clock
        self._tokens = self._burst
        self._filled_at = clock()
        self._queues: OrderedDict[str, deque[DueRun]] = OrderedDict()
        self._running: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, run: DueRun) -> None:
        """Enqueue a due run for the next turn of its user."""
        self._queues.setdefault(run.user, deque()).append(run)
        self.start_due()

    def remove(self, run: DueRun) -> None:
        queue = self._queues.get(run.user)
        if queue is not None and run in queue:
            queue.remove(run)
            if not queue:
                del self._queues[run.user]

    @property
    def waiting(self) -> int:
        return sum(map(len, self._queues.values()))

    def start_due(self) -> None:
        """Start as many runs as the rate allows."""
        now = self._clock()
        self._tokens = min(self._burst, self._tokens + (now - self._filled_at) * self._rate)
        self._filled_at = now
        while self._queues and self._tokens >= 1 and len(self._running) < _AT_ONCE:
            self._tokens -= 1
            task = asyncio.create_task(self._carry_out(self._pop()), name="live query")
            self._running.add(task)
            task.add_done_callback(self._end)
        if self._queues and self._tokens < 1 and self._timer is None:
            pause = (1 - self._tokens) / self._rate
            self._timer = asyncio.get_running_loop().call_later(pause, self._continue)

    async def close(self) -> None:
        """Cancel everything."""
        self._queues.clear()
        if self._timer is not None:
            self._timer.cancel()
        await cancel_until_over(self._running)

    def _pop(self) -> DueRun:
        """Return the next run of the user whose turn it is; another user is next."""
        user, queue = self._queues.popitem(last=False)
        run = queue.popleft()
        if queue:
            self._queues[user] = queue
        return run

    async def _carry_out(self, run: DueRun) -> None:
        try:
            self._tokens += 1 - await run.run()
        except Exception as error:  # one query must not stop the others
            emit(UnattendedFailed("a run of a live query", error))

    def _continue(self) -> None:
        self._timer = None
        self.start_due()

    def _end(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self.start_due()
