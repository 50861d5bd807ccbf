"""Keyed lock: one holder per key at a time; other callers wait in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager


class KeyedLock:
    """Locks that exist as long as a caller holds them or waits for them."""

    def __init__(self) -> None:
        self._lines: dict[Hashable, _Waiters] = {}

    def __len__(self) -> int:
        """Return the number of keys that are locked."""
        return len(self._lines)

    @asynccontextmanager
    async def hold(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the lock of a key; waiting callers follow in order."""
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Waiters()
        line.people += 1
        try:
            async with line.lock:
                yield
        finally:
            line.people -= 1
            if line.people == 0:
                del self._lines[key]


class _Waiters:
    __slots__ = ("lock", "people")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()
        self.people = 0
