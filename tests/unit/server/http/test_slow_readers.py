"""Clients that ask and do not read: one answer of theirs is worked out and kept, no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from docgraph.exchange import Answer, Body, Exchange, Stream
from docgraph.server.http.state import build_state
from docgraph.server.settings import ServerSettings
from tests.connections import Peer, build_request
from tests.unit.server.http.test_exchanges import App, Handler

pytestmark = pytest.mark.anyio

STEPS = 20  # of the loop: more than a request needs to its answer


class SlowReader:
    """A client whose connection takes no more as soon as an answer is written to it."""

    def __init__(self, answer: Handler | None = None) -> None:
        self.begun: list[str] = []
        self.peer = Peer(build_state(App(answer or self._answer), ServerSettings()))
        self._write = self.peer.transport.write
        self.peer.transport.write = self._write_and_pause  # type: ignore[method-assign]

    def _write_and_pause(self, data: bytes) -> None:
        self._write(data)
        self.peer.protocol.pause_writing()

    async def _answer(self, exchange: Exchange) -> Answer:
        self.begun.append(exchange.request.path)
        return Body(200, exchange.request.path.encode())

    async def settle(self) -> None:
        for _ in range(STEPS):
            await asyncio.sleep(0)

    async def ask(self, *paths: str) -> None:
        for path in paths:
            self.peer.send(build_request("GET", path))
        await self.settle()

    async def read(self) -> bytes:
        """Take what was written: the transport then takes more."""
        answer = await self.peer.read()
        self.peer.protocol.resume_writing()
        await self.settle()
        return answer.body


async def test_a_large_part_of_a_stream_is_not_copied() -> None:
    """The same bytes may be on their way to many clients."""
    small, large = b"a" * 1000, b"b" * 100_000

    async def produce() -> AsyncIterator[bytes]:
        for part in (small, large):
            yield part

    async def answer(_: Exchange) -> Answer:
        return Stream(produce(), media_type="text/event-stream")

    peer = Peer(build_state(App(answer), ServerSettings()))
    written: list[bytes] = []
    write = peer.transport.write
    peer.transport.write = lambda data: (written.append(data), write(data))[1]  # type: ignore[method-assign,func-returns-value]
    peer.send(build_request("GET", "/"))
    answered = await peer.read()

    assert answered.body == small + large
    assert any(one is large for one in written)


@pytest.fixture
async def client() -> SlowReader:
    return SlowReader()


async def test_pipelined_requests_begin_when_the_answer_before_them_is_read(
    client: SlowReader,
) -> None:
    await client.ask("/1", "/2", "/3")

    for number in (1, 2, 3):
        assert len(client.begun) == number
        assert await client.read() == f"/{number}".encode()


async def test_what_comes_behind_an_unread_answer_is_not_read_on(client: SlowReader) -> None:
    await client.ask("/1")
    await client.ask("/2", *["/3"] * 100)

    assert client.begun == ["/1"]
    assert client.peer.transport.is_reading()  # else it would not notice a disconnect
    await client.ask(*["/3"] * 1000)
    assert not client.peer.transport.is_reading()
    assert await client.read() == b"/1"
    assert await client.read() == b"/2"
    for _ in range(1100):
        assert await client.read() == b"/3"
    assert client.peer.transport.is_reading()


async def test_a_client_that_leaves_with_an_answer_unread_has_no_more_worked_out(
    client: SlowReader,
) -> None:
    await client.ask("/1", "/2")
    client.peer.leave()
    await client.peer.wait_lost()
    await client.settle()

    assert client.begun == ["/1"]


async def test_what_cannot_be_read_is_refused_behind_the_answers_that_are_due(
    client: SlowReader,
) -> None:
    await client.ask("/1", "/2")
    client.peer.send(b"nonsense\r\n\r\n")
    await client.settle()

    assert await client.read() == b"/1"
    assert await client.read() == b"/2"
    assert (await client.peer.read()).status == 400


async def test_a_server_that_ends_answers_what_it_has_accepted(client: SlowReader) -> None:
    await client.ask("/1", "/2")
    client.peer.protocol.shutdown()

    assert await client.read() == b"/1"
    assert await client.read() == b"/2"
    await client.peer.wait_lost()


@pytest.mark.parametrize("is_bounded", [True, False])
async def test_a_bounded_stream_is_buffered_and_counted(is_bounded: bool) -> None:
    """An unbounded one waits until its client has read."""

    async def produce() -> AsyncIterator[bytes]:
        for part in (b"one", b"two"):
            yield part

    async def answer(_: Exchange) -> Answer:
        return Stream(produce(), media_type="application/octet-stream", is_bounded=is_bounded)

    client = SlowReader(answer)
    transport, unread = client.peer.transport, client.peer.protocol.state.unread
    transport.pending = 1000
    await client.ask("/")

    assert (b"two" in transport.output) is is_bounded
    assert unread.size == 1000
    transport.pending = 3000
    client.peer.protocol.write(b"")
    assert unread.size == 3000
    client.peer.protocol.resume_writing()
    assert unread.size == 0
