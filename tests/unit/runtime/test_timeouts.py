"""One timer for the time of many: who is late is ended, and nobody else."""

from __future__ import annotations

import asyncio
import time
from math import inf

import pytest

from docgraph.runtime.timeouts import Timeout, TimeoutWheel
from tests.clock import Clock

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
