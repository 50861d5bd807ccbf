"""Counters that all processes of an instance share: how a worker learns what another one changed.

Decision 44: after a committed write the worker bumps the counter of what it changed; each request
compares an integer, and reads again what is behind it only when it has moved. `disk` is moved by
the parent: it is odd while the disk of the embedded MongoDB is full. `ready` is, too: it is no
longer 0 when it was said that the instance is. So is `stopping`, when it was asked to stop.
`password-cost` is the highest cost of a stored password hash that any worker has seen.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from docgraph.runtime.shared import SharedFile, create_shared

__all__ = ["NAMES", "Generation", "Generations", "create_generations"]

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
    """Make the file, all counters at 0; once per instance."""
    create_shared(path, len(NAMES) * _COUNTER_BYTES)


class Generations:
    """The counters as one process sees them; `close` when done."""

    def __init__(self, path: Path) -> None:
        self._file = SharedFile(path)
        self._counters = memoryview(self._file.memory).cast("Q")
        self._positions = {name: position for position, name in enumerate(NAMES)}

    def read(self, name: Generation) -> int:
        """The present number: an aligned load of eight bytes, no lock."""
        return self._counters[self._positions[name]]

    def bump(self, name: Generation) -> int:
        """Add one for all processes; the result is the new number."""
        position = self._positions[name]
        with self._file.locked():
            self._counters[position] += 1
            return self._counters[position]

    def raise_to(self, name: Generation, number: int) -> None:
        """Make it at least this number for all processes."""
        if self.read(name) >= number:
            return
        position = self._positions[name]
        with self._file.locked():
            self._counters[position] = max(self._counters[position], number)

    def close(self) -> None:
        """Give back the memory; the counters stay for the others."""
        self._counters.release()
        self._file.close()
