"""Delivery of events: the queue before it is bounded, and a long wave is followed by a rest."""

from __future__ import annotations

import asyncio

import bson
import pytest
from bson.raw_bson import RawBSONDocument

from docgraph.events.change_record import (
    _MAX_BYTES,
    _MAX_RECORDS,
    _PORTION,
    _PORTION_BYTES,
    ChangeRecord,
    RecordQueue,
)
from docgraph.events.delivery import Fanout

pytestmark = pytest.mark.anyio


class Telling:
    """Takes so many seconds of a clock that stands still else, and keeps when it began."""

    def __init__(self, takes: float) -> None:
        self.takes = takes
        self.now = 100.0
        self.begun: list[float] = []
        self.waves = Fanout(self.flush, clock=lambda: self.now)

    def flush(self) -> None:
        self.begun.append(self.now)
        self.now += self.takes


async def turn() -> None:
    for _ in range(3):
        await asyncio.sleep(0)


async def test_what_comes_within_a_turn_of_the_event_loop_is_told_together() -> None:
    telling = Telling(takes=0.0)
    telling.waves.plan()
    telling.waves.plan()
    assert not telling.begun
    await turn()
    assert len(telling.begun) == 1


async def test_after_a_short_wave_there_is_no_rest() -> None:
    telling = Telling(takes=0.0001)
    for count in range(1, 4):
        telling.waves.plan()
        await turn()
        assert len(telling.begun) == count


async def test_after_a_long_wave_there_is_a_rest_unless_one_must_be_told_now() -> None:
    telling = Telling(takes=60.0)
    telling.waves.flush()
    await turn()
    telling.waves.plan()
    await turn()
    assert len(telling.begun) == 1

    telling.waves.flush()
    assert len(telling.begun) == 2
    await turn()

    telling.now += 1.0  # more than the longest rest
    telling.waves.plan()
    await turn()
    assert len(telling.begun) == 3


async def test_what_was_planned_for_the_end_of_a_rest_is_told_then() -> None:
    telling = Telling(takes=0.01)
    told = asyncio.Event()
    telling.waves.flush()
    await turn()
    telling.waves.plan()
    telling.waves._deliver = told.set
    async with asyncio.timeout(60):
        await told.wait()


async def test_what_is_stopped_tells_nothing() -> None:
    telling = Telling(takes=0.0)
    telling.waves.plan()
    telling.waves.stop()
    await turn()
    assert not telling.begun


def record(number: int, bytes: int = 0) -> ChangeRecord:
    event = {"_id": {"_data": str(number)}, "operationType": "insert", "text": "x" * bytes}
    return ChangeRecord(RawBSONDocument(bson.encode(event)), dict)


@pytest.mark.parametrize(
    ("fitting", "bytes"), [(_MAX_RECORDS - 1, 0), (1, _MAX_BYTES * 2 // 3)], ids=["many", "large"]
)
async def test_a_full_queue_makes_its_writer_wait_until_some_are_read(
    fitting: int, bytes: int
) -> None:
    queue = RecordQueue()
    for number in range(fitting):
        await queue.put(record(number, bytes))
    last = asyncio.create_task(queue.put(record(fitting, bytes)))
    await turn()
    assert not last.done()

    portion, _ = await queue.read()
    assert portion[0].position == "0"
    async with asyncio.timeout(60):
        await last


@pytest.mark.parametrize(
    ("bytes", "together"), [(0, _PORTION), (_PORTION_BYTES // 2, 2)], ids=["many", "large"]
)
async def test_records_are_read_in_portions_of_bounded_number_and_size(
    bytes: int, together: int
) -> None:
    queue = RecordQueue()
    for number in range(together + 1):
        await queue.put(record(number, bytes))
    queue.advance({"_data": "later"})

    first, position = await queue.read()
    assert [one.position for one in first] == [str(number) for number in range(together)]
    assert position == {"_data": str(together - 1)}
    second, position = await queue.read()
    assert [one.position for one in second] == [str(together)]
    assert position == {"_data": "later"}
