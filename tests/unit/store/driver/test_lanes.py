"""Lanes to the connection pool: which reads are heavy, and how many of them run."""

from __future__ import annotations

import asyncio
import time
from math import inf
from typing import Any

import pytest

from docgraph.exchange.deadline import Deadline, Patience
from docgraph.exchange.errors import PoolExhausted
from docgraph.store.driver.lanes import (
    NO_WAIT,
    PoolLanes,
    ReadCost,
    ReadCosts,
    Wait,
    build_trial,
    find_shape,
)

pytestmark = pytest.mark.anyio

FIND = {"find": "c", "filter": {"a": 1}, "limit": 10}


def find(costs: ReadCosts, command: dict[str, Any]) -> ReadCost:
    """The cost of a query."""
    cost = costs.find("db", command)
    assert cost is not None
    return cost


@pytest.mark.parametrize(
    "other",
    [
        {"find": "c", "filter": {"a": 2}, "limit": 10},
        {"find": "c", "filter": {"a": {"$regex": "x"}}, "limit": 9},
    ],
)
def test_reads_with_other_values_have_one_shape(other: dict[str, Any]) -> None:
    assert find_shape("db", FIND) == find_shape("db", other)


@pytest.mark.parametrize(
    "other",
    [
        {"find": "d", "filter": {"a": 1}, "limit": 10},
        {"find": "c", "filter": {"b": 1}, "limit": 10},
        {"find": "c", "filter": {"$and": [{"a": 1}, {"b": 1}]}, "limit": 10},
        {"find": "c", "filter": {"a": 1}, "limit": 1000},
        {"find": "c", "filter": {"a": 1}, "limit": 10, "sort": {"b": 1}},
        {"aggregate": "c", "pipeline": [{"$match": {"a": 1}}], "cursor": {}},
    ],
)
def test_reads_that_may_cost_more_have_another_shape(other: dict[str, Any]) -> None:
    assert find_shape("db", FIND) != find_shape("db", other)
    assert find_shape("db", FIND) != find_shape("other", FIND)


def test_a_read_is_heavy_until_it_was_measured() -> None:
    costs = ReadCosts()
    assert find(costs, FIND).is_heavy

    find(costs, FIND).record(0.001, 1, 100)

    assert not find(costs, FIND).is_heavy


def test_a_read_that_takes_long_becomes_heavy_and_light_again() -> None:
    cost = find(ReadCosts(), FIND)
    for _ in range(20):
        cost.record(1.0, 1, 100)
    assert cost.is_heavy
    for _ in range(20):
        cost.record(0.001, 1, 100)
    assert not cost.is_heavy


def test_reads_beside_many_others_are_not_heavy_because_of_them() -> None:
    cost = find(ReadCosts(), FIND)
    for _ in range(20):
        cost.record(0.1, 64, 100)
    assert not cost.is_heavy


@pytest.mark.parametrize(
    "command",
    [
        {"find": "c", "filter": {"_id": 1}},
        {"find": "c", "filter": {"_id": {"$in": [1, 2]}}},
    ],
)
def test_reads_by_id_are_light(command: dict[str, Any]) -> None:
    assert not find(ReadCosts(), command).is_heavy


@pytest.mark.parametrize("command", [{"ping": 1}, {"getMore": 1, "collection": "c"}])
def test_what_is_no_query_has_no_cost(command: dict[str, Any]) -> None:
    assert ReadCosts().find("db", command) is None


def test_a_range_of_ids_is_no_read_by_id() -> None:
    assert find(ReadCosts(), {"find": "c", "filter": {"_id": {"$gt": 1}}}).is_heavy


