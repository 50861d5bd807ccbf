"""The peer of a transport: addresses and TLS."""

from __future__ import annotations

import asyncio
from typing import Any

from docgraph.exchange import Connection
from docgraph.server.proxies import UNIX


def describe_peer(transport: asyncio.Transport) -> Connection:
    """Return the addresses of both ends, if they have any, and whether TLS is used."""
    return Connection(
        _read_address(transport.get_extra_info("peername")),
        _read_address(transport.get_extra_info("sockname")),
        "https" if transport.get_extra_info("sslcontext") else "http",
    )


def _read_address(name: Any) -> tuple[str, int] | None:
    """Return host and port; those of a Unix socket, whose name is a text, are `unix` and 0."""
    if isinstance(name, tuple):
        return str(name[0]), int(name[1])
    return None if name is None else (UNIX, 0)
