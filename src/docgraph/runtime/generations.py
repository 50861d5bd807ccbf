"""Generation counters in shared memory, by which workers notice changes (cache invalidation).

Decision 44: after a committed write, the worker increments the counter of what it changed. Each
request compares an integer, and reloads the data behind it only when the integer has changed.

The parent changes three of them. `disk` is odd while the disk of the embedded MongoDB is full.
`ready` is not 0 after the instance has reported that it is ready. `stopping` changes when the
instance is to stop. `password-cost` is the highest cost of a stored password hash that any
worker has seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

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
]
NAMES: tuple[Generation, ...] = get_args(Generation)

_COUNTER_BYTES = 8


def create_generations(path: Path) -> None:
    """Create the file with all counters at 0; once per instance."""
    create_shared(path, len(NAMES) * _COUNTER_BYTES)


class Generations:
    """The counters as one process sees them; `close` after use."""

    def __init__(self, path: Path) -> None:
        self._file = SharedFile(path)
        self._counters = memoryview(self._file.memory).cast("Q")
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

    def close(self) -> None:
        """Unmap the memory; the counters remain for other processes."""
        self._counters.release()
        self._file.close()
