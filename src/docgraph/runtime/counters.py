"""Sliding window counters shared by worker processes, for brute force and flood protection.

The table has a fixed size in shared memory. Keys are stored as keyed hashes, so that no caller can
choose keys that collide. When its row is full, a key replaces the one with the fewest hits: a flood
of new keys pushes out other new keys, not keys with many hits.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from docgraph.runtime.clock import elapsed
from docgraph.runtime.shared import SharedFile, create_shared

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


@dataclass(frozen=True, slots=True)
class _HashedKey:
    row: int
    tag: int


class WindowCounters:
    """Hits by key within the last `seconds`; all processes must use the same `secret`.

    The window slides: the hits of the previous window count in proportion to its part that is still
    inside, as if they were evenly spread. The clock is that of the machine, which all its processes
    share.
    """

    def __init__(
        self,
        path: Path,
        seconds: float,
        secret: bytes,
        clock: Callable[[], float] = elapsed,
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
        """Remove the hits of a key."""
        window, _ = self._find_window()
        hashed = self._hash_key(key)
        with self._file.locked():
            offset, slot = self._choose(hashed, window)
            if (
                slot.hits or slot.hits_before
            ):  # else the key is not stored, and the slot belongs to another one
                _SLOT.pack_into(self._file.memory, offset, 0, 0, 0, 0)

    def close(self) -> None:
        """Unmap the memory; the hits remain for other processes."""
        self._file.close()

    def _find_window(self) -> tuple[int, float]:
        """Return the number of the current window, and how much of it has passed, from 0 to 1."""
        number, passed = divmod(self._clock() / self._seconds, 1)
        return int(number), passed

    def _hash_key(self, key: str) -> _HashedKey:
        digest = hashlib.blake2b(key.encode(), key=self._secret, digest_size=16).digest()
        row = int.from_bytes(digest[:8], "little") % ROWS
        return _HashedKey(row, int.from_bytes(digest[8:], "little") or 1)

    def _choose(self, hashed: _HashedKey, window: int) -> tuple[int, _CounterSlot]:
        """Return the slot of the key, else the slot with the fewest hits, which it replaces."""
        row = self._read_row(hashed.row, window)
        for offset, slot in row:
            if slot.tag == hashed.tag:
                return offset, slot
        offset, _ = min(row, key=lambda one: one[1].hits + one[1].hits_before)
        return offset, _CounterSlot(hashed.tag, window, 0, 0)

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
