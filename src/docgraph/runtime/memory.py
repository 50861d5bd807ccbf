"""Memory that is free goes back to the system when a process has little to do.

After much work at once (large answers, thousands of refusals) the C library keeps what was freed,
for the next time: it may never come. Where that library is glibc it is asked to give it back, when
the process has become larger and few requests come; elsewhere nothing is done.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from docgraph.runtime.blocking import Lane, run_blocking

__all__ = ["MemoryKeeper", "find_trim", "read_resident"]

_GROWN: Final = 8 << 20  # bytes that are worth the effort
_INTERVAL: Final = 5.0  # seconds
_QUIET: Final = 5  # requests per second
_STATM: Final = Path("/proc/self/statm")


class MemoryKeeper:
    """Looks now and then whether memory should be given back.

    `count_requests` tells how many requests there have been so far.
    """

    def __init__(
        self,
        count_requests: Callable[[], int],
        lane: Lane,
        *,
        trim: Callable[[], None] | None = None,
        measure: Callable[[], int] | None = None,
    ) -> None:
        self._count_requests = count_requests
        self._lane = lane
        self._trim = trim or find_trim()
        self._measure = measure or read_resident
        self._requests = 0
        self._size: int | None = None  # of the process, after memory was last given back

    async def run(self) -> None:
        """Look for ever, or not at all where nothing can be given back."""
        while self._trim is not None:
            await self.look()
            await asyncio.sleep(_INTERVAL)

    async def look(self) -> None:
        """Give memory back if it is quiet, and there is more of it than after the last time."""
        before, self._requests = self._requests, self._count_requests()
        if self._trim is None or self._requests - before > _QUIET * _INTERVAL:
            return
        size = await run_blocking(self._lane, self._measure)
        if self._size is None or size <= self._size + _GROWN:
            self._size = size if self._size is None else min(size, self._size)
            return
        gc.collect()  # in this thread, which most of it belongs to
        await run_blocking(self._lane, self._trim)
        self._size = await run_blocking(self._lane, self._measure)


def find_trim() -> Callable[[], None] | None:
    """What gives free memory of the C library back; None unless it is glibc."""
    try:
        if not os.confstr("CS_GNU_LIBC_VERSION") or not _STATM.exists():
            return None
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, ValueError, AttributeError):
        return None
    trim.argtypes = [ctypes.c_size_t]
    return lambda: trim(0)


def read_resident() -> int:
    """How many bytes of memory this process has."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
