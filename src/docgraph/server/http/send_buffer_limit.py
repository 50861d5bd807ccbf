"""Limit on buffered responses that clients have not read yet, for all connections together.

Each connection buffers one response, and the time to read it grows with its length. Many clients
that request long responses and read slowly would fill the memory. Above the limit, the connection
that has been reading for longest is dropped, of the address with the most buffered bytes: a client
with a normal speed is never the oldest for long.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

from docgraph.auth.guard.attempts import group_address

_PART: Final = 3  # of the memory that is left; the answers being built have as much


class _Reading(Protocol):
    """A connection with a response that is being read."""

    transport: asyncio.Transport

    @property
    def address(self) -> str:
        """The address of its client."""


class Unread:
    """Counts the buffered bytes of the clients of this process."""

    def __init__(self, most: int) -> None:
        self._limit = self._most = most
        self._networks: dict[_Reading, str] = {}
        self._sizes: dict[str, dict[_Reading, int]] = {}  # at the last check, the oldest first
        self.size = 0

    def enter(self, connection: _Reading) -> None:
        """Add a connection whose client reads more slowly than we write."""
        self.leave(connection)
        network = self._networks[connection] = group_address(connection.address)
        self._sizes.setdefault(network, {})[connection] = 0
        self.update(connection)

    def update(self, connection: _Reading) -> None:
        """Count what was written to a connection since, if it is one of them."""
        network = self._networks.get(connection)
        if network is None:
            return
        sizes, size = self._sizes[network], connection.transport.get_write_buffer_size()
        self.size += size - sizes[connection]
        sizes[connection] = size
        if self.size > self._most:
            self._give_up_slow_ones()

    def leave(self, connection: _Reading) -> None:
        """Remove a connection whose client has read most of it, or disconnected."""
        network = self._networks.pop(connection, None)
        if network is not None:
            sizes = self._sizes[network]
            self.size -= sizes.pop(connection)
            if not sizes:
                del self._sizes[network]

    def fit(self, room: int | None) -> None:
        """Adapt the limit to the bytes that the process may still allocate; None: no limit."""
        self._most = self._limit
        if room is not None:
            self._most = min(self._limit, (room + self.size) // _PART)
        if self.size > self._most:
            self._give_up_slow_ones()

    def _give_up_slow_ones(self) -> None:
        for sizes in self._sizes.values():  # much may have been read since
            for connection in sizes:
                sizes[connection] = connection.transport.get_write_buffer_size()
        shares = {network: sum(sizes.values()) for network, sizes in self._sizes.items()}
        self.size = sum(shares.values())
        while self.size > self._most and len(self._networks) > 1:  # a single one may be longer
            largest = max(shares, key=lambda network: shares[network])
            slow, size = next(iter(self._sizes[largest].items()))
            shares[largest] -= size
            self.leave(slow)
            slow.transport.abort()
