"""What tests have to know about the driver's inside."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any


async def settle(client: Any) -> None:
    """Wait until a client does not connect any more.

    The driver forgets a socket when it is closed while it connects: it would be found unclosed by
    the garbage collector. A client whose server is away always connects, so the wait is bounded.
    """
    with suppress(TimeoutError):
        async with asyncio.timeout(2.0 if is_away(client) else 30.0):
            while _is_connecting(client):  # noqa: ASYNC110 - the driver tells nobody
                await asyncio.sleep(0.005)


def _is_connecting(client: Any) -> bool:
    servers = client._topology._servers.values()
    monitors = [server._monitor for server in servers]
    pools = [server.pool for server in servers]
    pools += [part._pool for one in monitors for part in (one, one._rtt_monitor)]
    return any(pool._pending for pool in pools)


def is_away(client: Any) -> bool:
    """Whether the driver has looked for servers and found none that takes writes."""
    known = client.topology_description
    servers = known.server_descriptions().values()
    has_looked = any(one.error is not None or one.is_server_type_known for one in servers)
    return has_looked and not known.has_writable_server()
