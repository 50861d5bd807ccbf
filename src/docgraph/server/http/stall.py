"""Detect stalled readers: their buffered responses would fill the memory."""

from __future__ import annotations

import asyncio
from math import inf

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
