"""Non-blocking log writer: a thread writes lines to a file descriptor.

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

from docgraph.observe.bus import emit
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
            lost += self._pop_dropped() + unwritten
            if lost and not unwritten:  # reported only where it can be read
                emit(LinesDropped(count=lost))
                lost = 0

    def _gather(self) -> list[Line]:
        first = self._lines.get()
        self._closing.wait(GATHER_SECONDS)
        return [first, *(self._lines.get() for _ in range(self._lines.qsize()))]

    def _pop_dropped(self) -> int:
        with self._drops:
            dropped, self._dropped = self._dropped, 0
        return dropped

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
