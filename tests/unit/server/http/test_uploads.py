"""Bodies on their way hold no place among the requests in flight; they have their own budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from docgraph.exchange import Answer, Body, Exchange
from docgraph.observe.events import BodyAwaited
from docgraph.runtime.sections import Core
from docgraph.server.http.state import ProcessState, build_state
from docgraph.server.sections import ConnectionOptions
from docgraph.server.settings import ServerSettings
from tests.connections import Peer, build_request
from tests.http.harness import listening
from tests.unit.server.http.test_exchanges import App

pytestmark = pytest.mark.anyio


class Service:
    """`POST` answers the size of its body, `GET /hold` waits, other paths answer at once."""

    def __init__(self, workers: int = 1, **options: Any) -> None:
        self.entered = 0
        self.released = asyncio.Event()
        settings = ServerSettings(
            core=Core(workers=workers), connection_options=ConnectionOptions(**options)
        )
        application = App(self._answer, probes=("/ping",))
        self.state: ProcessState = build_state(application, settings)

    async def _answer(self, exchange: Exchange) -> Answer:
        self.entered += 1
        request = exchange.request
        if request.method == "POST" and request.path != "/ignore":
            request.body_limit = 1 << 20
            return Body(200, str(len(await request.read_body())).encode())
        if request.path == "/hold":
            await self.released.wait()
        return Body(200, b"ok")

    def connect(self, address: str = "127.0.0.1") -> Peer:
        return Peer(self.state, client=(address, 1))

    def get(self, path: str = "/") -> Peer:
        peer = self.connect()
        peer.send(build_request("GET", path))
        return peer

    async def upload(self, size: int = 10, begun: int = 1, address: str = "127.0.0.1") -> Peer:
        """A request whose service waits for the rest of its body."""
        peer, entered = self.connect(address), self.entered
        peer.send(build_request("POST", "/", content_length=str(size)) + b"a" * begun)
        await until(lambda: self.entered > entered)
        return peer


async def until(check: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not check():  # noqa: ASYNC110 - what is awaited tells nobody
            await asyncio.sleep(0)


async def test_whoever_waits_for_a_body_holds_no_place() -> None:
    service = Service(max_requests_in_flight=1, queue=0)

    slow = [await service.upload() for _ in range(20)]
    assert (await service.get().read()).status == 200
    for peer in slow:
        peer.send(b"a" * 9)
        assert (await peer.read()).body == b"10"


async def test_waiting_for_a_body_is_told_once_however_it_ends() -> None:
    service = Service()
    with listening(BodyAwaited) as seen:
        whole, half = await service.upload(), await service.upload()
        at_once = service.connect()
        at_once.send(build_request("POST", "/", content_length="1") + b"a")
        assert (await at_once.read()).status == 200
        assert [event.over for event in seen] == [False, False]

        whole.send(b"a" * 9)
        assert (await whole.read()).body == b"10"
        half.leave()
        await until(lambda: len(seen) == 4)

    assert [event.over for event in seen[2:]] == [True, True]
    assert [event.request_id for event in seen[2:]] == [event.request_id for event in seen[:2]]


async def test_a_request_is_in_flight_again_when_its_body_is_complete() -> None:
    service = Service(max_requests_in_flight=1, queue=0)
    slow = await service.upload()
    held = service.get("/hold")
    await until(lambda: service.entered == 2)

    slow.send(b"a" * 9)
    refused = await slow.read()

    assert (refused.status, refused["retry-after"]) == (503, "1")
    service.released.set()
    assert (await held.read()).status == 200
    assert (await service.get().read()).status == 200


async def test_a_complete_body_waits_in_the_queue_for_its_place() -> None:
    service = Service(max_requests_in_flight=1, queue=1)
    slow = await service.upload()
    held = service.get("/hold")
    await until(lambda: service.entered == 2)
    slow.send(b"a" * 9)
    await until(lambda: service.state.bodies.count == 0)

    service.released.set()

    assert (await held.read()).status == 200
    assert (await slow.read()).body == b"10"


async def test_the_time_of_a_body_does_not_run_in_our_own_queue() -> None:
    service = Service(max_requests_in_flight=1, queue=2)
    held = service.get("/hold")
    await until(lambda: service.entered == 1)
    waiting = service.connect()
    waiting.send(build_request("POST", "/", content_length="10"))
    later = asyncio.get_running_loop().time() + 10_000

    waiting.protocol.sweep(later)
    assert not waiting.transport.output
    service.released.set()
    assert (await held.read()).status == 200
    await until(lambda: service.state.bodies.count == 1)
    waiting.protocol.sweep(later)

    assert (await waiting.read()).status == 408


async def test_a_body_that_nobody_asks_for_is_not_waited_for() -> None:
    service = Service()
    peer = service.connect()
    peer.send(build_request("POST", "/ignore", content_length="10"))

    assert (await peer.read()).status == 200
    assert service.state.bodies.count == 0


async def test_probes_do_not_wait_behind_others() -> None:
    service = Service(max_requests_in_flight=1, queue=0)
    held = service.get("/hold")
    await until(lambda: service.entered == 1)

    assert (await service.get("/ping").read()).status == 200
    assert (await service.get().read()).status == 503
    service.released.set()
    assert (await held.read()).status == 200
    assert (await service.get().read()).status == 200


async def finish(peer: Peer, size: int = 9) -> None:
    peer.send(b"a" * size)
    assert (await peer.read()).body == b"10"


def is_held(peer: Peer) -> bool:
    return not peer.transport.is_reading()


async def test_one_body_too_many_of_an_address_holds_up_its_oldest() -> None:
    service = Service(max_uploads_per_address=2)
    elsewhere = await service.upload(address="10.0.0.1")
    first, second, third = [await service.upload() for _ in range(3)]
    assert [is_held(peer) for peer in (elsewhere, first, second, third)] == [
        False,
        True,
        False,
        False,
    ]

    first.send(b"a" * 9)
    await finish(third)

    assert (await first.read()).body == b"10"
    await finish(second)
    await finish(elsewhere)
    assert service.state.bodies.count == 0


async def test_one_body_too_many_holds_up_the_oldest_where_most_come_from() -> None:
    service = Service(max_uploads=3)
    elsewhere = await service.upload(address="10.0.0.1")
    first, second, third = [await service.upload() for _ in range(3)]
    assert [is_held(peer) for peer in (elsewhere, first, second, third)] == [
        False,
        True,
        False,
        False,
    ]

    await finish(elsewhere)

    assert not is_held(first)
    for peer in (first, second, third):
        await finish(peer)


async def test_the_address_that_is_read_least_goes_on_first() -> None:
    service = Service(max_uploads=2)
    one, two = [await service.upload(address="10.0.0.1") for _ in range(2)]
    first = await service.upload(address="10.0.0.2")
    second = await service.upload(address="10.0.0.2")
    assert [is_held(peer) for peer in (one, two, first, second)] == [True, False, True, False]

    await finish(second)

    assert [is_held(peer) for peer in (one, two, first)] == [True, False, False]


async def test_the_addresses_of_one_customer_count_as_one() -> None:
    service = Service(max_uploads_per_address=1)
    first = await service.upload(address="2001:db8::1")
    second = await service.upload(address="2001:db8::2")

    assert [is_held(peer) for peer in (first, second)] == [True, False]


async def test_the_time_of_a_body_that_is_held_up_stands_still_but_not_for_ever() -> None:
    service = Service(max_uploads=1, body_timeout_ms=30_000, min_body_rate=0)
    first, second = [await service.upload() for _ in range(2)]
    now = asyncio.get_running_loop().time()

    first.protocol.sweep(now + 29)
    assert not first.transport.output
    first.protocol.sweep(now + 31)
    refused = await first.read()
    second.protocol.sweep(now + 31)
    late = await second.read()

    assert (refused.status, refused["retry-after"], refused["connection"]) == (503, "1", "close")
    assert (late.status, late["connection"]) == (408, "close")


async def test_who_is_held_up_and_leaves_is_forgotten() -> None:
    service = Service(max_uploads=1)
    first, second = [await service.upload() for _ in range(2)]

    first.leave()
    await first.wait_lost()
    await finish(second)

    assert (service.state.bodies.count, service.state.bodies.size) == (0, 0)


@pytest.mark.parametrize("option", ["max_uploads_size", "max_uploads_size_per_address"])
async def test_too_many_bytes_end_the_largest(option: str) -> None:
    service = Service(**{option: 1000})
    small = await service.upload(size=200, begun=100)
    large = await service.upload(size=1000, begun=700)
    other = await service.upload(size=500, begun=150)

    small.send(b"a" * 100)

    assert (await large.read()).status == 503
    assert (await small.read()).body == b"200"
    other.send(b"a" * 350)
    assert (await other.read()).body == b"500"
    assert service.state.bodies.size == 0


async def test_who_leaves_is_not_counted_any_more() -> None:
    service = Service()
    peers = [await service.upload() for _ in range(3)]
    assert (service.state.bodies.count, service.state.bodies.size) == (3, 3)

    for peer in peers:
        peer.leave()
        await peer.wait_lost()

    assert (service.state.bodies.count, service.state.bodies.size) == (0, 0)


async def test_a_body_that_is_complete_at_once_is_never_counted() -> None:
    service = Service(max_uploads=1, max_uploads_size=1)
    peer = service.connect()
    slow = await service.upload()

    assert (await peer.ask(build_request("POST", "/", b"a" * 10_000))).body == b"10000"

    slow.send(b"")
    assert service.state.bodies.count == 1
