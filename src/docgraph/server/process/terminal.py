"""Controlling terminal: SIGHUP means that it is closed, or asks for a reload."""

from __future__ import annotations

import errno
import os
import signal


class ControllingTerminal:
    """The terminal of this process when it started, if it had one and should end with it.

    `nohup` lets a process ignore SIGHUP, so that it outlives its terminal.
    """

    def __init__(self) -> None:
        is_bound = signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        self._exists = is_bound and _try_open() is None

    def is_gone(self) -> bool:
        """Return whether there was a terminal, and is none any more."""
        return self._exists and _try_open() in (errno.ENXIO, errno.EIO)


def _try_open() -> int | None:
    """Open the terminal; return the error number if that fails."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK))
    except OSError as error:
        return error.errno
    return None
