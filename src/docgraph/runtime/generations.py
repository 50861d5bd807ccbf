"""Counters that all processes of an instance share: how a worker learns what another one changed.

Decision 44: after a committed write the worker bumps the counter of what it changed; each request
compares an integer, and reads again what is behind it only when it has moved.

The counters live in a mapped file in the private directory of the instance. A file that workers
open by its path works with spawned processes, has no resource tracker that would remove it under
the others when one of them ends, and vanishes with the directory.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, get_args

__all__ = ["NAMES", "Generation", "Generations", "create_generations"]

Generation = Literal["apps", "users", "rules", "tokens", "collections"]
NAMES: tuple[Generation, ...] = get_args(Generation)

_COUNTER_BYTES = 8
_SIZE = len(NAMES) * _COUNTER_BYTES


def create_generations(path: Path) -> None:
    """Make the file, all counters at 0; once per instance, before any worker opens it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(fd, _SIZE)
    finally:
        os.close(fd)


class Generations:
    """The counters as one process sees them; `close` when done."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR)
        self._map = mmap.mmap(self._fd, _SIZE)
        self._counters = memoryview(self._map).cast("Q")
        self._places = {name: place for place, name in enumerate(NAMES)}
        self._threads = threading.Lock()

    def read(self, name: Generation) -> int:
        """The present number: an aligned load of eight bytes, no lock."""
        return self._counters[self._places[name]]

    def bump(self, name: Generation) -> int:
        """Add one for all processes; the result is the new number."""
        place = self._places[name]
        with self._locked():
            self._counters[place] += 1
            return self._counters[place]

    def close(self) -> None:
        """Unmap and close; the file stays for the others."""
        self._counters.release()
        self._map.close()
        os.close(self._fd)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        # The file lock excludes other processes and ends with its holder, even by kill -9;
        # it does not exclude other threads of this process.
        with self._threads:
            fcntl.flock(self._fd, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._fd, fcntl.LOCK_UN)
