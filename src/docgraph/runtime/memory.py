"""Memory of the process: its limit, and the release of what it does not need.

After a burst of work (large responses, thousands of rejections) the C library keeps freed memory
for a later use that may never come. With glibc, the memory is returned when the process has grown
and few requests come. With other libraries nothing is done.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

from docgraph.runtime.blocking import Lane, run_blocking

_GROWN: Final = 8 << 20  # bytes that are worth the effort
_INTERVAL: Final = 5.0  # seconds
_QUIET: Final = 5  # requests per second
_STATM: Final = Path("/proc/self/statm")
_CGROUP: Final = Path("/proc/self/cgroup")
_CGROUPS: Final = Path("/sys/fs/cgroup")


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


def read_room(workers: int) -> int | None:
    """Return how many bytes this process may still allocate; None: there is no limit.

    The limit of a cgroup is that of all workers together.
    """
    rooms: list[int] = []
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit != resource.RLIM_INFINITY:
        size = int(_STATM.read_text().split()[0]) * os.sysconf("SC_PAGESIZE")
        rooms.append(limit - size)
    limits = [int(text) for text in _read_cgroup_limits() if text.isdecimal()]
    if limits:
        rooms.append(min(limits) // workers - read_resident())
    return max(0, min(rooms)) if rooms else None


def _read_cgroup_limits() -> Iterator[str]:
    """Read the limits of this process and of the groups around it; `max` means none."""
    for file in _find_cgroup_files():
        with suppress(OSError):
            yield file.read_text().strip()


@cache
def _find_cgroup_files() -> tuple[Path, ...]:
    """Return the files with memory limits of cgroups, version 2 or 1."""
    try:
        lines = _CGROUP.read_text().splitlines()
    except OSError:
        return ()
    found: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        is_first = "memory" in controllers.split(",")
        if controllers and not is_first:
            continue
        root = _CGROUPS / "memory" if is_first else _CGROUPS
        name = "memory.limit_in_bytes" if is_first else "memory.max"
        own = root / path.lstrip("/")
        found += [place / name for place in (own, *own.parents) if place.is_relative_to(root)]
    return tuple(file for file in found if file.exists())
