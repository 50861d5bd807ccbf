"""Events about traces and their collector, a part of the closed list in `events.py`."""

from __future__ import annotations

from typing import ClassVar

from docgraph.observe.event import Event, Level
from docgraph.observe.tracing import RequestTrace


class StreamBegun(Event, frozen=True):
    """A request in a trace is answered by a stream: its head is out. Not logged."""

    level: ClassVar[Level] = Level.SILENT
    request_id: str
    method: str
    status: int
    duration: float  # seconds
    service: str
    trace: RequestTrace


class CollectorLost(Event, frozen=True):
    """The collector did not accept a `signal`, which is dropped; logged once."""

    level: ClassVar[Level] = Level.WARNING
    signal: str  # "traces" or "metrics"
    endpoint: str
    reason: str


class CollectorFound(Event, frozen=True):
    """The collector takes it again; so many messages were dropped meanwhile."""

    signal: str
    endpoint: str
    dropped: int
