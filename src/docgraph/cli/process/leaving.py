"""How a process that has served ends."""

from __future__ import annotations

import atexit
import os
import sys
import threading

__all__ = ["leave"]


def leave(code: int) -> None:
    """End the process at once, where a thread is still at work; else it ends by itself.

    A shutdown does not wait for a password that is being hashed. Python would end such a thread
    when it comes back from the library, whose frames cannot be unwound, and be aborted by that.
    """
    if threading.active_count() == 1:
        return
    try:
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(code)
