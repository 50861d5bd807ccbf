"""Events about the cache of answers, a part of the closed list in `events.py`."""

from __future__ import annotations

from typing import ClassVar

from docgraph.observe.event import Event, Level


class CacheUsed(Event, frozen=True):
    """A request to an app with a cache was answered. Not logged.

    `result` is `hit`, `miss` or `bypass`. `reason` says why the cache was bypassed; `first`: a miss
    was not stored, since the request was not missed before, or that was long ago;
    `collapsed`: a hit is the answer of an equal request that was in progress.
    """

    level: ClassVar[Level] = Level.SILENT
    result: str
    reason: str = ""


class CacheDropped(Event, frozen=True):
    """An answer left the cache. Not logged.

    `reason`: `changed` (a change of the database), `written` (through this instance), `expired`,
    or `evicted` for others.
    """

    level: ClassVar[Level] = Level.SILENT
    reason: str


class CacheSize(Event, frozen=True):
    """The cached answers of a process need this many bytes. Not logged."""

    level: ClassVar[Level] = Level.SILENT
    bytes: int


class CacheLag(Event, frozen=True):
    """How old the known state of a database is, in seconds. Not logged."""

    level: ClassVar[Level] = Level.SILENT
    db: str
    seconds: float


class WatchReset(Event, frozen=True):
    """Changes of a database were not followed for a moment: all answers count as outdated."""

    level: ClassVar[Level] = Level.INFO
    db: str
    reason: str
    answers: int
