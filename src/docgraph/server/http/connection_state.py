"""State of one connection: its phase, its peer, and whether its reader stalls."""

from __future__ import annotations

import asyncio
from enum import Enum, auto
from math import inf
from typing import Any

from docgraph.exchange import Connection
from docgraph.server.proxies import UNIX

_SLOWEST = 1024  # bytes per second


class StallWatch:
    """Checks the send buffer of one connection at each call."""

    __slots__ = ("_mark", "_patience", "_pending", "_transport")

    def __init__(self, transport: asyncio.Transport, patience: float) -> None:
        self._transport = transport
        self._patience = patience
        self._mark = inf  # since when the buffer is not empty, or last shrank enough
        self._pending = 0

    def reset(self) -> None:
        """Restart the measurement: the peer has read."""
        self._mark = inf

    def is_stalled(self, now: float) -> bool:
        """Return whether the peer read less than 1 KiB per second during the timeout."""
        pending = self._transport.get_write_buffer_size()
        if pending == 0:
            self._mark = inf
        elif self._mark == inf:
            self._mark, self._pending = now, pending
        elif self._pending - pending >= _SLOWEST * self._patience:
            self._mark, self._pending = now, pending  # enough for the whole timeout
        elif now - self._mark >= self._patience:
            return True
        return False


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


class Phase(Enum):
    """Each phase has its own timeout, and its own end when that expires."""

    NEW = auto()  # the first byte
    HEAD = auto()  # the end of the head
    WORK = auto()  # nothing from the client: the application is running
    BODY = auto()  # the body, which the application reads
    DRAIN = auto()  # the rest of a short body that the service did not read
    IDLE = auto()  # the next request
    LINGER = auto()  # the client to read its last response, and to disconnect
