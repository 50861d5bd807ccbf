"""Memory release: returns freed memory to the operating system when a process is idle.

After a burst of work (large responses, thousands of rejections) the C library keeps freed memory
for a later use that may never come. With glibc, the memory is returned when the process has grown
and few requests come. With other libraries nothing is done.
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
    """Checks regularly whether memory should be returned to the system.

    `count_requests` returns the number of requests so far.
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
        self._size: int | None = None  # of the process, after the last release

    async def run(self) -> None:
        """Check in an endless loop; return immediately where memory cannot be released."""
        while self._trim is not None:
            await self.release()
            await asyncio.sleep(_INTERVAL)

    async def release(self) -> None:
        """Release memory if the process is quiet and has grown since the last release."""
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
    """Return the function that releases free memory of the C library; None unless it is glibc."""
    try:
        if not os.confstr("CS_GNU_LIBC_VERSION") or not _STATM.exists():
            return None
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, ValueError, AttributeError):
        return None
    trim.argtypes = [ctypes.c_size_t]
    return lambda: trim(0)


def read_resident() -> int:
    """Return the resident memory of this process in bytes."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGESIZE")
