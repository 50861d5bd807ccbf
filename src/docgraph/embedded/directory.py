"""Data directory of the embedded MongoDB: permissions, lock file, port and log.

docgraph.lock   locked by the docgraph that owns the directory; its process id
mongod.json     the port of all starts, and the process id of the last mongod
mongod.log      the log of mongod, with one predecessor (mongod.log.1)
db/             the files of mongod
lib/            links to the libraries that the system lacks (mongod_setup.py)
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import ClassVar

from docgraph.embedded.errors import no_space
from docgraph.exchange.errors import StartupError

MAX_LOG_BYTES = 16 * 2**20
MAX_PORT = 65535
_EFFECTIVE = os.access in os.supports_effective_ids
_ELSEWHERE = "choose another directory with core.data-directory"


@dataclass(frozen=True, slots=True)
class Remembered:
    """State that outlives a run: the port of the replica set member and the last process id."""

    port: int | None = None
    pid: int | None = None


class DirectoryLock:
    """A lock that the system releases when its process ends, however it ends.

    A POSIX record lock belongs to the process, so that forked workers do not keep it alive. It is
    also lost when the process closes any other handle of the file, hence the list of held locks.
    """

    _held: ClassVar[dict[Path, int]] = {}

    def __init__(self, path: Path) -> None:
        self._path = path
        self._handle: int | None = None

    def acquire(self) -> bool:
        """Acquire the lock if it is free; a second call by the same owner changes nothing."""
        if self._is_held_here():
            return self._handle is not None
        handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600)
        if not _lock(handle):
            os.close(handle)
            return False
        os.ftruncate(handle, 0)
        os.lseek(handle, 0, os.SEEK_SET)
        os.write(handle, str(os.getpid()).encode())
        self._handle = handle
        self._held[self._path] = os.getpid()
        return True

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        if self._handle is not None:
            self._held.pop(self._path, None)
            os.close(self._handle)
            self._handle = None

    def is_held(self) -> bool:
        """Return whether any process holds the lock now."""
        if self._is_held_here():
            return True
        try:
            handle = os.open(self._path, os.O_RDWR)
        except OSError:  # no directory, no lock, or another user's: not ours to use
            return False
        try:
            os.lockf(handle, os.F_TEST, 0)  # tests without locking, which a start might notice
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return True
            raise
        finally:
            os.close(handle)
        return False

    def read_holder(self) -> int | None:
        """Return the process id that the last holder wrote."""
        return os.getpid() if self._is_held_here() else _read_pid(self._path)

    def _is_held_here(self) -> bool:
        return self._held.get(self._path) == os.getpid()


def _lock(handle: int) -> bool:
    try:
        fcntl.lockf(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in (errno.EACCES, errno.EAGAIN, errno.EDEADLK):
            return False
        raise
    return True


class DataDirectory:
    """A directory of the user's choice, in docgraph's layout."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path).resolve()
        self.data = self.path / "db"
        self.log = self.path / "mongod.log"
        self.libraries = self.path / "lib"
        self.lock = DirectoryLock(self.path / "docgraph.lock")
        self._memory = self.path / "mongod.json"

    def claim(self) -> None:
        """Create the directory if needed and lock it for this process."""
        try:
            self._make()
            locked = self.lock.acquire()
        except OSError as error:
            raise describe_os_error(error, self.path) from error
        if not locked:
            holder = self.lock.read_holder()
            raise StartupError(
                f"data directory {self.path} in use by process {holder or 'unknown'}",
                hint=f"stop that docgraph first, or {_ELSEWHERE}",
            )

    def rotate_log(self) -> None:
        """Rotate a large log, so that at most two exist."""
        if self.log.exists() and self.log.stat().st_size > MAX_LOG_BYTES:
            self.log.replace(self.log.with_name(f"{self.log.name}.1"))

    def recall(self) -> Remembered:
        """Load the saved state; an invalid file counts as none."""
        try:
            content = json.loads(self._memory.read_bytes())
            port, pid = content.get("port"), content.get("pid")
        except (OSError, ValueError, AttributeError):
            return Remembered()
        return Remembered(
            port if isinstance(port, int) and 0 < port <= MAX_PORT else None,
            pid if isinstance(pid, int) and pid > 1 else None,
        )

    def remember(self, memory: Remembered) -> None:
        """Save the state for the next start atomically."""
        draft = self._memory.with_suffix(".new")
        try:
            draft.unlink(missing_ok=True)  # of a start that was killed, with its own permissions
            with open(draft, "x", opener=partial(os.open, mode=0o600)) as file:
                json.dump(asdict(memory), file)
            draft.replace(self._memory)
        except OSError as error:
            raise describe_os_error(error, self.path) from error

    def read_mongod_pid(self) -> int | None:
        """Return the process id that `mongod` itself left in its lock file."""
        return _read_pid(self.data / "mongod.lock")

    def _make(self) -> None:
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.data.mkdir(mode=0o700, exist_ok=True)
        for part in (self.path, self.data):
            if not os.access(part, os.R_OK | os.W_OK | os.X_OK, effective_ids=_EFFECTIVE):
                raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(part))


def _read_pid(path: Path) -> int | None:
    try:
        return int(path.read_bytes())
    except (OSError, ValueError):
        return None


def describe_os_error(error: OSError, directory: Path) -> StartupError:
    """Explain the system's error for the configured directory."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return no_space(directory)
    if isinstance(error, FileExistsError | NotADirectoryError):
        return StartupError(
            f"data directory {directory} is not a directory: {error.filename} is a file",
            hint=f"move that file away, or {_ELSEWHERE}",
        )
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return StartupError(
            f"data directory {directory} is not writable for this user: {error.filename}",
            hint=f"give this user the directory and all in it (chown -R), or {_ELSEWHERE}",
        )
    return StartupError(
        f"data directory {directory} cannot be used: {error.strerror}", hint=_ELSEWHERE
    )
