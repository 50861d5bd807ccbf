"""Memory of the process: its limits, the budget of large answers, and release of free memory.

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
import sys
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import cache
from math import inf
from pathlib import Path
from typing import Final, NamedTuple

from docgraph.exchange.deadline import keep_place
from docgraph.exchange.errors import Overloaded
from docgraph.runtime import allocations
from docgraph.runtime.blocking import Lane, run_blocking
from docgraph.runtime.loop_share import LoopShare

_GROWN: Final = 8 << 20  # bytes that are worth the effort
_INTERVAL: Final = 5.0  # seconds
_CHEAP: Final = 40_000  # objects, which the garbage collector scans in some 30 ms
_COUNTABLE: Final = 500_000  # blocks: the objects in them are counted in some 10 ms
_PER_CONNECTION: Final = 300  # objects of an open connection, such as a stream, at most
_QUIET: Final = 5  # requests per second
_STATM: Final = Path("/proc/self/statm")
_CGROUP: Final = Path("/proc/self/cgroup")
_CGROUPS: Final = Path("/sys/fs/cgroup")
_MMAP_THRESHOLD, _ARENA_MAX = -3, -8  # parameters of `mallopt`
_LARGE_BLOCK: Final = 1 << 20  # bytes
_ARENAS: Final = 2
_LONGEST_FILE: Final = 64 * 1024  # bytes


class MemoryKeeper:
    """Checks regularly whether memory should be returned to the system.

    `count_requests` returns the number of requests so far. A full garbage collection blocks the
    event loop for a time that depends on all objects. So there is none as long as they are few, or
    as open connections explain them: garbage then is not what they are.
    """

    def __init__(
        self,
        count_requests: Callable[[], int],
        lane: Lane,
        *,
        count_connections: Callable[[], int] = lambda: 0,
        trim: Callable[[], None] | None = None,
        measure: Callable[[], int] | None = None,
    ) -> None:
        self._count_requests = count_requests
        self._lane = lane
        self._count_connections = count_connections
        self._objects = _CHEAP  # after the last full collection
        self._blocks = sys.getallocatedblocks()  # most of them of objects that are never collected
        self._trim = trim or find_trim()
        self._measure = measure or read_resident
        self._requests = 0
        self._size: int | None = None  # of the process, after the last release

    async def run(self) -> None:
        while True:
            self.collect_excess()
            await self.release()
            await asyncio.sleep(_INTERVAL)

    def collect_excess(self) -> None:
        """Collect garbage if there are more objects than expected."""
        expected = 2 * self._objects + _PER_CONNECTION * self._count_connections()
        if self._count_objects() > expected:
            self._collect()

    def _count_objects(self) -> int:
        """Count the objects that a full collection scans; if there are very many, at most."""
        most = sys.getallocatedblocks() - self._blocks
        return most if most > _COUNTABLE else len(gc.get_objects(2))

    def _collect(self) -> None:
        gc.collect()  # in this thread, which most of the objects belong to
        self._objects = max(_CHEAP, len(gc.get_objects(2)))

    async def release(self) -> None:
        """Release memory if the process is quiet and has grown since the last release."""
        before, self._requests = self._requests, self._count_requests()
        if self._trim is None or self._requests - before > _QUIET * _INTERVAL:
            return
        size = await run_blocking(self._lane, self._measure)
        if self._size is None or size <= self._size + _GROWN:
            self._size = size if self._size is None else min(size, self._size)
            return
        if self._count_objects() <= _CHEAP:
            self._collect()
        await run_blocking(self._lane, self._trim)
        self._size = await run_blocking(self._lane, self._measure)


def find_trim() -> Callable[[], None] | None:
    """Return the function that releases free memory of the C library; None unless it is glibc."""
    library = _find_glibc()
    if library is None or not _STATM.exists():
        return None
    trim = library.malloc_trim
    trim.argtypes = [ctypes.c_size_t]
    return lambda: trim(0)


def tune_allocator() -> None:
    """Let the C library return large blocks as soon as they are free; call it before threads start.

    By default, glibc keeps blocks of up to 32 MiB for later once one was freed, and each thread
    that allocates reserves 64 MiB of address space.
    """
    library = _find_glibc()
    if library is not None:
        library.mallopt(_MMAP_THRESHOLD, _LARGE_BLOCK)
        library.mallopt(_ARENA_MAX, _ARENAS)


def _find_glibc() -> ctypes.CDLL | None:
    try:
        return ctypes.CDLL(None) if os.confstr("CS_GNU_LIBC_VERSION") else None
    except (OSError, ValueError):
        return None


def read_resident() -> int:
    return int(_read(_STATM).split()[1]) * os.sysconf("SC_PAGESIZE")


def _read(file: Path) -> str:
    """Return a file of the kernel, which is short and needs no disk."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        return os.pread(descriptor, _LONGEST_FILE, 0).decode()
    finally:
        os.close(descriptor)


