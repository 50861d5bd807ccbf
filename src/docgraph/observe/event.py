"""Event base classes, one for each level."""

from __future__ import annotations

import re
from enum import IntEnum
from typing import ClassVar

from msgspec import Struct


class Level(IntEnum):
    """The level of an event; the numbers are those of `logging`."""

    SILENT = 0  # for metrics only, never logged
    DEBUG = 10
    INFO = 20
    WARNING = 30
    ERROR = 40


class Event(Struct, frozen=True):
    """Base of all events: a name (`RequestFinished` is `request-finished`) and a level."""

    name: ClassVar[str]
    level: ClassVar[Level] = Level.INFO

    def __init_subclass__(cls) -> None:
        cls.name = re.sub(r"(?<!^)(?=[A-Z])", "-", cls.__name__).lower()


class SilentEvent(Event, frozen=True):
    """An event for metrics and traces, which is not logged."""

    level: ClassVar[Level] = Level.SILENT


class DebugEvent(Event, frozen=True):
    """An event that helps to find a fault."""

    level: ClassVar[Level] = Level.DEBUG


class WarningEvent(Event, frozen=True):
    """An event that operators should know of."""

    level: ClassVar[Level] = Level.WARNING


class ErrorEvent(Event, frozen=True):
    """An event that operators have to act on."""

    level: ClassVar[Level] = Level.ERROR