@pytest.mark.parametrize(
    ("command", "size"),
    [
        ({"find": "c", "filter": {"_id": 1}}, 16 << 10),
        ({"find": "c", "filter": {"_id": {"$in": [1, 2, 3]}}, "limit": 2}, 32 << 10),
        ({"find": "c", "filter": {}, "limit": 100}, 1600 << 10),
        ({"find": "c", "filter": {}, "limit": 10**6}, 16 << 20),
        ({"find": "c", "filter": {}}, 16 << 20),
        ({"aggregate": "c", "pipeline": []}, 16 << 20),
    ],
)
def test_a_response_of_unknown_size_is_expected_to_be_large(
    command: dict[str, Any], size: int
) -> None:
    cost = find(ReadCosts(), command)
    assert cost.expect_size(command) == size

    cost.record(0.1, 1, 700)

    assert cost.expect_size(command) == 700


async def settle() -> None:
    """Let reads that may run now enter both of their queues."""
    for _ in range(4):
        await asyncio.sleep(0)


async def test_so_many_heavy_reads_run_that_each_is_as_fast_as_alone() -> None:
    lanes = PoolLanes(80, None)
    lanes.resize(80)
    for _ in range(8):
        await lanes.enter(NO_WAIT, is_heavy=True)
    waiting = [asyncio.create_task(lanes.enter(NO_WAIT, is_heavy=True)) for _ in range(70)]
    await asyncio.sleep(0)
    assert lanes.running == 8

    for _ in range(200):
        lanes.adapt(1.0)
    await settle()
    assert lanes.running == 60  # three quarters

    for _ in range(200):
        lanes.adapt(10.0)
    for _ in range(60):
        lanes.leave(is_heavy=True)
    await settle()
    assert lanes.running == 8
    for task in waiting:
        task.cancel()


async def test_a_read_that_waits_uses_the_patience_of_its_request_once() -> None:
    places: list[str] = []
    patience = Patience(0.0, lambda: places.append("left"))
    lanes = PoolLanes(1, None)
    lanes.resize(1)
    await lanes.enter(NO_WAIT, is_heavy=True)

    with pytest.raises(PoolExhausted):
        await lanes.enter(Wait(Deadline(patience=patience)), is_heavy=True)

    assert places == ["left"]
    assert lanes.running == 1
    lanes.leave(is_heavy=True)
    assert not await lanes.enter(NO_WAIT, is_heavy=True)


@pytest.mark.parametrize("is_heavy", [True, False])
async def test_a_wait_is_known_while_it_lasts_and_afterwards(is_heavy: bool) -> None:
    """Decision 51: a request that waited for it gets the error of overload, also after it."""
    lanes, started = PoolLanes(1, None), time.monotonic()
    lanes.resize(1)
    await lanes.enter(NO_WAIT, is_heavy=is_heavy)
    assert not lanes.has_waited(started)

    waiting = asyncio.create_task(lanes.enter(NO_WAIT, is_heavy=is_heavy))
    await asyncio.sleep(0)
    assert lanes.has_waited(inf)

    lanes.leave(is_heavy=is_heavy)
    assert await waiting
    assert lanes.has_waited(started)
    assert not lanes.has_waited(inf)


async def test_a_heavy_read_without_a_connection_leaves_its_lane() -> None:
    lanes = PoolLanes(4, None)
    lanes.resize(1)
    await lanes.enter(NO_WAIT, is_heavy=False)

    with pytest.raises(PoolExhausted):
        await lanes.enter(Wait(Deadline(patience=Patience(0.0))), is_heavy=True)

    lanes.leave(is_heavy=False)
    assert not await lanes.enter(NO_WAIT, is_heavy=True)


async def test_a_request_that_has_begun_is_finished_first() -> None:
    lanes = PoolLanes(1, None)
    lanes.resize(1)
    await lanes.enter(NO_WAIT, is_heavy=True)
    new = asyncio.create_task(lanes.enter(Wait(Deadline(patience=Patience(60.0))), is_heavy=True))
    await asyncio.sleep(0)
    begun = Patience(60.0)
    begun.has_begun = True
    next_read = asyncio.create_task(lanes.enter(Wait(Deadline(patience=begun)), is_heavy=True))
    await asyncio.sleep(0)

    lanes.leave(is_heavy=True)

    await next_read
    assert not new.done()
    lanes.leave(is_heavy=True)
    await new


