"""Unix domain socket of the http listener: a file that must not belong to another process.

A process that was killed leaves its file behind. Such a file refuses connections, and is replaced;
one that accepts them belongs to a server that runs, and stays. The directory is locked from this
check until the new socket listens, so that two servers that start together do not both replace it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final, NamedTuple

from docgraph.exchange import StartupError

_OPTION: Final = "/http-listener/socket"
_LONGEST: Final = 107  # bytes of a path; the kernel has room for no more
_PATIENCE: Final = 5.0  # seconds that another process may hold the lock of the directory
_PAUSE: Final = 0.02


def listen_at_path(path: str, mode: int, backlog: int) -> socket.socket:
    """Listen at a path with these permissions; raises `StartupError`."""
    if len(os.fsencode(path)) > _LONGEST:
        raise StartupError(
            f"the path of the socket is longer than {_LONGEST} bytes: {path}",
            hint=f"choose a shorter one with {_OPTION}",
        )
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        with _locked(os.path.dirname(path)):
            _remove_stale(path)
            listener.bind(path)
            os.chmod(path, mode)  # before anyone can connect
            listener.listen(backlog)
    except OSError as error:
        listener.close()
        raise _explain(error, path) from error
    except BaseException:
        listener.close()
        raise
    listener.setblocking(False)
    return listener


class SocketFile(NamedTuple):
    """The file of a listening socket, as it was created."""

    path: str
    device: int
    inode: int

    @classmethod
    def find(cls, path: str) -> SocketFile:
        """Return the file at the path."""
        found = os.lstat(path)
        return cls(path, found.st_dev, found.st_ino)

    def remove(self) -> None:
        """Remove the file, unless another process has replaced it."""
        with suppress(OSError), _locked(os.path.dirname(self.path)):  # it is already removed
            if SocketFile.find(self.path) == self:
                os.unlink(self.path)


def _remove_stale(path: str) -> None:
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise StartupError(
            f"{path} exists and is not a socket",
            hint=f"remove it, or choose another path with {_OPTION}",
        )
    if _accepts(path):
        raise StartupError(
            f"another process listens at {path}",
            hint=f"stop it, or choose another path with {_OPTION}",
        )
    os.unlink(path)


def _accepts(path: str) -> bool:
    """Return whether a process listens there, even if it is too busy to accept."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(path)
        except BlockingIOError:
            return True
        except ConnectionRefusedError:
            return False
    return True


@contextmanager
def _locked(directory: str) -> Iterator[None]:
    """Hold the lock of the directory."""
    handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_PAUSE)
        yield
    finally:
        os.close(handle)


def _explain(error: OSError, path: str) -> StartupError:
    if isinstance(error, BlockingIOError):
        return StartupError(f"another process has locked {Path(path).parent}", hint="try again")
    hint = None
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        hint = f"choose a directory that the server may write to with {_OPTION}"
    elif error.errno in (errno.ENOENT, errno.ENOTDIR):
        hint = f"create the directory, or choose another path with {_OPTION}"
    return StartupError(
        f"cannot listen at {path}: {os.strerror(error.errno or 0).lower()}", hint=hint
    )
