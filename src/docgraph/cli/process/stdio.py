"""Standard streams that whoever started us has closed."""

from __future__ import annotations

import os
import sys

__all__ = ["replace_closed_streams"]


def replace_closed_streams() -> None:
    """Let the closed ones lead nowhere; else the first files and sockets would take their places.

    Python itself has None instead of such a stream, and everything that is written fails or
    goes to whatever has the number of it by then.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest number that is free: this one
    sys.stdin = sys.stdin or open(0)  # noqa: SIM115 - for as long as the process lives
    sys.stdout = sys.stdout or open(1, "w")  # noqa: SIM115
    sys.stderr = sys.stderr or open(2, "w")  # noqa: SIM115
