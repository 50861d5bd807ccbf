"""A mapped file that several processes read and write, with a lock around what must not mix.

A file that workers open by its path works with spawned processes, has no resource tracker that
would remove it under the others when one of them ends, and vanishes with its directory.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import secrets
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

__all__ = ["SharedFile", "create_shared", "make_once"]


def make_once(path: Path, make: Callable[[Path], None]) -> None:
    """Make the file unless another worker has done so; it appears whole or not at all."""
    if path.exists():
        return
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        make(fresh)
        os.link(fresh, path)
    except FileExistsError:
        pass  # the other worker was faster, and its file is as good
    finally:
        fresh.unlink(missing_ok=True)


def create_shared(path: Path, size: int) -> None:
    """Make the file, all bytes 0; once per instance, before any worker opens it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.ftruncate(fd, size)
    finally:
        os.close(fd)


class SharedFile:
    """The file as one process sees it; `close` when done."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR)
        self._lock = _Lock(self._fd)
        self.memory = mmap.mmap(self._fd, 0)

    def locked(self) -> AbstractContextManager[None]:
        """Keep all others out, for as short a time as possible: somebody's event loop waits."""
        return self._lock

    def close(self) -> None:
        """Unmap and close; the file stays for the others."""
        self.memory.close()
        os.close(self._fd)


class _Lock(AbstractContextManager[None]):
    """Made once for each file: a request may take it several times, and a generator costs more.

    The file lock excludes other processes and ends with its holder, even by kill -9; it does not
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
