"""Work off the event loop: lanes, bounds, cancellation, an end without hanging."""

from __future__ import annotations

import asyncio
import contextvars
import math
import os
import threading
import time
from collections.abc import AsyncIterator, Callable
from weakref import ref

import pytest

from docgraph.auth.passwords import open_lane
from docgraph.exchange.errors import Overloaded
from docgraph.runtime import Blocking, Lane, run_blocking
from docgraph.runtime.blocking import ThreadPool, count_threads

pytestmark = pytest.mark.anyio


class Gate:
    """A function that blocks its thread until it is opened."""

    def __init__(self) -> None:
        self._open = threading.Event()
        self.calls = 0

    def pass_through(self) -> str:
        self.calls += 1
        assert self._open.wait(30)
        return threading.current_thread().name

    def open(self) -> None:
        self._open.set()


@pytest.fixture
async def blocking() -> AsyncIterator[Blocking]:
    blocking = Blocking(parallelism=2, max_pool_size=8)
    yield blocking
    await blocking.close(grace=1)


async def _until(lane: Lane, *, running: int, waiting: int) -> None:
    await _until_true(lambda: (lane.inside, lane.waiting) == (running, waiting))


async def _until_true(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not condition():  # noqa: ASYNC110 - it comes true in another thread
            await asyncio.sleep(0.001)


async def test_the_function_runs_in_another_thread(blocking: Blocking) -> None:
    name = await run_blocking(blocking.lane("x"), lambda: threading.current_thread().name)

    assert name.startswith("docgraph-blocking")


async def test_arguments_and_results_pass(blocking: Blocking) -> None:
    assert await run_blocking(blocking.lane("x"), divmod, 7, 2) == (3, 1)
    assert await run_blocking(blocking.lane("x"), int, "ff", base=16) == 255


async def test_an_error_is_raised_where_it_is_awaited(blocking: Blocking) -> None:
    with pytest.raises(ZeroDivisionError):
        await run_blocking(blocking.lane("x"), divmod, 1, 0)


async def test_stop_iteration_does_not_hang_the_caller(blocking: Blocking) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await run_blocking(blocking.lane("x"), next, iter(()))


async def test_context_variables_are_carried_over(blocking: Blocking) -> None:
    variable = contextvars.ContextVar("variable", default="unset")
    variable.set("set by the caller")

    assert await run_blocking(blocking.lane("x"), variable.get) == "set by the caller"


async def test_a_full_lane_refuses_at_once_and_others_go_on(blocking: Blocking) -> None:
    logins, plugins = blocking.lane("logins", concurrency=1, queue=1), blocking.lane("plugins")
    gate = Gate()
    accepted = [asyncio.create_task(run_blocking(logins, gate.pass_through)) for _ in range(2)]
    await _until(logins, running=1, waiting=1)

    with pytest.raises(Overloaded, match="logins"):
        await run_blocking(logins, gate.pass_through)
    assert await run_blocking(plugins, len, "abc") == 3

    gate.open()
    await asyncio.gather(*accepted)
    assert gate.calls == 2


async def test_a_lane_runs_no_more_at_once_than_it_may(blocking: Blocking) -> None:
    lane = blocking.lane("x", concurrency=2)
    lock, pair = threading.Lock(), threading.Barrier(2)
    running, most = 0, 0

    def work() -> None:
        nonlocal running, most
        with lock:
            running += 1
            most = max(most, running)
        pair.wait(30)  # nobody leaves before there are two
        with lock:
            running -= 1

    await asyncio.gather(*(run_blocking(lane, work) for _ in range(20)))

    assert most == 2
    assert (lane.inside, lane.waiting) == (0, 0)


async def test_cancelling_in_the_queue_gives_the_place_to_the_next(blocking: Blocking) -> None:
    lane = blocking.lane("x", concurrency=1, queue=2)
    gate = Gate()
    first, second, third = [
        asyncio.create_task(run_blocking(lane, gate.pass_through)) for _ in range(3)
    ]
    await _until(lane, running=1, waiting=2)

    second.cancel()
    await asyncio.wait([second])
    assert lane.waiting == 1
    gate.open()
    await asyncio.gather(first, third)

    assert second.cancelled()
    assert gate.calls == 2


async def test_a_function_that_has_begun_keeps_its_place_to_its_end(blocking: Blocking) -> None:
    lane = blocking.lane("x", concurrency=1, queue=1)
    gate = Gate()
    first = asyncio.create_task(run_blocking(lane, gate.pass_through))
    await _until_true(lambda: gate.calls == 1)

    first.cancel()
    await asyncio.wait([first])
    second = asyncio.create_task(run_blocking(lane, len, "abc"))
    await _until(lane, running=1, waiting=1)
    gate.open()

    assert await second == 3


async def test_a_function_that_nobody_waits_for_does_not_begin() -> None:
    blocking = Blocking(max_pool_size=1)
    gate, never = Gate(), Gate()
    never.open()
    first = asyncio.create_task(run_blocking(blocking.lane("a"), gate.pass_through))
    await _until_true(lambda: gate.calls == 1)
    second = asyncio.create_task(run_blocking(blocking.lane("b"), never.pass_through))
    await _until(blocking.lane("b"), running=1, waiting=0)

    second.cancel()
    await asyncio.wait([second])
    gate.open()
    await first
    await blocking.close()

    assert never.calls == 0


async def test_a_place_given_in_the_moment_of_cancelling_is_not_lost(blocking: Blocking) -> None:
    lane = blocking.lane("x", concurrency=1, queue=1)
    await lane.enter()
    waiter = asyncio.create_task(lane.enter())
    await _until(lane, running=1, waiting=1)

    lane.leave()
    waiter.cancel()
    await asyncio.wait([waiter])

    assert (lane.inside, lane.waiting) == (0, 0)


@pytest.mark.parametrize("make_lane", [Blocking.lane, Blocking.blocking_lane])
async def test_closing_does_not_wait_for_ever(make_lane: Callable[[Blocking, str], Lane]) -> None:
    blocking = Blocking(parallelism=1)
    lane, gate = make_lane(blocking, "x"), Gate()
    hanging = asyncio.create_task(run_blocking(lane, gate.pass_through))
    await _until(lane, running=1, waiting=0)

    await blocking.close(grace=0.05)

    assert not hanging.done()
    gate.open()
    await hanging


async def test_closing_waits_for_what_runs_and_takes_nothing_new() -> None:
    blocking = Blocking(parallelism=1)
    lane = blocking.lane("x")
    gate = Gate()
    running = asyncio.create_task(run_blocking(lane, gate.pass_through))
    await _until(lane, running=1, waiting=0)
    closing = asyncio.create_task(blocking.close(grace=30))
    await asyncio.sleep(0)

    gate.open()
    await closing

    assert await running
    with pytest.raises(Overloaded, match="stopping"):
        await run_blocking(lane, len, "abc")


async def test_threads_are_reused_and_bounded() -> None:
    blocking = Blocking(max_pool_size=3)
    lanes = [blocking.lane(str(number), concurrency=3) for number in range(3)]

    def work() -> str:
        time.sleep(0.001)
        return threading.current_thread().name

    names = await asyncio.gather(*(run_blocking(lane, work) for lane in lanes for _ in range(10)))

    assert len(set(names)) <= 3
    await blocking.close()


async def test_an_idle_thread_keeps_nothing_of_its_last_work_alive(blocking: Blocking) -> None:
    class Result:
        pass

    result = ref(await run_blocking(blocking.lane("work"), Result))

    await _until_true(lambda: result() is None)


async def test_the_same_name_is_the_same_lane(blocking: Blocking) -> None:
    assert blocking.lane("x") is blocking.lane("x")
    assert blocking.lane("x").concurrency == 2


async def test_no_parallelism_means_one_and_a_half_times_the_cores() -> None:
    cores = len(os.sched_getaffinity(0))

    assert count_threads(0) == count_threads(-1) == math.ceil(1.5 * cores)
    assert count_threads(7) == 7


async def test_a_waiter_cancelled_in_the_tick_of_its_turn_does_not_keep_the_lane_busy() -> None:
    blocking = Blocking(parallelism=1)
    lane = blocking.lane("x", concurrency=1)
    await lane.enter()
    waiting = asyncio.create_task(lane.enter())
    await _until(lane, running=1, waiting=1)

    lane.leave()
    waiting.cancel()
    await asyncio.wait([waiting])

    await asyncio.wait_for(lane.drain(), 30)
    assert lane.inside == 0
    await blocking.close()


async def test_who_waits_for_longer_than_the_lane_allows_is_refused(blocking: Blocking) -> None:
    lane = blocking.lane("slow", 1, longest=0.01)
    gate = Gate()
    first = asyncio.create_task(run_blocking(lane, gate.pass_through))
    await _until(lane, running=1, waiting=0)

    with pytest.raises(Overloaded, match="slow"):
        await run_blocking(lane, int)

    gate.open()
    await first


async def test_a_blocking_lane_grows_to_the_size_of_the_pool_and_holds_up_no_other(
    blocking: Blocking,
) -> None:
    """Decision 70."""
    lane, own = blocking.blocking_lane("services"), blocking.lane("own")
    gate = Gate()
    tasks = [asyncio.create_task(run_blocking(lane, gate.pass_through)) for _ in range(9)]
    await _until(lane, running=8, waiting=1)

    names = [await run_blocking(own, lambda: threading.current_thread().name) for _ in range(2)]
    other = await run_blocking(blocking.blocking_lane("plugins"), len, "abc")
    gate.open()

    assert other == 3
    assert not any("services" in name for name in names)
    assert all("services" in name for name in await asyncio.gather(*tasks))
    assert blocking.blocking_lane("services") is lane


async def test_work_that_computes_stays_within_the_parallelism() -> None:
    blocking = Blocking(parallelism=1)

    assert blocking.lane("x").concurrency == 1
    assert open_lane(blocking).concurrency == 1
    await blocking.close()


async def test_idle_threads_end_and_new_ones_start() -> None:
    pool = ThreadPool("test", 4, idle=0.01)
    together = threading.Barrier(4)

    def meet() -> None:
        together.wait(30)

    for _ in range(2):
        for _ in range(4):
            pool.submit(meet)
        await _until_true(lambda: pool.size == 0)
    pool.close()


async def test_a_busy_pool_loses_no_job_while_threads_end() -> None:
    pool, done = ThreadPool("test", 3, idle=0.0005), threading.Semaphore(0)
    for number in range(300):
        pool.submit(done.release)
        if number % 10 == 0:
            await asyncio.sleep(0.001)

    await asyncio.to_thread(lambda: [done.acquire(timeout=30) for _ in range(300)])
    await _until_true(lambda: pool.size == 0)
    pool.close()


async def test_where_the_system_allows_no_more_threads_those_that_exist_do_the_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pool, gate = ThreadPool("test", 4), Gate()
    done: list[int] = []

    def pass_gate() -> None:
        gate.pass_through()

    pool.submit(pass_gate)
    await _until_true(lambda: gate.calls == 1)

    def fail(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", fail)
        pool.submit(lambda: done.append(1))
        with pytest.raises(Overloaded, match="no thread"):
            ThreadPool("other", 4).submit(lambda: None)
    gate.open()
    await _until_true(lambda: done == [1])
    pool.close()
    await _until_true(lambda: pool.size == 0)
