"""What tests have to know about the driver's inside."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from types import ModuleType
from typing import Any

from pymongo import pool_shared
from pymongo.asynchronous.topology import Topology
from pymongo.topology_description import TopologyDescription


async def settle(client: Any, bound: float | None = None) -> None:
    """Wait until a client does not connect any more.

    The driver forgets a socket when it is closed while it connects: it would be found unclosed by
    the garbage collector. A client whose server is away always connects, so the wait is bounded;
    whoever knows better says so.
    """
    await _settle(client._topology, bound)


async def _settle(topology: Topology, bound: float | None) -> None:
    if bound is None:
        bound = 2.0 if _finds_nobody(topology.description) else 30.0
    with suppress(TimeoutError):
        async with asyncio.timeout(bound):
            while _is_connecting(topology):  # noqa: ASYNC110 - the driver tells nobody
                await asyncio.sleep(0.005)


@contextmanager
def closing_connected() -> Iterator[None]:
    """Clients that are closed, by whomever, connect first: see `settle`.

    Monitors of the driver connect by themselves, also between the last step of a test and the
    moment when the application closes its client.
    """
    close = Topology.close

    async def settle_and_close(topology: Topology) -> None:
        await _settle(topology, None)
        await close(topology)

    Topology.close = settle_and_close  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Topology.close = close  # type: ignore[method-assign]


_made: ContextVar[list[socket.socket] | None] = ContextVar("_made", default=None)


class _CollectedSocket(socket.socket):
    """Closed when it is collected, and nobody is warned."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        made = _made.get()
        if made is not None:
            made.append(self)

    def __del__(self) -> None:
        self.close()


@contextmanager
def collecting_sockets() -> Iterator[None]:
    """Sockets of the driver are closed when nobody has them any more.

    It forgets one when the task that connects is cancelled, be it the request of a client that
    leaves; on a busy machine connecting takes long, and it happens often. What the cancellation
    keeps alive by its traceback is not collected: so the socket is closed then, at once.
    """
    original, connect = socket, pool_shared._async_create_connection
    copy = ModuleType(original.__name__)
    vars(copy).update(vars(original), socket=_CollectedSocket)

    async def connect_or_close(address: Any, options: Any) -> socket.socket:
        made: list[socket.socket] = []
        _made.set(made)  # of this task, which connects once at a time
        try:
            return await connect(address, options)
        except BaseException:
            for one in made:
                one.close()
            raise

    pool_shared.socket = copy  # type: ignore[attr-defined]
    pool_shared._async_create_connection = connect_or_close
    try:
        yield
    finally:
        pool_shared.socket = original  # type: ignore[attr-defined]
        pool_shared._async_create_connection = connect


def _is_connecting(topology: Topology) -> bool:
    servers = topology._servers.values()
    monitors = [server._monitor for server in servers]
    pools = [server.pool for server in servers]
    pools += [part._pool for one in monitors for part in (one, one._rtt_monitor)]
    return any(pool._pending for pool in pools)


def is_away(client: Any) -> bool:
    """Whether the driver has looked for servers and found none that takes writes."""
    return _finds_nobody(client.topology_description)


def _finds_nobody(known: TopologyDescription) -> bool:
    servers = known.server_descriptions().values()
    has_looked = any(one.error is not None or one.is_server_type_known for one in servers)
    return has_looked and not known.has_writable_server()
