"""Process of a command: standard streams, signals, exit."""

from __future__ import annotations

import atexit
import errno
import io
import os
import select
import signal
import sys
import threading
from functools import partial
from types import FrameType
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO, cast

if TYPE_CHECKING:
    from docgraph.server.process.terminal import ControllingTerminal

_PATIENCE = 1.0  # seconds to wait for threads, such as those of plugins, and for readers
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class OutputError(Exception):
    """The result of a command could not be written."""

    def __init__(self, error: OSError) -> None:
        super().__init__(f"cannot write the output: {(error.strerror or 'unknown error').lower()}")
        self.is_quiet = error.errno == errno.EPIPE  # `| head` has read what it wanted


class _Descriptor(io.FileIO):
    """Stdout or stderr of the process, which survives broken pipes and full disks.

    A reader that disconnected or a full disk must not end a server, and an error message that
    cannot be written must not hide the exit code. Only a command whose result is lost fails.
    """

    def __init__(self, number: int, *, is_server: bool) -> None:
        super().__init__(number, "w", closefd=False)
        self._is_result = number == 1 and not is_server
        # Seconds that a reader has to make room in a pipe; a server does not wait twice for it.
        self._longest = self._patience = _PATIENCE if is_server else None

    def write(self, data: Any, /) -> int:
        """Write all bytes or drop them; raise `OutputError` for the result of a command."""
        left = memoryview(data).cast("B")
        size = len(left)
        try:
            while left:
                _, writable, _ = select.select((), (self,), (), self._patience)
                if not writable:
                    self._patience = 0.0
                    break
                # So much never blocks a pipe that is writable.
                left = left[super().write(left[: select.PIPE_BUF]) or 0 :]
                self._patience = self._longest
        except OSError as error:
            if self._is_result:
                self._is_result = False  # what is still buffered is lost with it
                raise OutputError(error) from None
        return size


def guard_streams(*, is_server: bool) -> None:
    """Let writes to stdout and stderr survive, whatever the other end does.

    A stream that the parent process has closed is replaced: otherwise files and sockets would get
    its number. Writing to it fails as before, because it is opened for reading.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDONLY)  # takes the lowest free number: this one
    sys.stdin = sys.stdin or open(0)  # noqa: SIM115 - for as long as the process lives
    sys.stdout = _guard(sys.stdout, 1, is_server=is_server)
    sys.stderr = _guard(sys.stderr, 2, is_server=is_server)


def _guard(stream: TextIO | None, number: int, *, is_server: bool) -> TextIO:
    """Return the stream, or a new one for a closed one, whose bytes a `_Descriptor` writes."""
    if stream:
        stream.flush()
    raw = _Descriptor(number, is_server=is_server)
    # Without a second buffer, which would write again what a signal has interrupted.
    return io.TextIOWrapper(
        cast("BinaryIO", raw),
        encoding=stream.encoding if stream else "utf-8",
        errors=(stream.errors if stream else None) or "backslashreplace",
        line_buffering=number != 1 or raw.isatty(),
    )


def end_start_by_signals() -> None:
    """End the start on a signal in order, with 0: a stopped server has not failed."""
    for number in _SIGNALS:
        signal.signal(number, _stop)
    for number in (signal.SIGUSR1, signal.SIGUSR2):  # until the server handles them
        signal.signal(number, signal.SIG_IGN)


def end_start_with_terminal() -> None:
    """End the start on SIGHUP if the terminal is closed; otherwise it has nothing to reload yet."""
    if not {"-h", "--help"}.isdisjoint(sys.argv):
        return  # nothing is started, and help needs none of these imports
    from docgraph.server.process.terminal import ControllingTerminal

    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, partial(_hang_up, ControllingTerminal()))


def _hang_up(terminal: ControllingTerminal, number: int, frame: FrameType | None) -> None:
    if terminal.is_gone():
        _stop(number, frame)


def _stop(number: int, frame: FrameType | None) -> None:
    for signum in _SIGNALS:
        signal.signal(signum, signal.SIG_IGN)  # no signal interrupts the cleanup
    raise SystemExit(0)


class _Exit:
    """The exit code of a process that does not wait for its threads."""

    code: int | None = None


def prepare_to_leave() -> None:
    """Register the exit code handler; call this first, so that `atexit` runs it last."""
    atexit.register(_end)


def leave(code: int) -> None:
    """End the process immediately after `atexit`, if a thread is still running.

    A shutdown does not wait for a password that is being hashed. Python would end such a thread
    when it returns from the library, whose frames cannot be unwound, and that would abort the
    process.
    """
    if threading.active_count() > 1:
        _Exit.code = code
        reached = threading.Event()
        atexit.register(reached.set)  # the last one registered runs first
        threading.Thread(target=_end_unless, args=(reached,), daemon=True).start()


def _end() -> None:
    if _Exit.code is not None:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        finally:
            os._exit(_Exit.code)


def _end_unless(reached: threading.Event) -> None:
    if not reached.wait(_PATIENCE):
        _end()
