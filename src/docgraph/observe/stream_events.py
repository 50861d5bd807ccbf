"""Events about change streams, a part of the closed list in `events.py`."""

from __future__ import annotations

from typing import ClassVar

from docgraph.observe.event import Event, Level


class StreamClient(Event, frozen=True):
    """A client has joined a change stream, or left it for a `reason`. Not logged."""

    level: ClassVar[Level] = Level.SILENT
    transport: str  # "websocket" or "sse"
    reason: str = ""  # "left", "slow", "rights", …: a word of a small set


class StreamTold(Event, frozen=True):
    """One event was sent to the clients of a change stream. Not logged."""

    level: ClassVar[Level] = Level.SILENT
    clients: int
    lag: float | None = None  # seconds since it happened, by the clock of the database


class StreamCursors(Event, frozen=True):
    """So many change streams of the database are open now, in this worker. Not logged."""

    level: ClassVar[Level] = Level.SILENT
    count: int


class StreamFailed(Event, frozen=True):
    """A change stream of the database cannot go on; its clients were closed."""

    level: ClassVar[Level] = Level.WARNING
    db: str
    collection: str
    stream: str
    error: BaseException


class StreamStageFailed(Event, frozen=True):
    """A stage of a change stream failed on an event; its clients were notified and stay."""

    level: ClassVar[Level] = Level.WARNING
    db: str
    collection: str
    stream: str
    error: BaseException


class StreamSampled(Event, frozen=True):
    """A decision of the index of row filters was compared with the database's. Not logged."""

    level: ClassVar[Level] = Level.SILENT
    outcome: str  # "same", "different", or "failed": the database did not answer


class LiveQueryChanged(Event, frozen=True):
    """A live query has begun, or has ended for a `reason`. Not logged."""

    level: ClassVar[Level] = Level.SILENT
    transport: str  # "websocket" or "sse"
    reason: str = ""  # "left", "rights", …: a word of a small set


class LiveQueryRun(Event, frozen=True):
    """A live query was run again. Not logged."""

    level: ClassVar[Level] = Level.SILENT
    outcome: str  # "sent", "unchanged", "limited" or "failed"
    execution: str = ""  # "own", or "shared" with an equal query


class StreamIndexWrong(Event, frozen=True):
    """The index of row filters decided differently from the database, which decides from now on."""

    level: ClassVar[Level] = Level.ERROR
    db: str
    collection: str
