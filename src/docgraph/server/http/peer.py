"""The peer of a transport: addresses and TLS."""

from __future__ import annotations

import asyncio
from typing import Any

from docgraph.exchange import Connection

__all__ = ["describe_peer"]


def describe_peer(transport: asyncio.Transport) -> Connection:
    """Return the addresses of both ends, if they have any, and whether TLS is used."""
    return Connection(
        _read_address(transport.get_extra_info("peername")),
        _read_address(transport.get_extra_info("sockname")),
        "https" if transport.get_extra_info("sslcontext") else "http",
    )


def _read_address(name: Any) -> tuple[str, int] | None:
    """Return host and port; the name of a Unix socket is a text and has none."""
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None
