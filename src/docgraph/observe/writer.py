"""Log output: a thread that writes lines, and log files that are opened again (log rotation).

A slow reader of stderr (a full pipe, a stopped terminal) must not block the event loop. Lines wait
in a bounded queue for a thread, and are dropped and counted when it is full.
"""

from __future__ import annotations

import fcntl
import os
import select
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import NamedTuple

from docgraph.observe import emit
from docgraph.observe.events import LinesDropped, ObserverFailed

QUEUE_LINES = 16_384
# A short wait collects lines: one write for many, and no thread switch for each of them. Every
# switch takes the interpreter away from the event loop, so there should be few.
GATHER_SECONDS = 0.02
CHUNK_BYTES = 64 << 10
CLOSE_STEPS = 20


# A line, or a function that builds it: expensive work is done here for many lines together, not
# while a request is answered.
Line = bytes | Callable[[], bytes]


class LineWriter:
    """Accepts lines from any thread, or from a signal handler, and writes them in order."""

    def __init__(self, fd: int, *, queue_lines: int = QUEUE_LINES) -> None:
        self._fd = fd
        self._limit = queue_lines
        mode = os.fstat(fd).st_mode
        # Writes to a pipe are atomic up to PIPE_BUF (POSIX): lines of several workers do not mix.
        self._chunk_bytes = select.PIPE_BUF if stat.S_ISFIFO(mode) else CHUNK_BYTES
        if stat.S_ISREG(mode):
            # A file that is emptied while it is open (`copytruncate`) is written from its start.
            fcntl.fcntl(fd, fcntl.F_SETFL, fcntl.fcntl(fd, fcntl.F_GETFL) | os.O_APPEND)
        self._takes_turns = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)
        # Its `put` never takes a lock: a signal handler may interrupt the main thread inside it.
        self._lines: SimpleQueue[Line] = SimpleQueue()
        self._dropped = 0
        self._drops = threading.RLock()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="docgraph-log", daemon=True)
        self._thread.start()

    def put(self, line: Line) -> None:
        """Queue a line that ends in a line break; never block, whatever the reader does."""
        if self._lines.qsize() < self._limit:
            self._lines.put(line)
        else:
            with self._drops:
                self._dropped += 1

    def close(self, timeout: float = 2.0) -> None:
        """Write the queued lines and stop; give up after `timeout` if the reader does not read."""
        self._closing.set()
        self._lines.put(b"")  # wakes the thread, writes nothing
        # In steps: if the whole machine is suspended, the time until it resumes is one of them.
        for _ in range(CLOSE_STEPS):
            self._thread.join(timeout / CLOSE_STEPS)

    def _run(self) -> None:
        lost = 0
        while not (self._closing.is_set() and self._lines.empty()):
            lines = [_make(line) for line in self._gather()]
            unwritten = self._write(lines)
            with self._drops:
                dropped, self._dropped = self._dropped, 0
            lost += dropped + unwritten
            if lost and not unwritten:  # reported only where it can be read
                emit(LinesDropped(count=lost))
                lost = 0

    def _gather(self) -> list[Line]:
        first = self._lines.get()
        self._closing.wait(GATHER_SECONDS)
        return [first, *(self._lines.get() for _ in range(self._lines.qsize()))]

    def _write(self, lines: list[bytes]) -> int:
        """Write all lines; return how many of them could not be written."""
        written = 0
        for count, chunk in _join(lines, self._chunk_bytes):
            try:
                self._write_chunk(chunk)
            except OSError:  # no reader or a full disk: there is nowhere to report it
                return len(lines) - written
            written += count
        return 0

    def _write_chunk(self, chunk: bytes) -> None:
        with _turn(self._fd, self._takes_turns):
            view = memoryview(chunk)
            while view:
                try:
                    view = view[os.write(self._fd, view) :]
                except BlockingIOError:  # another process made the shared descriptor non-blocking
                    select.select((), (self._fd,), (), 1.0)


def _make(line: Line) -> bytes:
    if isinstance(line, bytes):
        return line
    try:
        return line()
    except Exception as error:  # lose one line, not the thread
        emit(ObserverFailed(event="line", error=error))
        return b""


@contextmanager
def _turn(fd: int, takes_turns: bool) -> Iterator[None]:
    """Exclude other workers from writing: a line may be too long for an atomic write."""
    if not takes_turns or sys.platform != "linux":  # elsewhere such files cannot be locked
        yield
        return
    fcntl.lockf(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.lockf(fd, fcntl.LOCK_UN)


def _join(lines: list[bytes], limit: int) -> Iterator[tuple[int, bytes]]:
    """Yield a number of lines and their bytes: at most `limit`, unless a single line is longer."""
    group: list[bytes] = []
    size = 0
    for line in lines:
        if group and size + len(line) > limit:
            yield len(group), b"".join(group)
            group, size = [], 0
        group.append(line)
        size += len(line)
    if group:
        yield len(group), b"".join(group)


class _LogFile(NamedTuple):
    """The path and the permissions of a file at the start."""

    path: str
    mode: int


# By descriptor. Standard streams belong to the whole process, and so does this.
_files: dict[int, _LogFile] = {}


def remember_log_files() -> None:
    """Record where stdout and stderr are written to; call this before other processes are forked.

    Only Linux tells the path of an open file.
    """
    for descriptor in (1, 2):
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            continue
        try:
            path = os.readlink(f"/proc/self/fd/{descriptor}")
            if os.path.samestat(status, os.stat(path)):
                _files[descriptor] = _LogFile(path, stat.S_IMODE(status.st_mode))
        except OSError:
            continue  # already deleted, or not on Linux: there is nothing to open again


def reopen_log_files() -> tuple[str, ...]:
    """Open the files that are no longer at their paths; return these paths. Raises `OSError`.

    Log files are regular files that stdout and stderr were redirected to. A rotation renames the
    file, and the process continues to write to the renamed one. It remembers the path from its
    start, so that it can open a new file there. Forked processes inherit the paths.
    """
    opened = set()
    for descriptor, (path, mode) in _files.items():
        if _is_current(descriptor, path):
            continue
        fresh = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.fchmod(fresh, mode)
            os.dup2(fresh, descriptor)
        finally:
            os.close(fresh)
        opened.add(path)
    return tuple(sorted(opened))


def _is_current(descriptor: int, path: str) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False
