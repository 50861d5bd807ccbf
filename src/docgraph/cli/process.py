"""Process of a command: standard streams, signals, exit."""

from __future__ import annotations

import atexit
import os
import signal
import sys
import threading
from types import FrameType

__all__ = ["end_start_by_signals", "leave", "prepare_to_leave", "replace_closed_streams"]

_PATIENCE = 1.0  # seconds to wait for threads, such as those of plugins
_SIGNALS = (signal.SIGTERM, signal.SIGINT)


# --- standard streams that the parent process has closed ------------------------------------------


def replace_closed_streams() -> None:
    """Replace closed streams by /dev/null; otherwise files and sockets would get their numbers.

    Python itself has None instead of such a stream. Everything that is written to it fails or goes
    to whatever has its number by then.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number: this one
    sys.stdin = sys.stdin or open(0)  # noqa: SIM115 - for as long as the process lives
    sys.stdout = sys.stdout or open(1, "w")  # noqa: SIM115 - as above
    sys.stderr = sys.stderr or open(2, "w")  # noqa: SIM115 - as above


# --- signals that arrive before the server handles them -------------------------------------------


def end_start_by_signals() -> None:
    """End the start on a signal in order, with 0: a stopped server has not failed."""
    for one in _SIGNALS:
        signal.signal(one, _stop)


def _stop(number: int, frame: FrameType | None) -> None:
    for one in _SIGNALS:
        signal.signal(one, signal.SIG_IGN)  # no signal interrupts the cleanup
    raise SystemExit(0)


# --- how a process that has served ends -----------------------------------------------------------


class _Exit:
    """The exit code of a process that does not wait for its threads."""

    code: int | None = None


def prepare_to_leave() -> None:
    """Call this first of all: `atexit` runs what is registered first last."""
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
