"""Large steps are spread over the turns of the event loop."""

from __future__ import annotations

import asyncio

import pytest

from docgraph.runtime.loop_share import LoopShare

pytestmark = pytest.mark.anyio


async def _record_turns(share: LoopShare, sizes: list[int]) -> list[tuple[int, int]]:
    """The turn in which each step was admitted, and its number, in order."""
    turn, seen = 0, list[tuple[int, int]]()

    async def step(number: int, size: int) -> None:
        await share.enter(size)
        seen.append((turn, number))

    tasks = [asyncio.create_task(step(*one)) for one in enumerate(sizes)]
    while len(seen) < len(sizes):
        await asyncio.sleep(0)
        turn += 1
    await asyncio.gather(*tasks)
    return seen


async def test_steps_within_the_room_of_a_turn_do_not_wait() -> None:
    seen = await _record_turns(LoopShare(100), [30, 30, 30])
    assert len({turn for turn, _ in seen}) == 1


async def test_large_steps_have_turns_of_their_own_in_order() -> None:
    seen = await _record_turns(LoopShare(100), [1000] * 5)
    assert [number for _, number in seen] == [0, 1, 2, 3, 4]
    assert len({turn for turn, _ in seen}) == 5


async def test_no_later_step_overtakes_one_that_waits() -> None:
    seen = await _record_turns(LoopShare(100), [1000, 1000, 1, 1])
    assert [number for _, number in seen] == [0, 1, 2, 3]


async def test_a_cancelled_step_does_not_hold_up_others() -> None:
    share = LoopShare(100)
    await share.enter(1000)
    tasks = [asyncio.create_task(share.enter(1000)) for _ in range(3)]
    await asyncio.sleep(0)
    tasks[1].cancel()  # the first one had room
    assert share.waiting_size == 2000
    await asyncio.wait(tasks)
    assert share.waiting_size == 0
    assert [task.cancelled() for task in tasks] == [False, True, False]


async def test_room_returns_when_nobody_waits() -> None:
    share = LoopShare(100)
    for _ in range(3):
        await share.enter(1000)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    seen = await _record_turns(share, [10, 10])
    assert len({turn for turn, _ in seen}) == 1


async def test_a_step_larger_than_a_turn_uses_up_the_room_of_the_next_turns() -> None:
    seen = await _record_turns(LoopShare(100), [400, 400, 1])
    first, second, third = [turn for turn, _ in seen]
    assert second - first >= 4
    assert third - second >= 4
