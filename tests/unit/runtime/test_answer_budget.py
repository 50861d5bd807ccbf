"""Memory for large answers: acquired in portions, waited for in order, and never in a circle."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from docgraph.exchange.errors import Overloaded
from docgraph.runtime.memory import AnswerBudget

pytestmark = pytest.mark.anyio


async def _settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_request_waits_until_there_is_memory() -> None:
    budget = AnswerBudget(10)
    first, second = budget.open(), budget.open()
    await first.acquire(8, None)
    waiting = asyncio.create_task(second.acquire(8, None))
    await _settle()
    assert not waiting.done()

    first.shrink(0)

    await waiting
    assert (budget.held, second.size) == (8, 8)


async def test_an_answer_larger_than_the_budget_is_built_alone() -> None:
    budget = AnswerBudget(1)
    share = budget.open()

    await share.acquire(100, None)
    await share.acquire(100, None)

    assert share.size == 200


async def test_two_that_need_more_do_not_wait_for_each_other() -> None:
    budget = AnswerBudget(10)
    older, younger = budget.open(), budget.open()
    await older.acquire(5, None)
    await younger.acquire(5, None)
    more = asyncio.create_task(younger.acquire(5, None))
    await _settle()

    await older.acquire(5, None)  # it holds memory for longest, and never waits

    assert not more.done()
    older.shrink(0)
    await more


async def test_the_next_oldest_goes_on_when_the_oldest_is_done() -> None:
    budget = AnswerBudget(10)
    shares = [budget.open() for _ in range(3)]
    await shares[0].acquire(4, None)
    await shares[1].acquire(4, None)
    large = asyncio.create_task(shares[1].acquire(50, None))
    new = asyncio.create_task(shares[2].acquire(1, None))
    await _settle()
    assert (large.done(), new.done()) == (False, False)

    shares[0].shrink(0)

    await large
    await _settle()
    assert not new.done()
    shares[1].shrink(0)
    await new


async def test_newcomers_do_not_overtake_one_that_waits() -> None:
    budget = AnswerBudget(10)
    first = budget.open()
    await first.acquire(6, None)
    large = asyncio.create_task(budget.open().acquire(8, None))
    await _settle()
    small = asyncio.create_task(budget.open().acquire(1, None))
    await _settle()
    assert (large.done(), small.done()) == (False, False)

    first.shrink(0)

    await asyncio.gather(large, small)


async def test_who_waits_too_long_is_rejected_and_holds_nothing() -> None:
    budget = AnswerBudget(10)
    first, second = budget.open(), budget.open()
    await first.acquire(10, None)

    with pytest.raises(Overloaded) as raised:
        await second.acquire(1, 0.0)

    assert (raised.value.bound, raised.value.headers) == ("memory", (("Retry-After", "1"),))
    assert (budget.held, second.size) == (10, 0)
    first.shrink(0)
    await second.acquire(10, 0.0)


async def test_one_that_leaves_the_queue_lets_others_pass() -> None:
    budget = AnswerBudget(10)
    first = budget.open()
    await first.acquire(6, None)
    large = asyncio.create_task(budget.open().acquire(8, None))
    await _settle()
    small = asyncio.create_task(budget.open().acquire(1, None))
    await _settle()

    large.cancel()

    await small


async def test_a_memory_limit_decides_and_may_change() -> None:
    now, room = 0.0, 60

    async def measure() -> int:
        return room

    budget = AnswerBudget(100, measure, lambda: now)
    first, second = budget.open(), budget.open()
    await first.acquire(10, None)
    await second.acquire(10, None)  # a third of 60
    with pytest.raises(Overloaded):
        await budget.open().acquire(1, 0.0)

    now, room = 1.0, 90 - budget.held

    await budget.open().acquire(10, 0.0)
    with pytest.raises(Overloaded):
        await budget.open().acquire(1, 0.0)


async def test_no_limit_leaves_the_largest_budget() -> None:
    async def measure() -> None:
        return None

    budget = AnswerBudget(20, measure)
    await budget.open().acquire(10, None)
    await budget.open().acquire(10, None)

    with pytest.raises(Overloaded):
        await budget.open().acquire(1, 0.0)


async def test_requests_that_waited_do_not_all_continue_in_one_turn() -> None:
    budget, size = AnswerBudget(100 << 20), 1 << 20
    first, others = budget.open(), [budget.open() for _ in range(20)]
    await first.acquire(100 << 20, None)
    waiting = [asyncio.create_task(one.acquire(size, None)) for one in others]
    await _settle()

    first.shrink(0)

    done = [0]
    while done[-1] < len(others):
        await asyncio.sleep(0)
        done.append(sum(one.done() for one in waiting))
    assert max(after - before for before, after in pairwise(done)) == 1


async def test_a_request_that_holds_memory_now_overtakes_with_all_its_waits() -> None:
    """Two reads of a request wait, and another request between them."""
    budget = AnswerBudget(10)
    first, second, other = budget.open(), budget.open(), budget.open()
    await first.acquire(8, None)
    shares = (second, other, second)
    waiting = [asyncio.create_task(one.acquire(8, None)) for one in shares]
    await _settle()

    first.shrink(0)

    async with asyncio.timeout(60):
        await asyncio.gather(waiting[0], waiting[2])
    assert not waiting[1].done()
    second.shrink(0)
    await waiting[1]
