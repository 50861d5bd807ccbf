"""One timer for the time of many: who is late is ended, and nobody else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from math import inf
from typing import Any, TypeVar

import pytest

from docgraph.runtime.timeouts import Timeout, TimeoutWheel, limit_waiting
from tests.clock import Clock

T = TypeVar("T")

pytestmark = pytest.mark.anyio


async def work(watched: Timeout) -> str:
    try:
        with watched:
            await asyncio.Event().wait()
    except TimeoutError:
        return "ended"
    return "done"


async def test_who_is_late_is_ended_and_nobody_else() -> None:
    clock = Clock(0.0)
    wheel = TimeoutWheel(clock)
    late, early = (asyncio.create_task(work(wheel.until(moment))) for moment in (1.0, 2.0))
    await asyncio.sleep(0)

    clock.now = 1.5
    wheel.expire()

    assert await late == "ended"
    assert late.cancelling() == 0
    assert not early.done()
    clock.now = 2.0
    wheel.expire()
    assert await early == "ended"
    wheel.close()


async def test_a_client_that_leaves_in_the_same_moment_is_not_taken_for_late() -> None:
    wheel = TimeoutWheel(Clock(0.0))
    task = asyncio.create_task(work(wheel.until(0.0)))
    await asyncio.sleep(0)

    task.cancel()
    wheel.expire()

    with pytest.raises(asyncio.CancelledError):
        await task
    wheel.close()


async def test_errors_and_results_of_the_work_are_its_own() -> None:
    wheel = TimeoutWheel(Clock(0.0))

    with pytest.raises(ValueError, match="mine"), wheel.until(1.0):
        raise ValueError("mine")
    with wheel.until(1.0) as watched:
        pass

    assert not watched.expired
    wheel.expire()
    assert wheel._timer is None


async def test_one_timer_is_set_for_the_first_end_and_stays_for_the_later_ones() -> None:
    wheel = TimeoutWheel(Clock(0.0))

    with wheel.until(inf):
        none = wheel._timer
    assert none is None
    with wheel.until(5.0):
        first = wheel._timer
        with wheel.until(6.0):
            assert wheel._timer is first
        with wheel.until(4.0):
            assert wheel._timer is not first

    assert wheel._timer is not None
    wheel.close()
    assert wheel._timer is None


async def test_the_timer_ends_what_is_late_by_itself() -> None:
    wheel = TimeoutWheel()

    task = asyncio.create_task(work(wheel.until(time.monotonic() + 0.01)))

    assert await asyncio.wait_for(task, 30) == "ended"
    assert wheel._timer is None


def refuse_timeout() -> Timeout:
    raise AssertionError("a timeout for work that does not wait")


async def test_work_that_does_not_wait_gets_no_timeout() -> None:
    async def answer() -> str:
        return "done"

    async def fail() -> None:
        raise ValueError("mine")

    assert await limit_waiting(answer(), refuse_timeout) == "done"
    with pytest.raises(ValueError, match="mine"):
        await limit_waiting(fail(), refuse_timeout)


async def limit(work: Coroutine[Any, Any, T], wheel: TimeoutWheel, at: float) -> T:
    """As a pipeline awaits it: a task takes no generator from Python 3.12 on."""
    return await limit_waiting(work, lambda: wheel.until(at))


async def test_work_that_waits_ends_in_time_or_is_late() -> None:
    clock = Clock(0.0)
    wheel = TimeoutWheel(clock)
    turn: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    ended = []

    async def wait(for_what: asyncio.Future[str]) -> str:
        try:
            await asyncio.sleep(0)
            return await for_what
        finally:
            ended.append(for_what)

    late, early = (
        asyncio.create_task(limit(wait(one), wheel, 1.0))
        for one in (asyncio.get_running_loop().create_future(), turn)
    )
    await asyncio.sleep(0)
    turn.set_result("mine")
    assert await early == "mine"

    clock.now = 1.0
    wheel.expire()

    with pytest.raises(TimeoutError):
        await late
    assert len(ended) == 2
    assert late.cancelling() == 0
    wheel.close()


async def test_work_hears_that_its_caller_has_left() -> None:
    wheel, heard = TimeoutWheel(Clock(0.0)), asyncio.Event()

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            heard.set()
            raise

    task = asyncio.create_task(limit(wait(), wheel, 9.0))
    await asyncio.sleep(0)
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task
    assert heard.is_set()
    wheel.close()
