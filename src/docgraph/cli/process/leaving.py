"""How a process that has served ends."""

from __future__ import annotations

import atexit
import os
import sys
import threading

__all__ = ["leave", "prepare_to_leave"]

_PATIENCE = 1.0  # seconds for threads that Python waits for: such as plugins start


class _Exit:
    """The exit code of a process that is not to wait for its threads."""

    code: int | None = None


def prepare_to_leave() -> None:
    """Call this first of all: what is registered first is what `atexit` does last."""
    atexit.register(_end)


def leave(code: int) -> None:
    """Have the process end at once after `atexit`, where a thread is still at work.

    A shutdown does not wait for a password that is being hashed. Python would end such a thread
    when it comes back from the library, whose frames cannot be unwound, and be aborted by that.
    """
    if threading.active_count() > 1:
        _Exit.code = code
        reached = threading.Event()
        atexit.register(reached.set)  # the last that is registered is done first
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