async def test_the_first_read_of_a_shape_is_a_trial_and_others_wait_for_its_result() -> None:
    costs, lanes = ReadCosts(), PoolLanes(90, None)
    cost = find(costs, FIND)

    assert await lanes.begin_trial(cost, NO_WAIT, is_first=False)
    other = asyncio.create_task(lanes.begin_trial(cost, NO_WAIT, is_first=False))
    await asyncio.sleep(0)
    assert not other.done()
    cost.record(0.001, 1, 100)
    lanes.end_trial(cost)

    assert not await other
    assert not cost.is_heavy
    assert not await lanes.begin_trial(cost, NO_WAIT, is_first=False)  # it is known


async def test_a_trial_that_takes_long_lets_others_wait_among_the_heavy_reads() -> None:
    lanes, cost = PoolLanes(90, None), find(ReadCosts(), FIND)

    assert await lanes.begin_trial(cost, NO_WAIT, is_first=False)
    assert not await lanes.begin_trial(cost, NO_WAIT, is_first=False)

    assert cost.is_heavy
    lanes.end_trial(cost)


@pytest.mark.parametrize(("readers", "trials"), [(90, 4), (12, 1)])
async def test_trials_leave_room_for_light_reads(readers: int, trials: int) -> None:
    lanes, costs = PoolLanes(readers, None), ReadCosts()
    shapes = [find(costs, {**FIND, "filter": {f"f{n}": 1}}) for n in range(6)]
    begun = [asyncio.create_task(lanes.begin_trial(one, NO_WAIT, is_first=False)) for one in shapes]
    await asyncio.sleep(0)
    assert [one.done() for one in begun] == [True] * trials + [False] * (6 - trials)

    last = find(costs, {**FIND, "filter": {"g": 1}})
    first = asyncio.create_task(lanes.begin_trial(last, NO_WAIT, is_first=True))
    await asyncio.sleep(0)
    lanes.end_trial(shapes[0])

    assert await first
    assert not begun[-1].done()
    for one in (last, *shapes[1:]):
        lanes.end_trial(one)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert all([await one for one in begun])


async def test_few_connections_leave_no_room_for_trials() -> None:
    assert not await PoolLanes(3, None).begin_trial(find(ReadCosts(), FIND), NO_WAIT, is_first=True)


async def test_a_read_that_cannot_be_tried_in_time_is_rejected_and_another_one_tried() -> None:
    lanes, costs = PoolLanes(12, None), ReadCosts()
    running, cost = find(costs, FIND), find(costs, {**FIND, "filter": {"b": 1}})
    assert await lanes.begin_trial(running, NO_WAIT, is_first=False)

    patience = Patience(0.0)
    with pytest.raises(PoolExhausted):
        await lanes.begin_trial(cost, Wait(Deadline(patience=patience)), is_first=False)

    assert patience.left < 0
    lanes.end_trial(running)
    assert await lanes.begin_trial(cost, NO_WAIT, is_first=False)


async def test_a_shape_whose_trial_was_ended_is_heavy_and_not_tried_again() -> None:
    lanes, cost = PoolLanes(90, None), find(ReadCosts(), FIND)
    assert await lanes.begin_trial(cost, NO_WAIT, is_first=False)
    cost.has_failed = True
    lanes.end_trial(cost)

    assert cost.is_heavy
    assert not await lanes.begin_trial(cost, NO_WAIT, is_first=False)


@pytest.mark.parametrize(("own", "expected"), [({}, 100), ({"maxTimeMS": 7}, 7)])
def test_a_trial_has_little_time(own: dict[str, Any], expected: int) -> None:
    assert build_trial({**FIND, **own}) == {**FIND, "maxTimeMS": expected}
