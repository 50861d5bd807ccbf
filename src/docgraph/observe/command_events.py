"""Events about database commands, a part of the closed list in `events.py`."""

from __future__ import annotations

from typing import ClassVar

from docgraph.observe.event import Event, Level
from docgraph.observe.tracing import TraceContext


class CommandFinished(Event, frozen=True):
    """One database command; `app`, `operation` and `field` say which part of a query sent it."""

    level: ClassVar[Level] = Level.DEBUG
    command: str
    db: str
    collection: str
    duration: float  # seconds
    ok: bool
    request_id: str = ""
    app: str = ""
    operation: str = ""
    field: str = ""
    error: str = ""  # the stable code of the error, never the database's text
    documents: int | None = None  # that were read, where all of them are here
    place: TraceContext | None = None  # in the trace of the request


class QueryFailed(Event, frozen=True):
    """The database's message about a failed query; the response contains only `id`."""

    level: ClassVar[Level] = Level.WARNING
    id: str
    request_id: str
    code: str  # of the error in the response
    reason: str
    app: str = ""
    field: str = ""


class SlowOperation(Event, frozen=True):
    """A GraphQL operation took longer than `logging.slow-operation-ms`; names and counts only.

    `plan` are its commands by field, the slowest first.
    """

    level: ClassVar[Level] = Level.WARNING
    request_id: str
    app: str
    operation: str
    duration: float  # seconds
    commands: int
    documents: int
    plan: tuple[str, ...]
    account: str = ""
    error: str = ""  # the stable code of the error that ended it


class OperationFinished(Event, frozen=True):
    """A GraphQL operation ended; `text` is what the caller sent, with its literals. Not logged."""

    level: ClassVar[Level] = Level.SILENT
    app: str
    operation: str  # its name, if the request has one
    text: str
    duration: float  # seconds
    ok: bool
