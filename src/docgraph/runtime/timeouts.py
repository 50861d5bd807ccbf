"""Timeout wheel: one timer that expires the timeouts of many short operations.

A timer for each of them would cost more than most of them do. The timer is set for the earliest
timeout. It remains set when that operation ends in time, as nearly all do, and then moves to the
next timeout.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Generator
from math import inf
from types import coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")

_TICK: Final = 0.001  # seconds: the resolution of the event loop, which may be early by a part


class Timeout:
    """Time limit of an operation in the current task: raise `late()` when it expires."""

    __slots__ = ("_cancelling", "_task", "_wheel", "expired", "until")

    def __init__(self, wheel: TimeoutWheel, until: float) -> None:
        self._wheel = wheel
        self.until = until
        self.expired = False

    def __enter__(self) -> Timeout:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - timeouts are entered by coroutines of tasks
        self._task, self._cancelling = task, task.cancelling()
        self._wheel.add(self)
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._wheel.remove(self)
        if (
            self.expired
            and self._task.uncancel() <= self._cancelling
            and kind is asyncio.CancelledError
        ):
            raise self.late() from error

    def late(self) -> Exception:
        """Return the error to raise."""
        return TimeoutError()

    def expire(self) -> None:
        """Cancel the operation."""
        self.expired = True
        self._task.cancel()


@coroutine
def limit_waiting(
    work: Coroutine[Any, Any, T], make_timeout: Callable[[], Timeout]
) -> Generator[Any, Any, T]:
    """Return the result of work, which gets a timeout when it waits for the first time.

    Most work never waits, and nothing can interrupt it. `make_timeout` is not called then.
    """
    try:
        step = work.send(None)
        with make_timeout():
            while True:
                try:
                    value = yield step
                except BaseException as error:  # the timeout, or another cancellation
                    step = work.throw(error)
                else:
                    step = work.send(value)
    except StopIteration as end:
        result: T = end.value
        return result
    finally:
        work.close()


class TimeoutWheel:
    """The timeouts of the operations in one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._watched: set[Timeout] = set()
        self._timer: asyncio.TimerHandle | None = None
        self._looks_at = inf

    def until(self, moment: float) -> Timeout:
        """Return a context whose work is cancelled when the clock reaches that moment."""
        return Timeout(self, moment)

    def add(self, watched: Timeout) -> None:
        self._watched.add(watched)
        if watched.until < self._looks_at:
            self._set_timer(watched.until)

    def remove(self, watched: Timeout) -> None:
        """Remove a timeout whose operation has ended."""
        self._watched.discard(watched)

    def expire(self) -> None:
        """Expire what is late; set the timer for the next timeout, as long as there is one."""
        soon = self._clock() + _TICK
        for watched in [timeout for timeout in self._watched if timeout.until <= soon]:
            self._watched.discard(watched)
            watched.expire()
        self._set_timer(min((timeout.until for timeout in self._watched), default=inf))

    def _set_timer(self, moment: float) -> None:
        self.close()
        if moment < inf:
            delay = max(moment - self._clock(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(delay, self.expire)
            self._looks_at = moment

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._looks_at = inf
