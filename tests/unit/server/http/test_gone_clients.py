"""A client that is gone before anybody looks is nobody: nothing is done for it."""

from __future__ import annotations

import asyncio
import gc
import socket
import struct
from collections.abc import AsyncIterator
from weakref import ref

import pytest

from docgraph.exchange import Answer, Body, Exchange, Stream
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


async def test_a_client_that_leaves_needs_no_garbage_collector() -> None:
    """Listeners leave in thousands: what they used is free at that moment."""
    is_open = asyncio.Event()

    async def answer(exchange: Exchange) -> Answer:
        async def chunks() -> AsyncIterator[bytes]:
            yield b"data: 1\n\n"
            is_open.set()
            await asyncio.Event().wait()

        return Stream(chunks(), media_type="text/event-stream")

    loop = asyncio.get_running_loop()
    state = build_state(App(answer), ServerSettings())
    server = await loop.create_server(lambda: HttpProtocol(state, loop), "127.0.0.1", 0)
    gc.collect()
    gc.disable()
    try:
        _, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(build_request("GET", "/stream", host="localhost"))
        await is_open.wait()
        gone = ref(next(iter(state.connections)))
        writer.transport.abort()
        while state.connections or state.exchanges.tasks:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert gone() is None
    finally:
        gc.enable()
        server.close()
        await server.wait_closed()
