"""Which workers of an instance live: each holds a lock that ends with it, even by kill -9."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

__all__ = ["Presence"]


class Presence:
    """The lock of one worker, and a look at those of the others.

    Whoever makes one, or looks, holds the lock of the shared file that it is about: so nobody
    takes a worker that is just being looked at for another one.
    """

    def __init__(self, directory: Path, purpose: str, worker: int) -> None:
        self._directory = directory
        self._purpose = purpose
        self._own = self._open(worker)
        self._others: dict[int, int] = {}
        try:
            fcntl.flock(self._own, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._own)
            raise RuntimeError(f"worker {worker} of this instance is there already") from None

    def is_alive(self, worker: int) -> bool:
        """Whether another worker is there."""
        fd = self._others.get(worker)
        if fd is None:
            fd = self._others[worker] = self._open(worker)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(fd, fcntl.LOCK_UN)
        return False

    def close(self) -> None:
        """Be there no more."""
        for fd in (self._own, *self._others.values()):
            os.close(fd)

    def _open(self, worker: int) -> int:
        path = self._directory / f"{self._purpose}-worker-{worker}"
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
