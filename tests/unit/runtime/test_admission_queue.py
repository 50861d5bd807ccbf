"""The gate: so many inside, so many waiting, the rest refused at once."""

from __future__ import annotations

import asyncio

import pytest

from docgraph.exchange.errors import Overloaded
from docgraph.runtime.admission_queue import AdmissionQueue

pytestmark = pytest.mark.anyio


async def _settle() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_who_finds_room_does_not_wait() -> None:
    gate = AdmissionQueue(2, 0, "full")

    assert [gate.try_enter(), gate.try_enter(), gate.try_enter()] == [True, True, False]


async def test_a_full_queue_is_refused_at_once() -> None:
    gate = AdmissionQueue(1, 0, "full")
    gate.try_enter()

    with pytest.raises(Overloaded) as raised:
        await gate.enter()

    assert raised.value.headers == (("Retry-After", "1"),)


async def test_who_has_waited_for_the_longest_time_is_refused() -> None:
    gate = AdmissionQueue(1, 1, "full", 0)
    gate.try_enter()

    with pytest.raises(Overloaded):
        await gate.enter()

    assert gate.waiting == 0
    gate.leave()
    assert gate.try_enter()


async def test_who_would_wait_too_long_at_the_pace_of_the_queue_is_refused_at_once() -> None:
    now = 0.0
    gate = AdmissionQueue(1, 100, "full", 60, foresees=0.5, clock=lambda: now)
    gate.try_enter()
    waiting = [asyncio.create_task(gate.enter()) for _ in range(7)]
    await _settle()
    for _ in range(3):  # a turn every ten seconds: of four that wait the last has 40 s to go
        now += 10
        gate.leave()

    with pytest.raises(Overloaded):
        await gate.enter()

    assert gate.waiting == 4
    for _ in range(3):
        gate.leave()
    waiting.append(asyncio.create_task(gate.enter()))  # 20 s
    await _settle()
    assert gate.waiting == 2
    for _ in range(2):
        gate.leave()
    await asyncio.wait(waiting)


async def test_a_queue_that_stands_still_is_no_place_to_wait() -> None:
    now = 0.0
    gate = AdmissionQueue(1, 100, "full", 60, foresees=0.5, clock=lambda: now)
    gate.try_enter()
    waiting = asyncio.create_task(gate.enter())
    await _settle()
    now += 20

    with pytest.raises(Overloaded):
        await gate.enter()

    gate.leave()
    await waiting


async def test_a_pause_without_a_queue_is_no_pace() -> None:
    now = 0.0
    gate = AdmissionQueue(1, 100, "full", 60, foresees=0.5, clock=lambda: now)
    gate.try_enter()
    for _ in range(2):
        waiting = asyncio.create_task(gate.enter())
        await _settle()
        gate.leave()
        await waiting
        now += 1000
    waits = [asyncio.create_task(gate.enter()) for _ in range(3)]
    await _settle()

    assert gate.waiting == 3
    for _ in range(4):
        gate.leave()
    await asyncio.wait(waits)


async def test_those_who_wait_enter_in_order() -> None:
    gate, entered = AdmissionQueue(1, 2, "full"), []
    gate.try_enter()

    async def wait(name: str) -> None:
        await gate.enter()
        entered.append(name)

    async with asyncio.TaskGroup() as group:
        group.create_task(wait("first"))
        group.create_task(wait("second"))
        await _settle()
        assert entered == []
        gate.leave()
        await _settle()
        assert entered == ["first"]
        gate.leave()
    gate.leave()

    assert entered == ["first", "second"]
    assert gate.try_enter()


async def test_who_leaves_the_queue_gives_the_place_away() -> None:
    gate = AdmissionQueue(1, 1, "full")
    gate.try_enter()
    impatient = asyncio.create_task(gate.enter())
    await _settle()
    impatient.cancel()
    await _settle()

    patient = asyncio.create_task(gate.enter())
    await _settle()
    gate.leave()

    await patient


async def test_a_turn_that_comes_with_the_cancellation_is_handed_on() -> None:
    gate = AdmissionQueue(1, 2, "full")
    gate.try_enter()
    first, second = asyncio.create_task(gate.enter()), asyncio.create_task(gate.enter())
    await _settle()

    gate.leave()
    first.cancel()

    await second
    assert first.cancelled()
    gate.leave()
    assert gate.try_enter()
    assert not gate.try_enter()


