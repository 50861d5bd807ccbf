"""Who is at the other end of a transport."""

from __future__ import annotations

import asyncio
from typing import Any

from docgraph.exchange import Connection

__all__ = ["describe_peer"]


def describe_peer(transport: asyncio.Transport) -> Connection:
    """The addresses of both ends, as far as they have any, and whether TLS is spoken."""
    return Connection(
        _read_address(transport.get_extra_info("peername")),
        _read_address(transport.get_extra_info("sockname")),
        "https" if transport.get_extra_info("sslcontext") else "http",
    )


def _read_address(name: Any) -> tuple[str, int] | None:
    """Host and port; the name of a Unix socket is a text and has none."""
    return (str(name[0]), int(name[1])) if isinstance(name, tuple) else None
