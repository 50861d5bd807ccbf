"""Notices readers that do not read: their answers would fill our memory."""

from __future__ import annotations

import asyncio
from math import inf

__all__ = ["StallWatch"]

_SLOWEST = 1024  # bytes per second


class StallWatch:
    """Looks at the outgoing buffer of one connection each time it is asked."""

    __slots__ = ("_mark", "_patience", "_pending", "_transport")

    def __init__(self, transport: asyncio.Transport, patience: float) -> None:
        self._transport = transport
        self._patience = patience
        self._mark = inf  # since when the buffer is not empty, or last shrank enough
        self._pending = 0

    def reset(self) -> None:
        """The peer has read: begin anew."""
        self._mark = inf

    def is_stalled(self, now: float) -> bool:
        """Whether the peer took less than 1 KiB per second for as long as our patience."""
        pending = self._transport.get_write_buffer_size()
        if pending == 0:
            self._mark = inf
        elif self._mark == inf:
            self._mark, self._pending = now, pending
        elif self._pending - pending >= _SLOWEST * self._patience:
            self._mark, self._pending = now, pending  # enough for as long as our patience
        elif now - self._mark >= self._patience:
            return True
        return False
