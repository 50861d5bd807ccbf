"""Shared slots: a bound over all worker processes, which the end of a process gives back.

A slot is the lock of one byte in a file: the system releases it with its process, even by kill -9.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path


class SharedSlots:
    """At most `count` slots of one instance; one object for each process and file."""

    def __init__(self, path: Path, count: int) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._count = count
        self._own: set[int] = set()  # a process would get its own locks again

    def acquire(self) -> int | None:
        """Return a slot, or None: all are in use."""
        for slot in range(self._count):
            if slot not in self._own:
                try:
                    fcntl.lockf(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, slot)
                except OSError:
                    continue
                self._own.add(slot)
                return slot
        return None

    def release(self, slot: int) -> None:
        self._own.discard(slot)
        fcntl.lockf(self._fd, fcntl.LOCK_UN, 1, slot)

    def close(self) -> None:
        os.close(self._fd)
