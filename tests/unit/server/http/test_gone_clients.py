"""A client that is gone before anybody looks is nobody: nothing is done for it."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import ExitStack
from itertools import pairwise
from weakref import ref

import pytest

from docgraph.exchange import Answer, Body, Exchange, Socket, Stream, Upgrade
from docgraph.server.http.protocol import HttpProtocol
from docgraph.server.http.state import build_state
from docgraph.server.settings import ServerSettings
from tests.connections import build_request
from tests.unit.server.http.test_exchanges import App

pytestmark = pytest.mark.anyio

RESET_AT_CLOSE = struct.pack("ii", 1, 0)


async def test_a_request_of_a_connection_that_was_reset_before_it_was_accepted_is_not_read() -> (
    None
):
    """It has no address any more, so that nothing that counts by address would count it."""
    seen: list[tuple[str, bool]] = []

    async def answer(exchange: Exchange) -> Answer:
        seen.append((exchange.request.path, exchange.request.connection.client is not None))
        return Body(200, b"")

    loop = asyncio.get_running_loop()
    state = build_state(App(answer), ServerSettings())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()
        for _ in range(3):
            with socket.create_connection(address) as gone:
                gone.sendall(build_request("GET", "/gone", host="localhost"))
                gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_AT_CLOSE)
        server = await loop.create_server(lambda: HttpProtocol(state, loop), sock=listener)
        try:
            reader, writer = await asyncio.open_connection(*address)
            writer.write(build_request("GET", "/here", host="localhost"))
            await reader.readuntil(b"\r\n\r\n")
            writer.close()
            await writer.wait_closed()
        finally:
            server.close()
            await server.wait_closed()

    assert seen == [("/here", True)]
    assert {one.address for one in state.connections} <= {"127.0.0.1"}


class Listener:
    """A service's side of one listener, which knows its socket as the socket knows it."""

    def __init__(self, is_open: asyncio.Event) -> None:
        self._is_open = is_open

    async def read(self) -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        self._is_open.set()
        await asyncio.Event().wait()

    async def serve(self, socket: Socket) -> None:
        self.socket, socket.count_frame = socket, self.count
        self._is_open.set()
        while await socket.receive() is not None:
            pass

    def count(self) -> None:
        """Count a frame."""


HANDSHAKE = {
    "upgrade": "websocket",
    "connection": "Upgrade",
    "sec-websocket-version": "13",
    "sec-websocket-key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


by_transport = pytest.mark.parametrize("fields", [{}, HANDSHAKE], ids=["events", "websocket"])


@by_transport
async def test_a_client_that_leaves_needs_no_garbage_collector(fields: dict[str, str]) -> None:
    """Listeners leave in thousands: what they used is free at that moment."""
    is_open, made = asyncio.Event(), list[ref[object]]()

    async def answer(exchange: Exchange) -> Answer:
        listener = Listener(is_open)
        if fields:
            return Upgrade(listener.serve)
        return Stream(listener.read(), media_type="text/event-stream")

    def connect() -> HttpProtocol:
        protocol = HttpProtocol(state, loop)
        made.append(ref(protocol))
        return protocol

    loop = asyncio.get_running_loop()
    state = build_state(App(answer), ServerSettings())
    server = await loop.create_server(connect, "127.0.0.1", 0)
    gc.collect()
    gc.disable()
    try:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(build_request("GET", "/stream", host="localhost", **fields))
        await is_open.wait()
        made.append(ref(next(iter(state.connections))))
        writer.transport.abort()
        while state.connections or state.exchanges.tasks:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert [one() for one in made] == [None, None]
    finally:
        gc.enable()
        server.close()
        await server.wait_closed()


@by_transport
async def test_of_listeners_that_leave_together_a_turn_closes_a_hundred(
    fields: dict[str, str],
) -> None:
    """Closing thousands of connections would keep a health check waiting for 0.1 s."""

    async def answer(exchange: Exchange) -> Answer:
        listener = Listener(asyncio.Event())
        if fields:
            return Upgrade(listener.serve)
        return Stream(listener.read(), media_type="text/event-stream")

    loop = asyncio.get_running_loop()
    state = build_state(App(answer), ServerSettings())
    server = await loop.create_server(
        lambda: HttpProtocol(state, loop), "127.0.0.1", 0, backlog=400
    )
    with ExitStack() as sockets:
        clients = []
        for _ in range(350):
            client = socket.create_connection(server.sockets[0].getsockname())
            clients.append(sockets.enter_context(client))
            client.sendall(build_request("GET", "/stream", host="localhost", **fields))
        async with asyncio.timeout(60):
            while len(state.exchanges.tasks) < len(clients):  # noqa: ASYNC110
                await asyncio.sleep(0)
            for client in clients:
                client.shutdown(socket.SHUT_WR)
            sizes = [len(state.connections)]
            while sizes[-1]:
                await asyncio.sleep(0)
                sizes.append(len(state.connections))
            while state.exchanges.tasks:  # noqa: ASYNC110
                await asyncio.sleep(0)
    server.close()
    await server.wait_closed()
    assert sizes[0] == 350
    assert max(before - after for before, after in pairwise(sizes)) <= 100
