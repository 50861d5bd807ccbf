"""Shared memory of worker processes: locked files, generations, sliding window counters.

Workers open a file by its path, which also works with spawned processes. It has no resource tracker
that would remove it while other processes use it, and it is removed with its directory.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import mmap
import os
import secrets
import struct
import threading
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from functools import lru_cache, partial
from operator import getitem
from pathlib import Path
from struct import calcsize
from typing import Final, Literal, NamedTuple, get_args
from zlib import crc32

from docgraph.exchange.errors import StartupError
from docgraph.runtime.clock import elapsed

# Errors of a file system that cannot reserve space.
_UNABLE = frozenset({errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS})


def share_numbers(kind: Literal["i", "L"], count: int) -> memoryview:
    """Return numbers that forked processes share; anonymous memory needs no /dev/shm."""
    return memoryview(mmap.mmap(-1, count * calcsize(kind))).cast(kind)


def explain_no_room(directory: Path, error: OSError) -> StartupError:
    """Return the startup error for a directory without space for shared files."""
    reason = (error.strerror or "unknown error").lower()
    return StartupError(
        f"cannot make a file in {directory}: {reason}",
        hint="make room there, or name another directory in TMPDIR",
    )


def make_once(path: Path, make: Callable[[Path], None]) -> None:
    """Create the file unless another worker has done so; it appears complete or not at all."""
    if path.exists():
        return
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        make(fresh)
        os.link(fresh, path)
    except FileExistsError:
        pass  # the other worker was faster, and its file is equivalent
    finally:
        fresh.unlink(missing_ok=True)


def create_shared(path: Path, size: int) -> None:
    """Create the file with all bytes 0; once per instance, before any worker opens it."""
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            _reserve(fd, size)
        finally:
            os.close(fd)
    except FileExistsError:
        raise
    except OSError as error:
        raise explain_no_room(path.parent, error) from error


def _reserve(fd: int, size: int) -> None:
    """Reserve the space of the file: writing to a page without space kills the process."""
    os.ftruncate(fd, size)
    if not hasattr(os, "posix_fallocate"):  # macOS
        return
    try:
        os.posix_fallocate(fd, 0, size)
    except OSError as error:
        if error.errno not in _UNABLE:
            raise


class SharedFile:
    """The file as one process sees it; `close` after use."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR)
        self._lock = _Lock(self._fd)
        self.memory = mmap.mmap(self._fd, 0)

    def locked(self) -> AbstractContextManager[None]:
        """Lock out other processes as briefly as possible: their event loops wait."""
        return self._lock

    def close(self) -> None:
        """Unmap and close the file; it remains for other processes."""
        self.memory.close()
        os.close(self._fd)


class _Lock(AbstractContextManager[None]):
    """Lock of a shared file, as a reusable context manager: cheaper than a generator.

    The file lock excludes other processes and ends with its holder, even by kill -9. It does not
    exclude other threads of this process.
    """

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._threads = threading.Lock()

    def __enter__(self) -> None:
        self._threads.acquire()
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        except BaseException:
            self._threads.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        finally:
            self._threads.release()


Generation = Literal[
    "apps",
    "users",
    "rules",
    "tokens",
    "logins",
    "collections",
    "disk",
    "ready",
    "stopping",
    "password-cost",
    "writes",
]
NAMES: tuple[Generation, ...] = get_args(Generation)

_WRITE_SLOTS: Final = 1024


def create_generations(path: Path) -> None:
    """Create the file with all counters at 0; once per instance."""
    create_shared(path, (len(NAMES) + _WRITE_SLOTS) * 8)  # bytes each


@lru_cache(maxsize=4096)
def find_write_slot(namespace: str) -> int:
    """Return which counter counts the writes to a collection, or to a database as a whole."""
    return crc32(namespace.encode()) % _WRITE_SLOTS


class Generations:
    """The counters as one process sees them; `close` after use.

    By them, workers notice changes (cache invalidation, decision 44): after a committed write, the
    worker increments the counter of what it changed. Each request compares an integer, and reloads
    the data behind it only when the integer has changed.

    The parent changes three of them. `disk` is odd while the disk of the embedded MongoDB is full.
    `ready` is not 0 after the instance has reported that it is ready. `stopping` changes when the
    instance is to stop. `password-cost` is the highest cost of a stored password hash that any
    worker has seen.

    Collections have counters, too: a write through this instance increments that of its collection
    before it is answered. Their number is fixed, so several collections may share one. `writes`
    counts all of these writes.
    """

    def __init__(self, path: Path) -> None:
        self.directory = path.parent  # of what the workers share
        self._file = SharedFile(path)
        self._counters = memoryview(self._file.memory).cast("Q")
        self._writes = self._counters[len(NAMES) :]
        self._positions = {name: position for position, name in enumerate(NAMES)}

    def read(self, name: Generation) -> int:
        """Return the current number: an aligned load of eight bytes, without a lock."""
        return self._counters[self._positions[name]]

    def reader(self, name: Generation) -> Callable[[], int]:
        """Return a function that reads this counter, for code that every request runs."""
        read: Callable[[], int] = partial(getitem, self._counters, self._positions[name])  # type: ignore[assignment]
        return read

    def bump(self, name: Generation) -> int:
        """Increment the counter for all processes; return the new number."""
        position = self._positions[name]
        with self._file.locked():
            self._counters[position] += 1
            return self._counters[position]

    def raise_to(self, name: Generation, number: int) -> None:
        """Raise the counter to at least this number for all processes."""
        if self.read(name) >= number:
            return
        position = self._positions[name]
        with self._file.locked():
            self._counters[position] = max(self._counters[position], number)

    def record_writes(self, namespaces: Iterable[str]) -> None:
        """Count a write to collections or databases, for all processes (read-your-writes)."""
        slots = {find_write_slot(namespace) for namespace in namespaces}
        with self._file.locked():
            for slot in slots:
                self._writes[slot] += 1
            self._counters[self._positions["writes"]] += 1

    def has_no_writes_since(self, seen: Iterable[tuple[int, int]]) -> bool:
        """Return whether these slots still have these numbers."""
        writes = self._writes
        for slot, number in seen:  # noqa: SIM110 - it is a part of every hit
            if writes[slot] != number:
                return False
        return True

    def copy_writes(self) -> memoryview:
        """Return the counters of all slots as they are now."""
        return memoryview(bytes(self._writes)).cast("Q")

    def close(self) -> None:
        """Unmap the memory; the counters remain for other processes."""
        self._writes.release()
        self._counters.release()
        self._file.close()


