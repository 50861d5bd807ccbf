"""Wrapper that executes `mongod` in its own process, tied to the lifetime of docgraph.

This is a script, not a module to import: `python -I -S exec.py OWNER MONGOD ARGUMENT...`. The
kernel (Linux) sends SIGTERM when the owner dies, also by `kill -9`. This is set here, in a program
of one thread: between fork and exec of a threaded program (`preexec_fn`) almost nothing is safe.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from contextlib import suppress

PR_SET_PDEATHSIG = 1
CANNOT_EXECUTE = 126


def main(owner: int, command: list[str]) -> None:
    """Tie this process to its parent, then become `mongod`."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if os.getppid() != owner:  # it died before the tie was set
        sys.exit(1)
    try:
        os.execv(command[0], command)  # noqa: S606
    except OSError as error:
        with suppress(OSError):  # no reader: the exit code says it
            os.write(2, b"docgraph: cannot execute: errno %d\n" % (error.errno or 0))
        sys.exit(CANNOT_EXECUTE)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
