"""Many connections at the same time are accepted together."""

from __future__ import annotations

import asyncio
import errno
import os
import socket

import pytest

from docgraph.server.http.connection_limits import COUNT, make_cells
from docgraph.server.http.connection_share import ConnectionShare
from docgraph.server.process.serving import AT_ONCE, Acceptor
from docgraph.server.process.sockets import open_listeners
from docgraph.server.sections import HttpListener
from docgraph.server.settings import ServerSettings

pytestmark = pytest.mark.anyio


class Recorder(asyncio.Protocol):
    """Closes every connection, and records the turn of the loop in which it was made."""

    def __init__(self, made: list[int], turns: list[int]) -> None:
        self._made, self._turns = made, turns

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.append(len(self._turns))
        transport.close()


class Announcer(asyncio.Protocol):
    def __init__(self, is_made: asyncio.Event) -> None:
        self._is_made = is_made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._is_made.set()
        transport.close()


def open_listener() -> socket.socket:
    settings = ServerSettings(http_listener=HttpListener(port=0))
    return open_listeners(settings)[0].socket


async def test_connections_that_wait_are_accepted_together() -> None:
    made, turns = list[int](), list[int]()
    listener = open_listener()
    clients = [socket.create_connection(listener.getsockname()) for _ in range(100)]
    acceptor = Acceptor(listener, lambda: Recorder(made, turns), {}, ConnectionShare())
    while len(made) < len(clients):
        await asyncio.sleep(0)
        turns.append(0)
    acceptor.close()
    for client in clients:
        client.close()
    assert made[-1] - made[0] < 5
    assert len(clients) < AT_ONCE


async def test_connections_in_the_queue_are_served_when_it_closes() -> None:
    made, turns = list[int](), list[int]()
    listener = open_listener()
    acceptor = Acceptor(listener, lambda: Recorder(made, turns), {}, ConnectionShare())
    clients = [socket.create_connection(listener.getsockname()) for _ in range(AT_ONCE + 10)]
    acceptor.close()
    await asyncio.gather(*acceptor.connecting)
    for client in clients:
        client.close()
    assert len(made) == AT_ONCE + 10


async def test_without_descriptors_it_accepts_later() -> None:
    is_made = asyncio.Event()

    class Exhausted(socket.socket):
        tries = 0

        def accept(self) -> tuple[socket.socket, object]:
            Exhausted.tries += 1
            if Exhausted.tries <= 2:
                raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
            return super().accept()

    opened = open_listener()
    listener = Exhausted(fileno=opened.detach())
    listener.setblocking(False)
    with socket.create_connection(listener.getsockname()):
        acceptor = Acceptor(listener, lambda: Announcer(is_made), {}, ConnectionShare())
        await is_made.wait()
        acceptor.close()
    assert Exhausted.tries >= 3


async def test_a_connection_for_another_worker_is_left_to_it() -> None:
    is_made = asyncio.Event()
    cells = make_cells(2)
    share, other = (ConnectionShare(cells, worker) for worker in range(2))
    share.add()
    other.record_turn()
    listener = open_listener()
    with socket.create_connection(listener.getsockname()):
        acceptor = Acceptor(listener, lambda: Announcer(is_made), {}, share)
        loop = asyncio.get_running_loop()
        for _ in range(10):  # turns, in which it would have accepted
            other.record_turn()
            await asyncio.sleep(0)
        assert not is_made.is_set()
        loop.call_soon(other.leave)
        await is_made.wait()
        acceptor.close()


async def test_a_connection_without_memory_is_closed_and_not_counted() -> None:
    """Otherwise the worker would seem to have more connections than the others, forever."""
    cells = make_cells(2)
    share = ConnectionShare(cells)

    has_failed = asyncio.Event()

    def make_protocol() -> asyncio.Protocol:
        has_failed.set()
        raise MemoryError

    listener = open_listener()
    with socket.create_connection(listener.getsockname()):
        acceptor = Acceptor(listener, make_protocol, {}, share)
        await has_failed.wait()
        acceptor.close()
    assert cells[COUNT] == 0
