"""Limit on buffered responses that clients have not read yet, for all connections together.

Each connection buffers one response, and the time to read it grows with its length. Many clients
that request long responses and read slowly would fill the memory. Above the limit, the connection
that has been reading for longest is dropped, of the address with the most buffered bytes: a client
with a normal speed is never the oldest for long.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from docgraph.auth.guard.attempts import group_address

__all__ = ["Unread"]


class _Reading(Protocol):
    """A connection with a response that is being read."""

    transport: asyncio.Transport

    @property
    def address(self) -> str:
        """The address of its client."""


class Unread:
    """Counts the buffered bytes of the clients of this process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sizes: dict[_Reading, int] = {}  # at the last check, the oldest first
        self.size = 0

    def enter(self, connection: _Reading) -> None:
        """Add a connection whose client reads more slowly than we write."""
        self.leave(connection)
        self._record(connection)
        if self.size > self._most:
            self._give_up_slow_ones()

    def leave(self, connection: _Reading) -> None:
        """Remove a connection whose client has read most of it, or disconnected."""
        self.size -= self._sizes.pop(connection, 0)

    def _record(self, connection: _Reading) -> None:
        size = connection.transport.get_write_buffer_size()
        self.size += size - self._sizes.get(connection, 0)
        self._sizes[connection] = size

    def _give_up_slow_ones(self) -> None:
        for connection in self._sizes:
            self._record(connection)  # much may have been read since
        while self.size > self._most and len(self._sizes) > 1:  # a single one may be longer
            slow = self._find_slowest()
            self.leave(slow)
            slow.transport.abort()

    def _find_slowest(self) -> _Reading:
        shares: dict[str, int] = {}
        for connection, size in self._sizes.items():
            network = group_address(connection.address)
            shares[network] = shares.get(network, 0) + size
        most = max(shares, key=lambda network: shares[network])
        return next(one for one in self._sizes if group_address(one.address) == most)
