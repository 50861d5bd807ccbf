"""Instance directory, shared counters and secrets of the worker processes.

The parent creates the instance once and passes it to each worker, by pickling or by fork. The
directory is private to the user and removed at the end. The next instance that starts removes the
directory of an instance that was killed.

Workers without a parent of ours, such as those of an ASGI server, join a directory by its name. The
first one creates its files, with the secret in one of them; the last one removes them.
"""

from __future__ import annotations

import fcntl
import hashlib
import hmac
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from docgraph.exchange import StartupError
from docgraph.runtime.rate_buckets import Buckets, Quota
from docgraph.runtime.shared_memory import (
    Generations,
    WindowCounters,
    create_counters,
    create_generations,
    explain_no_room,
)
from docgraph.runtime.shared_results import SharedResults, create_results

PREFIX = "docgraph-instance-"
PARENT = 0  # the number of the parent; workers count from 1
_IN_MEMORY = Path("/dev/shm")  # noqa: S108 - a private directory is made there
_SECRET_BYTES = 32
LOGINS, CALLS, SLOW_LOGINS = _TABLES = ("counters", "calls", "slow-logins")
_RESULTS = "results"


@dataclass(frozen=True, slots=True)
class Instance:
    """A picklable handle; `worker` is the number of the process that holds it."""

    id: str
    directory: Path
    master: bytes = field(repr=False)
    worker: int = PARENT

    def secret(self, purpose: str) -> bytes:
        """Return 32 bytes for a purpose (`"tokens"`), equal in all workers of this instance only.

        The secret of one purpose reveals nothing about another's.
        """
        return hmac.digest(self.master, purpose.encode(), hashlib.sha256)

    def for_worker(self, number: int) -> Instance:
        """Return the handle of a worker; numbers begin at 1."""
        return replace(self, worker=number)

    def open_generations(self) -> Generations:
        return Generations(self.directory / "generations")

    def open_counters(self, seconds: float, table: str = LOGINS) -> WindowCounters:
        """Open the shared counters of hits within the last `seconds` for this process.

        All counters of a table must have the same `seconds`: others would push its counts out.
        """
        return WindowCounters(self.directory / table, seconds, self.secret(table))

    def open_results(self) -> SharedResults:
        """Open the results of password checks, which the workers share, for this process."""
        return SharedResults(self.directory / _RESULTS)

    def open_buckets(self, quotas: Sequence[Quota], workers: int) -> Buckets:
        """Open the shared rate limit buckets for this process; the first caller creates them."""
        return Buckets(self.directory, self.secret("limits"), quotas, workers, self.worker)

    @property
    def metrics_directory(self) -> Path:
        return self.directory / "metrics"


@contextmanager
def create_instance(parent: Path | None = None) -> Iterator[Instance]:
    """Create an instance below `parent`, else in the temporary directory; remove it at the end.

    Only the process that created it removes it: a forked child that leaves here removes nothing.
    """
    if parent is None:
        try:
            parent = Path(tempfile.gettempdir())
        except FileNotFoundError:  # a container with a read-only file system has only memory
            parent = _IN_MEMORY
    for abandoned in filter(_is_abandoned, parent.glob(f"{PREFIX}*")):
        shutil.rmtree(abandoned, ignore_errors=True)
    directory, lock = _make(parent)
    owner = os.getpid()
    try:
        _create_files(directory)
        yield Instance(
            id=directory.name.removeprefix(PREFIX),
            directory=directory,
            master=secrets.token_bytes(_SECRET_BYTES),
        )
    finally:
        if os.getpid() == owner:
            shutil.rmtree(directory, ignore_errors=True)
        os.close(lock)


def _create_files(directory: Path) -> None:
    create_generations(directory / "generations")
    for table in _TABLES:
        create_counters(directory / table)
    create_results(directory / _RESULTS)


_SHARED, _MASTER = f"{PREFIX}shared", "secret"
_JOINING, _LIVING = "joining.lock", "living.lock"


@contextmanager
def join_instance(directory: Path, workers: int) -> Iterator[Instance]:
    """Join the processes that share a directory, as the worker with the lowest free number.

    Every process holds a lock as long as it lives, however it ends. Who finds no other process
    creates the files again, with a new secret.
    """
    _check_private(directory)
    shared = directory / _SHARED  # and nothing else in the directory is ever removed
    with ExitStack() as locks:
        with _locked(directory / _JOINING):
            living = locks.enter_context(_opened(directory / _LIVING))
            if _try_lock(living):
                shutil.rmtree(shared, ignore_errors=True)
                shared.mkdir(mode=0o700)
                _create_files(shared)
                _write_secret(shared / _MASTER)
            fcntl.flock(living, fcntl.LOCK_SH)
            number = next(
                (
                    number
                    for number in range(1, workers + 1)
                    if _try_lock(locks.enter_context(_opened(directory / f"worker-{number}.lock")))
                ),
                None,
            )
        if number is None:
            raise StartupError(
                f"more than {workers} processes share the instance directory {directory}",
                hint="set /core/workers to the number of processes of the server",
            )
        try:
            name = hashlib.sha256(os.fsencode(directory.resolve())).hexdigest()[:8]
            yield Instance(name, shared, (shared / _MASTER).read_bytes(), number)
        finally:
            with _locked(directory / _JOINING):
                fcntl.flock(living, fcntl.LOCK_UN)
                if _try_lock(living):
                    shutil.rmtree(shared, ignore_errors=True)


def _check_private(directory: Path) -> None:
    """Create the directory; reject one that other users could read or replace."""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = directory.lstat()
    except OSError as error:
        reason = (error.strerror or "unknown error").lower()
        raise StartupError(f"cannot use the instance directory {directory}: {reason}") from None
    is_private = stat.S_ISDIR(status.st_mode) and status.st_uid == os.getuid()
    if not is_private or status.st_mode & 0o077:
        raise StartupError(
            f"the instance directory {directory} is not private to this user",
            hint="name a directory that does not exist yet, or remove the permissions of others",
        )


def _write_secret(path: Path) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(secrets.token_bytes(_SECRET_BYTES))


@contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with _opened(path) as descriptor:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _make(parent: Path) -> tuple[Path, int]:
    """Create a new directory, and the lock that marks it as in use."""
    try:
        directory = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        return directory, _lock(directory)
    except OSError as error:
        raise explain_no_room(parent, error) from error


def _lock(directory: Path) -> int:
    """Mark the instance as alive by a lock that ends with this process, however it ends."""
    fresh = directory / "lock.new"
    fd = os.open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    fresh.rename(directory / "lock")  # a living instance always holds its `lock`
    return fd


def _is_abandoned(directory: Path) -> bool:
    """Return whether the directory is ours and complete, and no process holds its lock."""
    try:
        status = directory.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return False
        fd = os.open(directory / "lock", os.O_RDWR | os.O_NOFOLLOW)
    except OSError:
        return False  # removed in the meantime, or being created
    try:
        return _try_lock(fd)
    finally:
        os.close(fd)
