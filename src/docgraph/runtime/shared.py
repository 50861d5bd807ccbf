"""Shared memory of worker processes: numbers across forks, and memory-mapped files with a lock.

Workers open a file by its path, which also works with spawned processes. It has no resource tracker
that would remove it while other processes use it, and it is removed with its directory.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import secrets
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from struct import calcsize
from typing import Literal

from docgraph.exchange.errors import StartupError

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
    """Created once per file: a request may lock it several times, and a generator costs more.

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
