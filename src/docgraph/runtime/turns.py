"""One at a time for each of many keys: who would only overtake each other stand in line instead."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager

__all__ = ["Turns"]


class Turns:
    """Locks that exist as long as somebody holds them or waits for them."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Line] = {}

    def __len__(self) -> int:
        """How many keys somebody holds."""
        return len(self._lines)

    @asynccontextmanager
    async def take(self, key: Hashable) -> AsyncIterator[None]:
        """Inside, nobody else holds the key; those who wait come in order."""
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line()
        line.people += 1
        try:
            async with line.lock:
                yield
        finally:
            line.people -= 1
            if line.people == 0:
                del self._lines[key]


class _Line:
    __slots__ = ("lock", "people")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.people = 0
