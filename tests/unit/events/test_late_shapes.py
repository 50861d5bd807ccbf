"""Events of stages that fail or take long: bounded in number and bytes, and never lost silently."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from docgraph.events.delivery import LateShapes, Prepared
from docgraph.exchange.close_reason import TOO_SLOW
from docgraph.exchange.errors import StoreUnavailable

pytestmark = pytest.mark.anyio

MIB = 1 << 20


@dataclass(eq=False)
class Client:
    """A channel with its own log, which records how it was ended."""

    ends: list[Any] = field(default_factory=list)

    @property
    def log(self) -> Client:
        return self

    def end(self, reason: object) -> None:
        self.ends.append(reason)

    def fail(self, error: Exception) -> None:
        self.ends.append(error)


@dataclass
class Record:
    size: int


def make_events(client: Client, count: int, size: int = 1) -> list[Prepared]:
    receivers: Any = [client]
    record: Any = Record(size)
    visibility: Any = None
    return [Prepared(record, visibility, receivers) for _ in range(count)]


class Deliveries:
    """Delivers when it is allowed to, and records what it has delivered."""

    def __init__(self, *errors: Exception) -> None:
        self.may_go_on = asyncio.Event()
        self.begun: list[int] = []
        self.done = 0
        self._errors = list(errors)

    async def deliver(self, shape: object, some: Sequence[Prepared]) -> None:
        self.begun.append(len(some))
        await self.may_go_on.wait()
        if self._errors:
            raise self._errors.pop(0)
        self.done += len(some)


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0)


def make_shapes(count: int) -> list[Any]:
    return [object() for _ in range(count)]


async def test_more_bytes_than_the_bound_end_the_clients_of_the_largest_shape() -> None:
    deliveries, small, large = Deliveries(), Client(), Client()
    late = LateShapes(deliveries.deliver)
    first, second = make_shapes(2)
    late.add(first, make_events(large, 30, MIB))
    late.add(second, make_events(small, 1, MIB))
    assert not large.ends

    late.add(second, make_events(small, 2, MIB))

    assert (large.ends, small.ends) == ([TOO_SLOW], [])
    deliveries.may_go_on.set()
    await until(lambda: not late.has(first) and not late.has(second))
    assert deliveries.done == 3


async def test_events_that_are_being_delivered_count() -> None:
    deliveries, client, other = Deliveries(), Client(), Client()
    late = LateShapes(deliveries.deliver)
    first, second = make_shapes(2)
    late.add(first, make_events(client, 31, MIB))
    await until(lambda: deliveries.begun == [31])

    late.add(second, make_events(other, 2, MIB))

    assert (client.ends, other.ends) == ([], [TOO_SLOW])  # those on their way are delivered
    deliveries.may_go_on.set()
    await until(lambda: not late.has(first))
    late.add(second, make_events(other, 31, MIB))
    assert other.ends == [TOO_SLOW]
    await until(lambda: deliveries.done == 62)


async def test_shapes_that_wait_for_a_turn_hold_no_events_outside_the_bound() -> None:
    deliveries, clients = Deliveries(), [Client() for _ in range(40)]
    late = LateShapes(deliveries.deliver)
    shapes = make_shapes(len(clients))
    for shape, client in zip(shapes, clients, strict=True):
        late.add(shape, make_events(client, 1, MIB))
        await asyncio.sleep(0)
        await asyncio.sleep(0)

    assert len(deliveries.begun) == 2
    assert sum(bool(client.ends) for client in clients) == 8
    deliveries.may_go_on.set()
    await until(lambda: deliveries.done == 32)


async def test_too_many_events_end_the_clients_of_their_shape() -> None:
    deliveries, client, other = Deliveries(), Client(), Client()
    late = LateShapes(deliveries.deliver)
    first, second = make_shapes(2)
    late.add(second, make_events(other, 1))
    late.add(first, make_events(client, 2_000))
    assert not client.ends

    late.add(first, make_events(client, 1))

    assert (client.ends, other.ends) == ([TOO_SLOW], [])
    await late.close()


async def test_an_unexpected_error_ends_the_clients_of_all_events_that_wait() -> None:
    error = ValueError("broken")
    deliveries, clients = Deliveries(error), [Client() for _ in range(60)]
    late = LateShapes(deliveries.deliver)
    (shape,) = make_shapes(1)
    late.add(shape, [event for client in clients for event in make_events(client, 1, 1000)])
    deliveries.may_go_on.set()
    await until(lambda: not late.has(shape))
    assert [client.ends for client in clients] == [[error]] * 60

    late.add(shape, make_events(clients[0], 31, MIB))  # nothing of the others counts any more
    await until(lambda: deliveries.done == 31)
    assert clients[0].ends == [error]


async def test_an_outage_of_the_database_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("docgraph.events.delivery._LATE_PAUSE", 0.0)
    deliveries, client = Deliveries(StoreUnavailable("away"), StoreUnavailable("away")), Client()
    late = LateShapes(deliveries.deliver)
    (shape,) = make_shapes(1)
    late.add(shape, make_events(client, 3))
    deliveries.may_go_on.set()

    await until(lambda: deliveries.done == 3)

    assert (deliveries.begun, client.ends) == ([3, 3, 3], [])
