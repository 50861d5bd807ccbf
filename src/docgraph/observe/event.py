"""What all events have, and how much each matters; the list of them is in `events.py`."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import ClassVar

from msgspec import Struct

__all__ = ["Event", "Level"]


class Level(IntEnum):
    """How much an event matters; the numbers are those of `logging`."""

    SILENT = 0  # for the metrics only, never a line in the log
    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


class Event(Struct, frozen=True):
    """What all events have: a name (`RequestFinished` is `request-finished`) and a level."""

    name: ClassVar[str]
    level: ClassVar[Level] = Level.INFO

    def __init_subclass__(cls) -> None:
        cls.name = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()
