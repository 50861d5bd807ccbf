"""Monotonic clock for lifetimes within one instance; never for dates.

The clock cannot be set, and it includes the time when the machine sleeps, where the system has
such a clock. All processes of a machine share it until the next reboot.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Final

_BOOT_TIME: Final[int | None] = getattr(time, "CLOCK_BOOTTIME", None)  # Linux

elapsed: Callable[[], float] = (
    time.monotonic if _BOOT_TIME is None else partial(time.clock_gettime, _BOOT_TIME)
)
