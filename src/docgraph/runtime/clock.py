"""The clock that lifetimes are measured with; for what one instance keeps, never for a date.

Nobody can set it, and it goes on while the machine sleeps, where the system has such a clock. All
processes of a machine read the same one, until its next start.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

__all__ = ["elapsed"]

_BOOT_TIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)  # Linux

elapsed: Callable[[], float] = (
    time.monotonic if _BOOT_TIME is None else partial(time.clock_gettime, _BOOT_TIME)
)
