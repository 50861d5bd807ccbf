"""The log of a channel, and its readers."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from docgraph.events.encoded_event import EncodedEvent
from docgraph.events.event_log import EventLog, LogBudget, LogReader
from docgraph.exchange import NotifyWhen, SharedMessages
from docgraph.exchange.close_reason import FAILED, GONE, TOO_SLOW, CloseReason, StreamClosed
from tests.expect import keep

pytestmark = pytest.mark.anyio


def build_log(**bounds: Any) -> EventLog:
    return EventLog("00", **{"most": 3, "most_bytes": 1000, **bounds})


def notices(*numbers: int, size: int = 1, **parts: Any) -> list[EncodedEvent]:
    return [
        EncodedEvent(f"{one:02}", {"n": one, **parts}, SharedMessages((b"x" * size,)))
        for one in numbers
    ]


def publish(log: EventLog, notices: list[EncodedEvent]) -> None:
    for notice in notices:
        log.append(notice)
    log.publish()


def numbers(found: list[EncodedEvent]) -> list[int]:
    return [one.event["n"] for one in found]


async def test_everybody_reads_everything_in_order_at_their_own_pace() -> None:
    log = build_log()
    first = log.add_reader()
    publish(log, notices(1))
    second = log.add_reader()
    assert numbers(await first.read()) == [1]
    publish(log, notices(2, 3))
    assert numbers(await first.read()) == [2, 3]
    assert numbers(await second.read()) == [2, 3]


async def test_a_reader_waits_for_the_next_event() -> None:
    log = build_log()
    reading = asyncio.create_task(log.add_reader().read())
    await asyncio.sleep(0)
    assert not reading.done()
    publish(log, notices(1))
    assert numbers(await reading) == [1]


@pytest.mark.parametrize("bounds", [{"most": 3}, {"most": 100, "most_bytes": 30}])
async def test_who_is_too_far_behind_is_ended_and_nobody_else(bounds: dict[str, int]) -> None:
    log = build_log(**bounds)
    lagged: list[CloseReason] = []
    slow, fast = log.add_reader(on_lag=lagged.append), log.add_reader()
    for number in range(1, 5):
        publish(log, notices(number, size=10))
        assert numbers(await fast.read()) == [number]
    with pytest.raises(StreamClosed) as ended:
        await slow.read()
    assert (ended.value.ending, lagged) == (TOO_SLOW, [TOO_SLOW])
    assert log.floor == "01"


async def test_one_event_larger_than_the_bound_is_told_all_the_same() -> None:
    log = build_log(most_bytes=10)
    reader = log.add_reader()
    for number in (1, 2):
        publish(log, notices(number, size=100))
        assert numbers(await reader.read()) == [number]
        assert log.size == 100, "the one before it is dropped"


async def test_one_who_is_ahead_of_the_log_reads_nothing_again() -> None:
    log = build_log()
    ahead = log.add_reader(after="05")  # it got these events from another worker
    reading = asyncio.create_task(ahead.read())
    for number in range(3, 8):
        publish(log, notices(number))
        for _ in range(3):
            await asyncio.sleep(0)
    assert numbers(await reading) == [6]
    assert numbers(await ahead.read()) == [7]


async def test_one_who_comes_later_goes_on_after_what_it_knows() -> None:
    log = build_log()
    publish(log, notices(1, 2, 3))
    assert numbers(await log.add_reader(after="01").read()) == [2, 3]
    ahead = log.add_reader(after="04")  # it heard that one from another worker
    publish(log, notices(4, 5))
    assert numbers(await ahead.read()) == [5]


async def test_the_end_comes_after_what_is_left_to_read() -> None:
    log = build_log()
    reader = log.add_reader()
    publish(log, notices(1))
    log.end(GONE)
    assert numbers(await reader.read()) == [1]
    with pytest.raises(StreamClosed) as ended:
        await reader.read()
    assert ended.value.ending is GONE


async def test_of_two_ends_the_first_is_told() -> None:
    log = build_log()
    reader = log.add_reader()
    log.end(FAILED)
    log.end(GONE)
    with pytest.raises(StreamClosed) as ended:
        await reader.read()
    assert ended.value.ending is FAILED


async def test_a_reader_that_is_ended_reads_no_more() -> None:
    log = build_log()
    reader = log.add_reader()
    publish(log, notices(1))
    reader.end(GONE)
    with pytest.raises(StreamClosed):
        await reader.read()


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        ("blue", True),
        (["red", "blue"], True),
        ("red", False),
        (5, False),
        (None, False),
        ({}, False),
    ],
)
async def test_a_condition_is_a_text_at_a_path_or_in_its_array(value: Any, wanted: bool) -> None:
    condition = NotifyWhen(("fullDocument", "room"), "blue")
    (notice,) = notices(1, fullDocument={"room": value})
    assert notice.concerns(condition) is wanted
    assert not notices(1)[0].concerns(condition)


async def test_room_is_wanted_only_where_somebody_would_lose_something() -> None:
    log = build_log()
    reader: LogReader = log.add_reader()
    publish(log, notices(1, 2))
    assert not log.is_pressed_by(*notices(9))
    publish(log, notices(3))
    assert log.is_pressed_by(*notices(9))
    await reader.read()
    assert not log.is_pressed_by(*notices(9))


async def test_one_who_waits_is_passed_events_without_being_woken() -> None:
    log = build_log()
    reader = log.add_reader(NotifyWhen(("room",), "blue"))
    passed: list[Sequence[bytes]] = []

    def offer(message: SharedMessages) -> bool:
        passed.append(message.contents)
        return len(passed) <= 2

    reader.offer = offer
    reading = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    publish(log, notices(1, room="blue"))
    publish(log, notices(2, room="red"))
    publish(log, notices(3, room="blue", size=2))
    await asyncio.sleep(0)
    assert (passed, reading.done()) == ([(b"x",), (b"xx",)], False)

    publish(log, notices(4, 5, room="blue"))  # refused: it is for the one who reads

    assert numbers(await reading) == [4, 5]
    assert len(passed) == 3


async def test_those_who_wait_for_the_same_events_are_passed_the_same_message() -> None:
    log = build_log(most=10)
    passed: list[SharedMessages] = []
    readers = [log.add_reader(), log.add_reader(), log.add_reader(after="02")]
    for reader in readers:
        reader.offer = lambda message: keep(passed, message)
    reading = [asyncio.create_task(reader.read()) for reader in readers]
    await asyncio.sleep(0)

    publish(log, notices(1, 2, 3))

    common = [one for one in passed if len(one.contents) == 3]
    assert len(common) == 2
    assert common[0] is common[1]
    assert [len(one.contents) for one in passed if one is not common[0]] == [1]  # it knows 1 and 2
    assert [reader.position for reader in readers] == [3, 3, 3]
    for one in reading:
        one.cancel()


async def test_readers_learn_of_events_when_they_are_published() -> None:
    log = build_log()
    reading = asyncio.create_task(log.add_reader().read())
    await asyncio.sleep(0)
    log.append(*notices(1))
    log.append(*notices(2))
    await asyncio.sleep(0)
    assert (log.next, reading.done()) == (0, False)

    assert numbers(log.publish()) == [1, 2]

    assert numbers(await reading) == [1, 2]


# --- the budget of all logs -----------------------------------------------------------------------


async def test_beyond_the_budget_what_all_have_read_is_dropped_first() -> None:
    budget = LogBudget(100)
    first, second = build_log(budget=budget), build_log(budget=budget)
    reader, slow = first.add_reader(), second.add_reader()
    publish(first, notices(1, size=60))
    await reader.read()
    publish(second, notices(2, size=60))

    budget.enforce()

    assert (first.size, second.size, budget.size) == (0, 60, 60)
    assert first.floor == "01"
    assert numbers(await slow.read()) == [2]


@pytest.mark.parametrize("after", [None, "02"], ids=["new", "resumed"])
async def test_who_comes_later_holds_back_nothing_that_was_before(after: str | None) -> None:
    """Only events that a reader has yet to read are retained; no reader is ended for others."""
    budget = LogBudget(0)
    log = build_log(budget=budget)
    publish(log, notices(1, 2))
    reader = log.add_reader(after=after)

    budget.enforce()
    log.drop_slowest()

    assert (log.size, budget.size, log.floor) == (0, 0, "02")
    publish(log, notices(3))
    assert numbers(await reader.read()) == [3]


async def test_then_those_furthest_behind_are_ended() -> None:
    budget = LogBudget(100)
    first, second = build_log(budget=budget), build_log(budget=budget)
    kept, slow, fast = first.add_reader(), second.add_reader(), second.add_reader()
    publish(first, notices(1, size=50))
    publish(second, notices(2, size=60))
    assert numbers(await fast.read()) == [2]

    budget.enforce()

    with pytest.raises(StreamClosed) as ended:
        await slow.read()
    assert ended.value.ending is TOO_SLOW
    assert numbers(await kept.read()) == [1]
    assert second.readers == {fast}


async def test_an_event_in_several_logs_counts_once_until_all_have_dropped_it() -> None:
    budget = LogBudget(100)
    logs = [build_log(budget=budget) for _ in range(3)]
    shared = notices(1, size=60)
    for log in logs:
        publish(log, shared)
    assert budget.size == 60

    logs[0].drop_read()
    logs[1].detach()
    assert budget.size == 60
    logs[2].drop_read()
    assert budget.size == 0
    publish(logs[1], notices(2, size=60))  # which is no longer in the budget
    assert budget.size == 0


async def test_what_is_noted_counts_for_what_would_be_pushed_out() -> None:
    log = build_log(most=3)
    log.add_reader()
    for notice in notices(1, 2, 3):
        assert not log.is_pressed_by(notice)
        log.append(notice)
    assert log.is_pressed_by(*notices(4))  # the first has been told to nobody


async def test_nothing_is_passed_to_one_who_does_not_wait() -> None:
    """It has not sent yet what it read before."""
    log = build_log()
    reader = log.add_reader()
    passed: list[SharedMessages] = []
    reader.offer = lambda message: keep(passed, message)
    publish(log, notices(1))
    publish(log, notices(2))
    assert not passed
    assert numbers(await reader.read()) == [1, 2]


async def test_one_who_is_passed_events_is_told_of_the_end() -> None:
    log = build_log()
    reader = log.add_reader()
    reader.offer = lambda _: True
    reading = asyncio.create_task(reader.read())
    await asyncio.sleep(0)
    publish(log, notices(1))
    log.end(GONE)
    with pytest.raises(StreamClosed) as ended:
        await reading
    assert ended.value.ending is GONE


async def test_it_is_known_before_whether_an_event_pushes_out_what_somebody_has_not_read() -> None:
    log = build_log(most=3, most_bytes=30)
    reader = log.add_reader()
    (small,), (large,) = notices(9), notices(9, size=30)
    assert not log.is_pressed_by(large)  # there is nothing that it could push out
    publish(log, notices(1, 2))
    assert not log.is_pressed_by(small)
    assert log.is_pressed_by(large)
    reader.position = 1
    assert log.is_pressed_by(large)  # it takes the place of both
    await reader.read()
    assert not log.is_pressed_by(large)
    publish(log, notices(3))
    assert not log.is_pressed_by(small)  # the first of three has been read
    publish(log, notices(4, 5))
    assert log.is_pressed_by(small)


async def test_a_crowd_is_woken_over_many_turns_of_the_event_loop() -> None:
    """Thousands of readers would block it; those behind are woken before their event is dropped."""
    log = build_log(most=2)
    reading = [asyncio.create_task(log.add_reader().read()) for _ in range(1000)]
    await asyncio.sleep(0)
    publish(log, notices(1))
    counts = [0]
    while counts[-1] < len(reading):
        await asyncio.sleep(0)
        counts.append(sum(task.done() for task in reading))
    assert max(after - before for before, after in pairwise(counts)) <= 100
    assert {tuple(numbers(task.result())) for task in reading} == {(1,)}

    passed = list[SharedMessages]()
    offered = [asyncio.create_task(wait_with_offer(log, passed)) for _ in range(1000)]
    await asyncio.sleep(0)
    publish(log, notices(2))
    assert len(passed) < len(offered)
    log.wake_readers()
    assert len(passed) == len(offered)
    for task in offered:
        task.cancel()


async def wait_with_offer(log: EventLog, passed: list[SharedMessages]) -> None:
    """Take events without being woken, as a WebSocket does."""

    def take(message: SharedMessages) -> bool:
        passed.append(message)
        return True

    reader = log.add_reader()
    reader.offer = take
    await reader.read()


async def test_readers_that_replace_their_objects_leave_no_long_collection() -> None:
    """The collector of Python does not count objects that take the place of others."""
    log, readers, each = build_log(), 3000, 20
    state: dict[int, list[list[int]]] = {}
    youngest: list[int] = []

    async def follow(number: int) -> None:
        reader = log.add_reader()
        while 3 not in numbers(await reader.read()):
            state[number] = [[number] for _ in range(each)]
            if number % 100 == 0:
                youngest.append(len(gc.get_objects(0)))

    following = [asyncio.create_task(follow(number)) for number in range(readers)]
    await asyncio.sleep(0)
    for event in (1, 2, 3):
        publish(log, notices(event))
        for _turn in range(readers // 50):
            await asyncio.sleep(0)
    await asyncio.gather(*following)
    assert max(youngest) < readers * each / 2
