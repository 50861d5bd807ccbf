"""Run `mongod` in this process's place, tied to the life of the docgraph that asked for it.

A script, not a module to import: `python -I -S exec.py OWNER MONGOD ARGUMENT...`. The
kernel (Linux) sends SIGTERM when the owner dies, by `kill -9` too. It is set here, in a program of
one thread: between fork and exec of a threaded one (`preexec_fn`) next to nothing is safe.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1
CANNOT_EXECUTE = 126


def main(owner: int, command: list[str]) -> None:
    """Tie this process to its parent, then become `mongod`."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))
    if os.getppid() != owner:  # it died before the kernel knew of the tie
        sys.exit(1)
    try:
        os.execv(command[0], command)  # noqa: S606
    except OSError as error:
        sys.stderr.write(f"docgraph: cannot execute: errno {error.errno}\n")
        sys.exit(CANNOT_EXECUTE)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