def read_room(workers: int) -> int | None:
    """Return how many bytes this process may still allocate; None: there is no limit.

    The limit of a cgroup is that of all workers together. JSON is encoded with care from the moment
    that a limit of the address space is found.
    """
    rooms: list[int] = []
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    allocations.guard(can_fail=limit != resource.RLIM_INFINITY)
    if limit != resource.RLIM_INFINITY:
        size = int(_read(_STATM).split()[0]) * os.sysconf("SC_PAGESIZE")
        rooms.append(limit - size)
    limits: list[int] = []
    for file in _find_cgroup_files():  # of the group of this process, and of those around it
        with suppress(OSError):
            text = _read(file).strip()
            if text.isdecimal():  # `max` means none
                limits.append(int(text))
    if limits:
        rooms.append(min(limits) // workers - read_resident())
    return max(0, min(rooms)) if rooms else None


@cache
def _find_cgroup_files() -> tuple[Path, ...]:
    """Return the files with memory limits of cgroups, version 2 or 1."""
    try:
        lines = _read(_CGROUP).splitlines()
    except OSError:
        return ()
    places: list[Path] = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        is_first = "memory" in controllers.split(",")
        if controllers and not is_first:
            continue
        root = _CGROUPS / "memory" if is_first else _CGROUPS
        name = "memory.limit_in_bytes" if is_first else "memory.max"
        group = root / path.lstrip("/")
        places += [place / name for place in (group, *group.parents) if place.is_relative_to(root)]
    files: list[Path] = []
    for file in places:
        with suppress(OSError):
            _read(file)
            files.append(file)
    return tuple(files)


_PART: Final = 3  # of the memory that is left; the rest is for unread answers and everything else
_MAX_BYTES: Final = 1 << 30
_SPARE: Final = 24 << 20  # bytes below the limit that large answers leave to everything else
_MEASURE_INTERVAL: Final = 0.25  # seconds between two measurements
_HOPELESS_SECONDS: Final = 1.0  # wait for memory that the other answers do not hold
_TURN_BYTES: Final = 512 * 1024  # that requests which waited begin to use in one turn of the loop


class _Waiter(NamedTuple):
    turn: asyncio.Future[None]
    share: AnswerShare
    size: int


@dataclass(eq=False)
class AnswerBudget:
    """The memory for the large answers of one process: `most` bytes.

    `measure` returns how many bytes the process may still allocate, None: no limit. Where it has a
    limit, the budget is a third of what is left of it, unless `is_fixed`.

    The size of an answer is known only while it is read. So a request acquires memory in portions,
    and may have to wait for more while it holds some. Two requests that wait for each other would
    wait forever (deadlock): the oldest request that holds memory waits only for memory that the
    process does not have, and the memory of one answer is left free for it. The others wait in
    order, requests that hold memory first.
    """

    most: int = _MAX_BYTES
    measure: Callable[[], int | None] = lambda: None
    clock: Callable[[], float] = time.monotonic
    _: KW_ONLY
    is_fixed: bool = False
    held: int = 0
    _room: float = inf  # that the process has left for answers
    _holders: dict[AnswerShare, None] = field(default_factory=dict)  # the oldest first
    _waiting: deque[_Waiter] = field(default_factory=deque)

    def __post_init__(self) -> None:
        self._size: float = self.most
        self._share = LoopShare(_TURN_BYTES)

    def open(self) -> AnswerShare:
        """Return the share of a request, which holds nothing yet."""
        return AnswerShare(self)

    async def acquire(
        self, share: AnswerShare, size: int, longest: float | None, on_wait: Callable[[], None]
    ) -> None:
        """Wait until the share may hold so many bytes more; reject after `longest` seconds."""
        self._update_size()
        if self._fits(share, size) and (not self._waiting or share in self._holders):
            self._grant(share, size)
            return
        on_wait()
        waiter = _Waiter(asyncio.get_running_loop().create_future(), share, size)
        if share in self._holders:
            self._waiting.appendleft(waiter)
        else:
            self._waiting.append(waiter)
        try:
            await self._await_turn(waiter, inf if longest is None else longest)
        finally:
            if not waiter.turn.done():
                self._waiting.remove(waiter)
                self.wake()
        if not waiter.turn.done():
            text = "the answers that are being built need all the memory there is for them"
            raise Overloaded(text, bound="memory")
        await self._share.enter(size)  # much memory may become free in one turn

    async def _await_turn(self, waiter: _Waiter, longest: float) -> None:
        """Wait, and measure now and then: memory also becomes free, or short, by itself."""
        began = self.clock()
        while not waiter.turn.done():
            is_hopeless = waiter.size > self._room + self.held - waiter.share.size
            most = min(longest, _HOPELESS_SECONDS) if is_hopeless else longest
            left = began + most - self.clock()
            await asyncio.wait((waiter.turn,), timeout=max(0.0, min(left, _MEASURE_INTERVAL)))
            if left <= 0:
                return
            self._update_size()
            self.wake()

    def release(self, share: AnswerShare, size: int) -> None:
        """Return bytes of a share, and admit requests that wait for them."""
        self.held -= size
        share.size -= size
        if not share.size:
            self._holders.pop(share, None)
        self.wake()

    def wake(self) -> None:
        """Admit those that wait and have room, in order."""
        while (waiter := self._find_next()) is not None:
            self._waiting.remove(waiter)
            self._grant(waiter.share, waiter.size)
            waiter.turn.set_result(None)

    def _find_next(self) -> _Waiter | None:
        """Return the first waiter that has room; only requests that hold memory overtake others."""
        is_blocked = False
        for waiter in self._waiting:
            is_holder = waiter.share in self._holders
            if (is_holder or not is_blocked) and self._fits(waiter.share, waiter.size):
                return waiter
            is_blocked = is_blocked or not is_holder
        return None

    def _grant(self, share: AnswerShare, size: int) -> None:
        self._holders.setdefault(share)
        self.held += size
        share.size += size

    def _fits(self, share: AnswerShare, size: int) -> bool:
        if size > self._room:
            return False
        if not self._holders or share is next(iter(self._holders)):
            return True
        return self.held + size <= self._size

    def _update_size(self) -> None:
        """Measure again: a limit may be set while the process runs."""
        with suppress(OSError, MemoryError):  # no descriptor is free: the last size stays
            room = self.measure()
            self._room = inf if room is None else room - _SPARE
            if not self.is_fixed:
                self._size = min(self.most, max(0, self._room + self.held) // _PART)


class AnswerShare:
    """The memory of one request and everything that is done for it."""

    __slots__ = ("_budget", "size")

    def __init__(self, budget: AnswerBudget) -> None:
        self._budget = budget
        self.size = 0

    async def acquire(
        self, size: int, longest: float | None, on_wait: Callable[[], None] = keep_place
    ) -> None:
        """Hold so many bytes more, after a wait of at most `longest` seconds and `on_wait`."""
        await self._budget.acquire(self, size, longest, on_wait)

    def shrink(self, size: int) -> None:
        """Hold at most so many bytes; work that outlives its answer may return them twice."""
        if self.size > max(size, 0):
            self._budget.release(self, self.size - max(size, 0))
