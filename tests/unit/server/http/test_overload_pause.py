"""A request that is one too many is refused, and its connection rests for a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest

from docgraph.server.http.connection_limits import AT_ONCE, OverloadPause
from tests.connections import Peer, build_request
from tests.unit.server.http.test_uploads import Service, until

pytestmark = pytest.mark.anyio


async def fill(**options: int) -> tuple[Service, Peer]:
    """A service with one place, and the request that has it."""
    service = Service(max_requests_in_flight=1, queue=0, **options)
    held = service.get("/hold")
    await until(lambda: service.entered == 1)
    return service, held


async def reject(service: Service) -> Peer:
    """A connection that was refused."""
    peer = service.get()
    response = await peer.read()
    assert (response.status, response["retry-after"]) == (503, "1")
    assert response["connection"] is None
    return peer


def is_read(peer: Peer) -> bool:
    return bool(peer.transport.is_reading())


async def test_a_refused_connection_is_answered_when_there_is_room() -> None:
    service, held = await fill()
    peer = await reject(service)

    assert not is_read(peer)
    service.released.set()
    assert (await held.read()).status == 200
    await until(lambda: is_read(peer))
    peer.send(build_request("GET", "/"))

    assert (await peer.read()).status == 200


async def test_requests_that_were_sent_together_rest_between_two_refusals() -> None:
    service, held = await fill()
    peer = service.connect()
    peer.send(build_request("GET", "/") * 2)

    assert (await peer.read()).status == 503
    service.released.set()

    assert (await peer.read()).status == 200
    assert (await held.read()).status == 200
    assert is_read(peer)


async def test_who_reads_an_answer_while_it_rests_is_not_read_on_before_its_time() -> None:
    service, _ = await fill()
    peer = service.connect()
    peer.send(build_request("GET", "/") * 2)
    assert (await peer.read()).status == 503

    peer.protocol.pause_writing()
    peer.protocol.resume_writing()

    assert service.state.exchanges.started == 2  # those that were begun: the held and the refused
    service.released.set()
    assert (await peer.read()).status == 200


async def test_a_body_for_which_there_is_no_place_any_more_is_a_refusal_like_others() -> None:
    service = Service(max_requests_in_flight=1, queue=0)
    slow = await service.upload()
    service.get("/hold")
    await until(lambda: service.entered == 2)

    slow.send(b"a" * 9)

    assert (await slow.read()).status == 503
    assert not is_read(slow)
    service.released.set()
    await until(lambda: is_read(slow))


async def test_a_body_that_nobody_read_is_thrown_away_after_the_rest() -> None:
    service, _ = await fill()
    peer = service.connect()
    peer.send(build_request("POST", "/", content_length="10") + b"a")
    assert (await peer.read()).status == 503

    service.released.set()
    await until(lambda: is_read(peer))
    peer.send(b"a" * 9 + build_request("GET", "/"))

    assert (await peer.read()).body == b"ok"


async def test_a_client_that_says_so_is_closed() -> None:
    service, _ = await fill()
    peer = service.connect()
    peer.send(build_request("GET", "/", connection="close"))
    response = await peer.read()

    assert (response.status, response["connection"]) == (503, "close")
    assert peer.transport.is_closing()
    service.released.set()


async def test_where_there_are_other_workers_it_is_closed_and_may_come_to_one_with_room() -> None:
    service, _ = await fill(workers=2)
    peer = service.get()
    response = await peer.read()

    assert (response.status, response["connection"]) == (503, "close")
    assert peer.transport.is_closing()
    service.released.set()


async def test_a_server_that_stops_reads_at_once_what_was_sent_meanwhile() -> None:
    service, held = await fill()
    peer = service.connect()
    peer.send(build_request("GET", "/") * 2)
    assert (await peer.read()).status == 503

    service.state.is_leaving = True
    peer.protocol.shutdown()
    response = await peer.read()

    assert (response.status, response["connection"]) == (503, "close")
    service.released.set()
    assert (await held.read()).status == 200


async def test_while_a_server_stops_nobody_rests() -> None:
    service, held = await fill()
    peer = service.connect()
    peer.send(build_request("GET", "/") * 3)
    assert (await peer.read()).status == 503

    service.state.is_leaving = True
    peer.protocol.shutdown()

    for _ in range(2):
        assert (await peer.read()).status == 503
        assert not service.state.resting._until
    service.released.set()
    assert (await held.read()).status == 200


async def test_the_time_of_a_head_does_not_end_while_it_is_not_read() -> None:
    service, _ = await fill()
    peer = service.connect()
    request = build_request("GET", "/")
    peer.send(request + request[:10])
    assert (await peer.read()).status == 503
    peer.send(request[10:])  # in time, but it is the server that does not read

    peer.protocol.sweep(asyncio.get_running_loop().time() + 11)
    service.released.set()

    assert (await peer.read()).status == 200


async def test_a_body_is_refused_with_several_workers_as_a_request_is() -> None:
    service = Service(max_requests_in_flight=2, queue=0, workers=2)
    slow = await service.upload()
    service.get("/hold")
    await until(lambda: service.entered == 2)

    slow.send(b"a" * 9)
    response = await slow.read()

    assert (response.status, response["connection"]) == (503, "close")
    service.released.set()


async def test_who_reads_its_last_answer_slowly_has_no_more_requests_begun() -> None:
    """On a connection that was told to be closed: such a request is sent again elsewhere."""
    service = Service()
    service.state.is_leaving = True
    peer = service.connect()
    peer.send(build_request("GET", "/") * 3)
    response = await peer.read()
    assert (response.status, response["connection"]) == (200, "close")

    peer.protocol.pause_writing()
    peer.protocol.resume_writing()

    assert service.state.exchanges.started == 1


async def test_who_leaves_while_it_rests_is_forgotten() -> None:
    service, _ = await fill()
    peer = await reject(service)
    peer.leave()
    await until(lambda: peer.protocol not in service.state.connections)

    assert not service.state.resting._until
    service.released.set()


class FakeLoop:
    """Time that goes on when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self.due: list[tuple[float, Callable[..., None], tuple[Any, ...]]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, call: Callable[..., None], *arguments: Any) -> object:
        self.due.append((round(self.now + delay, 6), call, arguments))
        return object()

    def pass_time(self, seconds: float) -> None:
        end = self.now + seconds
        while self.due and self.due[0][0] <= end:
            self.now, call, arguments = self.due.pop(0)
            call(*arguments)
        self.now = end


