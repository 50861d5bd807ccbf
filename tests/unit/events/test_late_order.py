"""Events of shapes that take long: in order, bounded, and finished or dropped at the end."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from docgraph.events.delivery import _LATE_PORTION, _MAX_LATE, LateShapes
from docgraph.exchange.close_reason import TOO_SLOW, CloseReason
from docgraph.exchange.errors import StoreUnavailable

pytestmark = pytest.mark.anyio


@dataclass(eq=False)
class Record:
    size: int = 1


@dataclass(eq=False)
class Log:
    ending: CloseReason | None = None

    def end(self, ending: CloseReason) -> None:
        self.ending = ending


@dataclass(eq=False)
class Receiver:
    log: Log = field(default_factory=Log)


@dataclass(eq=False)
class LateEvent:
    number: int
    receivers: list[Receiver]
    record: Record = field(default_factory=Record)


class Deliveries:
    """Receives portions of events, as soon as the gate is open."""

    def __init__(self) -> None:
        self.gate = asyncio.Event()
        self.portions: list[list[int]] = []
        self.running = 0
        self.most = 0
        self.failures = 0

    async def deliver(self, shape: Any, some: Sequence[Any]) -> None:
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate.wait()
            if self.failures:
                self.failures -= 1
                raise StoreUnavailable("away")
        finally:
            self.running -= 1
        self.portions.append([one.number for one in some])


def build_events(count: int) -> tuple[Receiver, list[Any]]:
    receiver = Receiver()
    return receiver, [LateEvent(number, [receiver]) for number in range(count)]


def start() -> tuple[Deliveries, LateShapes]:
    deliveries = Deliveries()
    return deliveries, LateShapes(deliveries.deliver)


SHAPE = cast("Any", "shape")


async def test_events_are_delivered_in_order_and_in_portions() -> None:
    deliveries, late = start()
    _, events = build_events(2 * _LATE_PORTION + 1)
    for event in events:
        late.add(SHAPE, [event])
    deliveries.gate.set()
    await late.finish()

    assert [len(one) for one in deliveries.portions] == [_LATE_PORTION, _LATE_PORTION, 1]
    assert [n for one in deliveries.portions for n in one] == list(range(len(events)))
    assert not late.has(SHAPE)


async def test_the_end_waits_for_what_is_left() -> None:
    deliveries, late = start()
    late.add(SHAPE, build_events(1)[1])
    assert late.has(SHAPE)
    end = asyncio.create_task(late.finish())
    await asyncio.sleep(0)
    deliveries.gate.set()
    await end

    assert deliveries.portions == [[0]]


async def test_what_is_left_after_the_end_is_dropped() -> None:
    deliveries, late = start()
    late.add(SHAPE, build_events(1)[1])
    await asyncio.sleep(0)
    assert deliveries.running == 1

    await late.close()

    assert (deliveries.running, deliveries.portions) == (0, [])
    assert not late.has(SHAPE)


async def test_clients_of_too_many_events_are_ended() -> None:
    """As many as the bound wait; one more is one too many."""
    deliveries, late = start()
    receiver, events = build_events(_MAX_LATE + 1)
    endings = []
    for some in (events[:-1], events[-1:]):
        late.add(SHAPE, some)
        endings.append(receiver.log.ending)

    assert endings == [None, TOO_SLOW]
    deliveries.gate.set()
    await late.finish()
    assert deliveries.portions == []


async def test_two_shapes_use_the_database_at_the_same_time() -> None:
    deliveries, late = start()
    for shape in ("first", "second", "third"):
        late.add(cast("Any", shape), build_events(1)[1])
    for _ in range(5):
        await asyncio.sleep(0)
    deliveries.gate.set()
    await late.finish()

    assert deliveries.most == 2
    assert len(deliveries.portions) == 3


async def test_an_outage_of_the_database_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docgraph.events.delivery._LATE_PAUSE", 0.001)
    deliveries, late = start()
    deliveries.failures = 2
    late.add(SHAPE, build_events(3)[1])
    deliveries.gate.set()
    await late.finish()

    assert deliveries.portions == [[0, 1, 2]]