ROWS = 2048
ROW_SLOTS = 8
_SLOT = struct.Struct("<QQQQ")  # tag, number of the window, hits in it, hits in the window before


def create_counters(path: Path) -> None:
    """Create the file without any hits; once per instance."""
    create_shared(path, ROWS * ROW_SLOTS * _SLOT.size)


class _CounterSlot(NamedTuple):
    tag: int  # 0: free
    window: int
    hits: int
    hits_before: int


class WindowCounters:
    """Hits by key within the last `seconds`; all processes must use the same `secret`.

    The window slides: the hits of the previous window count in proportion to its part that is still
    inside, as if they were evenly spread. The clock is that of the machine, which all its processes
    share.

    Workers share them, for brute force and flood protection. The table has a fixed size. Keys are
    stored as keyed hashes, so that no caller can choose keys that collide. When its row is full, a
    key replaces the one with the fewest hits: a flood of new keys pushes out other new keys, not
    keys with many hits.
    """

    def __init__(
        self, path: Path, seconds: float, secret: bytes, clock: Callable[[], float] = elapsed
    ) -> None:
        self._file = SharedFile(path)
        self._seconds = seconds
        self._secret = secret
        self._clock = clock

    def hit(self, key: str) -> int:
        """Count a hit and return the current number, including this one."""
        window, passed = self._find_window()
        hashed = self._hash_key(key)
        with self._file.locked():
            offset, slot = self._choose(hashed, window)
            slot = slot._replace(hits=slot.hits + 1)
            _SLOT.pack_into(self._file.memory, offset, *slot)
        return _estimate(slot, passed)

    def read(self, key: str) -> int:
        """Return the current number without counting a hit."""
        window, passed = self._find_window()
        hashed = self._hash_key(key)
        with self._file.locked():
            _, slot = self._choose(hashed, window)
        return _estimate(slot, passed)

    def reset(self, key: str) -> None:
        window, _ = self._find_window()
        hashed = self._hash_key(key)
        with self._file.locked():
            offset, slot = self._choose(hashed, window)
            # Otherwise the key is not stored, and the slot belongs to another one.
            if slot.hits or slot.hits_before:
                _SLOT.pack_into(self._file.memory, offset, 0, 0, 0, 0)

    def close(self) -> None:
        """Unmap the memory; the hits remain for other processes."""
        self._file.close()

    def _find_window(self) -> tuple[int, float]:
        """Return the number of the current window, and how much of it has passed, from 0 to 1."""
        number, passed = divmod(self._clock() / self._seconds, 1)
        return int(number), passed

    def _hash_key(self, key: str) -> tuple[int, int]:
        """Return the row of a key, and its tag."""
        digest = hashlib.blake2b(key.encode(), key=self._secret, digest_size=16).digest()
        row = int.from_bytes(digest[:8], "little") % ROWS
        return row, int.from_bytes(digest[8:], "little") or 1

    def _choose(self, hashed: tuple[int, int], window: int) -> tuple[int, _CounterSlot]:
        """Return the slot of the key, else the slot with the fewest hits, which it replaces."""
        number, tag = hashed
        row = self._read_row(number, window)
        for offset, slot in row:
            if slot.tag == tag:
                return offset, slot
        offset, _ = min(row, key=lambda entry: entry[1].hits + entry[1].hits_before)
        return offset, _CounterSlot(tag, window, 0, 0)

    def _read_row(self, row: int, window: int) -> list[tuple[int, _CounterSlot]]:
        first = row * ROW_SLOTS * _SLOT.size
        return [
            (offset, _advance(_CounterSlot(*_SLOT.unpack_from(self._file.memory, offset)), window))
            for offset in range(first, first + ROW_SLOTS * _SLOT.size, _SLOT.size)
        ]


def _advance(slot: _CounterSlot, window: int) -> _CounterSlot:
    """Return the slot with its hits moved to the current window."""
    if slot.window == window:
        return slot
    before = slot.hits if slot.window == window - 1 else 0
    return slot._replace(window=window, hits=0, hits_before=before)


def _estimate(slot: _CounterSlot, passed: float) -> int:
    return slot.hits + int(slot.hits_before * (1 - passed))