class Guest:
    def __init__(self, rested: list[Guest]) -> None:
        self._rested = rested

    def go_on(self) -> None:
        self._rested.append(self)


def test_those_who_rest_come_back_in_their_order_a_few_at_a_time() -> None:
    loop, resting, rested = FakeLoop(), OverloadPause(lambda: 0), list[Guest]()
    guests = [Guest(rested) for _ in range(AT_ONCE * 3)]
    for guest in guests:
        resting.enter(guest, as_loop(loop))

    loop.pass_time(0.499)
    assert rested == []
    loop.pass_time(0.005)
    assert rested == guests[:AT_ONCE]
    loop.pass_time(0.005)
    assert rested == guests[: AT_ONCE * 2]
    loop.pass_time(1)
    assert rested == guests
    assert loop.due == []


def test_where_there_is_room_nobody_rests_longer() -> None:
    loop, rested, room = FakeLoop(), list[Guest](), 0
    resting = OverloadPause(lambda: room)
    guests = [Guest(rested) for _ in range(AT_ONCE * 3)]
    for guest in guests:
        resting.enter(guest, as_loop(loop))

    loop.pass_time(0.05)
    assert rested == []
    room = 2
    loop.pass_time(0.005)
    assert rested == guests[:2]
    room = AT_ONCE * 3
    loop.pass_time(0.005)
    assert rested == guests


def test_there_is_one_look_at_a_time_however_many_come_and_go() -> None:
    loop, resting = FakeLoop(), OverloadPause(lambda: 0)
    for _ in range(100):
        guest = Guest([])
        resting.enter(guest, as_loop(loop))
        resting.leave(guest)

    assert len(loop.due) == 1
    loop.pass_time(1)
    assert loop.due == []


class Faulty(Guest):
    def go_on(self) -> None:
        raise RuntimeError


def test_one_that_fails_does_not_hold_the_others_up() -> None:
    loop, resting, rested = FakeLoop(), OverloadPause(lambda: 0), list[Guest]()
    guests = [Faulty(rested), Guest(rested)]
    for guest in guests:
        resting.enter(guest, as_loop(loop))

    with pytest.raises(RuntimeError):
        loop.pass_time(1)
    loop.pass_time(1)

    assert rested == guests[1:]


def as_loop(loop: FakeLoop) -> asyncio.AbstractEventLoop:
    return cast("asyncio.AbstractEventLoop", loop)
