"""Answers that their clients have not taken yet: bounded together, whoever reads slowly gives way.

Each connection keeps one answer, and the time to read it grows with its length, so that many who
ask for long answers and read a little of them would fill our memory. Beyond the bound the client
that has been reading for longest is given up, of the address that keeps most bytes here: one that
reads as fast as others is never the oldest for long.
"""

from __future__ import annotations

import asyncio
from typing import Protocol

from docgraph.auth.guard.attempts import group_address

__all__ = ["Unread"]


class _Reading(Protocol):
    """A connection with an answer that is being read."""

    transport: asyncio.Transport

    @property
    def address(self) -> str:
        """Where its client is."""


class Unread:
    """Counts the bytes that wait for the clients of this process."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._sizes: dict[_Reading, int] = {}  # as they were when last looked at, the oldest first
        self.size = 0

    def enter(self, connection: _Reading) -> None:
        """Its client does not take what is written as fast as it comes."""
        self.leave(connection)
        self._note(connection)
        if self.size > self._most:
            self._give_up_slow_ones()

    def leave(self, connection: _Reading) -> None:
        """Its client has taken most of it, or is gone."""
        self.size -= self._sizes.pop(connection, 0)

    def _note(self, connection: _Reading) -> None:
        size = connection.transport.get_write_buffer_size()
        self.size += size - self._sizes.get(connection, 0)
        self._sizes[connection] = size

    def _give_up_slow_ones(self) -> None:
        for connection in self._sizes:
            self._note(connection)  # much may have been read since
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
