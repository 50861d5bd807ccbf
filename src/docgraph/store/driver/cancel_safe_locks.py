"""Cancellation-safe locks: fix how the driver waits for a server or a connection.

The driver waits with `asyncio.wait_for`. Before Python 3.12 that runs `Condition.wait` in a task of
its own, which reacquires the lock after the timeout. A waiter that is cancelled in that moment
continues without the lock and releases it nevertheless: the lock of another task, or none, which is
an error. The task then holds the lock forever. With the lock of the topology, no command of the
process finds a server any more, and no monitor can record a response. From 3.12 on there is no such
task.
"""

from __future__ import annotations

import asyncio
import sys

from pymongo.asynchronous import pool, topology
from pymongo.lock import Condition

_NAME = "_async_cond_wait"


def fix_waiting() -> None:
    """Let the driver wait in the task that holds the lock; do nothing if it already does."""
    if sys.version_info < (3, 12):
        for module in (pool, topology):
            if _NAME in vars(module):
                vars(module)[_NAME] = _wait


async def _wait(condition: Condition, timeout: float | None) -> bool:  # noqa: ASYNC109
    """Return whether it was notified before the timeout; the lock is always reacquired."""
    try:
        async with asyncio.timeout(timeout):
            return await condition.wait()
    except TimeoutError:
        return False
