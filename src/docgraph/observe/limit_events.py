"""Events about rate limits of callers, a part of the closed list in `events.py`."""

from __future__ import annotations

from typing import ClassVar

from docgraph.observe.event import Event, Level

__all__ = ["CallersLimited", "RequestLimited"]


class RequestLimited(Event, frozen=True):
    """A request was refused because of a limit for callers. Not logged."""

    level: ClassVar[Level] = Level.SILENT
    limit: str
    reason: str  # "rate" or "concurrent"


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