async def test_draining_ends_when_the_last_one_is_gone() -> None:
    gate = AdmissionQueue(2, 0, "full")
    await gate.drain()
    gate.try_enter()
    gate.try_enter()
    draining = asyncio.create_task(gate.drain())
    await _settle()

    gate.leave()
    await _settle()
    assert not draining.done()
    gate.leave()

    await asyncio.wait_for(draining, 30)


async def test_draining_ends_when_the_last_one_is_cancelled_in_the_tick_of_its_turn() -> None:
    gate = AdmissionQueue(1, 1, "full")
    gate.try_enter()
    waiting = asyncio.create_task(gate.enter())
    draining = asyncio.create_task(gate.drain())
    await _settle()

    gate.leave()
    waiting.cancel()

    await asyncio.wait_for(draining, 30)
    assert gate.inside == 0


async def test_a_gate_that_grows_lets_in_who_waits_and_one_that_shrinks_sends_nobody_away() -> None:
    gate = AdmissionQueue(1, 9, "full")
    gate.try_enter()
    waiting = [asyncio.create_task(gate.enter()) for _ in range(3)]
    await _settle()

    gate.resize(3)
    assert (gate.inside, gate.waiting) == (3, 1)
    gate.resize(1)
    assert gate.inside == 3
    gate.leave()
    gate.leave()
    assert (gate.inside, gate.waiting) == (1, 1)
    gate.leave()
    assert (gate.inside, gate.waiting) == (1, 0)

    await asyncio.wait(waiting)
    gate.leave()
    assert gate.inside == 0


async def test_a_caller_with_less_patience_is_rejected_earlier() -> None:
    gate = AdmissionQueue(1, 2, "full", 60)
    gate.try_enter()

    with pytest.raises(Overloaded):
        await gate.enter(0.0)

    assert gate.waiting == 0


async def test_a_caller_that_is_first_does_not_wait_behind_others() -> None:
    gate = AdmissionQueue(1, 2, "full")
    gate.try_enter()
    order: list[str] = []

    async def enter(name: str, *, first: bool) -> None:
        await gate.enter(first=first)
        order.append(name)

    tasks = [asyncio.create_task(enter("new", first=False))]
    await _settle()
    tasks.append(asyncio.create_task(enter("begun", first=True)))
    await _settle()
    for _ in range(2):
        gate.leave()
        await _settle()

    await asyncio.gather(*tasks)
    assert order == ["begun", "new"]


async def test_callers_that_leave_together_are_no_slow_pace() -> None:
    """Ten that enter and leave together, every ten seconds: one turn a second."""
    now = 0.0
    gate = AdmissionQueue(10, 100, "full", 60, foresees=1.0, clock=lambda: now)
    for _ in range(10):
        gate.try_enter()
    waiting = [asyncio.create_task(gate.enter()) for _ in range(80)]
    await _settle()
    for _ in range(3):
        now += 10
        for _ in range(10):
            gate.leave()
    now += 9
    await _settle()

    late = asyncio.create_task(gate.enter())  # as the last of 51, in 51 s
    await _settle()

    assert not late.done()
    for task in (late, *waiting):
        task.cancel()


async def test_shares_take_turns_and_the_largest_one_gives_up_its_last_place() -> None:
    gate, entered, refused = AdmissionQueue(1, 4, "full"), list[str](), list[str]()
    gate.try_enter()

    async def wait(name: str) -> None:
        try:
            await gate.enter(share=name[0])
        except Overloaded:
            refused.append(name)
        else:
            entered.append(name)
            gate.leave()

    async with asyncio.TaskGroup() as group:
        for name in ("a1", "a2", "a3", "a4", "b1", "a5", "b2", "c1", "b3"):
            group.create_task(wait(name))
            await _settle()
        assert refused == ["a4", "a5", "a3", "a2", "b3"]
        gate.leave()

    assert entered == ["a1", "b1", "c1", "b2"]
    assert (gate.inside, gate.waiting) == (0, 0)


async def test_a_caller_that_gave_up_its_place_and_is_cancelled_admits_nobody() -> None:
    gate = AdmissionQueue(1, 2, "full")
    gate.try_enter()
    waiting = [asyncio.create_task(gate.enter(share="a")) for _ in range(2)]
    await _settle()
    other = asyncio.create_task(gate.enter(share="b"))
    await asyncio.sleep(0)
    waiting[1].cancel()
    await _settle()

    assert (gate.inside, gate.waiting) == (1, 2)
    gate.leave()
    gate.leave()
    await asyncio.wait([waiting[0], other])
    gate.leave()
    assert gate.inside == 0
