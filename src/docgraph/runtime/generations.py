"""Generation counters in shared memory, by which workers notice changes (cache invalidation).

Decision 44: after a committed write, the worker increments the counter of what it changed. Each
request compares an integer, and reloads the data behind it only when the integer has changed.

The parent changes three of them. `disk` is odd while the disk of the embedded MongoDB is full.
`ready` is not 0 after the instance has reported that it is ready. `stopping` changes when the
instance is to stop. `password-cost` is the highest cost of a stored password hash that any
worker has seen.

Collections have counters, too: a write through this instance increments that of its collection
before it is answered. Their number is fixed, so several collections may share one. `writes` counts
all of these writes.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Final, Literal, get_args
from zlib import crc32

from docgraph.runtime.shared import SharedFile, create_shared

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

_COUNTER_BYTES = 8
_WRITE_SLOTS: Final = 1024


def create_generations(path: Path) -> None:
    """Create the file with all counters at 0; once per instance."""
    create_shared(path, (len(NAMES) + _WRITE_SLOTS) * _COUNTER_BYTES)


@lru_cache(maxsize=4096)
def find_write_slot(namespace: str) -> int:
    """Return which counter counts the writes to a collection, or to a database as a whole."""
    return crc32(namespace.encode()) % _WRITE_SLOTS


class Generations:
    """The counters as one process sees them; `close` after use."""

    def __init__(self, path: Path) -> None:
        self._file = SharedFile(path)
        self._counters = memoryview(self._file.memory).cast("Q")
        self._writes = self._counters[len(NAMES) :]
        self._positions = {name: position for position, name in enumerate(NAMES)}

    def read(self, name: Generation) -> int:
        """Return the current number: an aligned load of eight bytes, without a lock."""
        return self._counters[self._positions[name]]

    def bump(self, name: Generation) -> int:
        """Add one for all processes; return the new number."""
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
        """Count a write to these collections or databases, for all processes."""
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
