"""The driver's waiting for a server or a connection, so that its locks outlive every cancellation.

The driver waits with `asyncio.wait_for`. Before Python 3.12 that runs `Condition.wait` in a task of
its own, which takes the lock back when the time is up. Whoever is cancelled in that moment goes on
without the lock and releases it all the same: that of somebody else, or none, which is an error.
The task then holds the lock for good, and with the lock of the topology no command of the process
finds a server any more, and no monitor notes an answer. From 3.12 on there is no such task.
"""

from __future__ import annotations

import asyncio
import sys

from pymongo.asynchronous import pool, topology
from pymongo.lock import Condition

__all__ = ["mend_waiting"]

_NAME = "_async_cond_wait"


def mend_waiting() -> None:
    """Have the driver wait in the task that holds the lock; where it does so already, nothing."""
    if sys.version_info < (3, 12):
        for module in (pool, topology):
            if _NAME in vars(module):
                vars(module)[_NAME] = _wait


async def _wait(condition: Condition, timeout: float | None) -> bool:  # noqa: ASYNC109
    """Whether it was notified before the time was up; the lock is held again in any case."""
    try:
        async with asyncio.timeout(timeout):
            return await condition.wait()
    except TimeoutError:
        return False
