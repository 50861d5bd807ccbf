"""Events about rate limits of callers, a part of the closed list in `events.py`."""

from __future__ import annotations

from typing import ClassVar

from docgraph.observe.event import Event, Level


class RequestLimited(Event, frozen=True):
    """A request was refused because of a limit for callers. Not logged."""

    level: ClassVar[Level] = Level.SILENT
    limit: str
    reason: str  # "rate" or "concurrent"


class LoadShed(Event, frozen=True):
    """A request was refused with 503 `overloaded`: docgraph itself has too much to do. Not logged.

    `bound` is the limit that was reached: requests, pool, memory, threads, uploads …
    """

    level: ClassVar[Level] = Level.SILENT
    bound: str


class CallersLimited(Event, frozen=True):
    """A limit refuses requests; said now and then, with how many since the last time.

    `client` and `user` are those of the last one.
    """

    level: ClassVar[Level] = Level.WARNING
    limit: str
    reason: str
    requests: int
    client: str
    user: str = ""
