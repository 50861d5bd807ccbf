"""Logging (request log, audit log): one line per event on stderr, as JSON or for the console.

All lines pass the same chain, docgraph's own and those of libraries that use `logging`: fields are
cleaned (`text.py`), stamped in UTC, rendered, and passed to a thread (`writer.py`). Libraries are
logged from warnings up, whatever the level: below that, drivers print documents and servers print
headers.
"""

from __future__ import annotations

import atexit
import logging
import os
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from functools import partial
from time import monotonic, time
from typing import Any

import orjson
import structlog
from structlog.typing import EventDict, FilteringBoundLogger, WrappedLogger

from docgraph.exchange.origin import Wildcard
from docgraph.observe import Listener, subscribe_each, unsubscribe
from docgraph.observe.event import Event, Level
from docgraph.observe.events import RequestFinished, RequestRefused
from docgraph.observe.sections import Logging
from docgraph.observe.text import are_plain, clean_text, render_error, render_traceback
from docgraph.observe.tracing import current
from docgraph.observe.writer import LineWriter

STDERR = 2
_OF_TRACES = ("place", "trace")
MAX_ITEMS = 20  # of a list in a field
_METHODS = {
    Level.DEBUG: "debug",
    Level.INFO: "info",
    Level.WARNING: "warning",
    Level.ERROR: "error",
}


def open_log(
    options: Logging, *, fd: int = STDERR, besides: Collection[type[Event]] = ()
) -> EventLogger:
    """Start to log the events of this process and of its libraries; call `close` at the end.

    The log belongs to the process that opens it: a forked child opens its own. Events of the kinds
    `besides` are left out.
    """
    return EventLogger(options, LineWriter(fd), _build_renderer(options.format, fd), besides)


class EventLogger:
    """Logs all events until it is closed."""

    def __init__(
        self,
        options: Logging,
        writer: LineWriter,
        renderer: Renderer,
        besides: Collection[type[Event]] = (),
    ) -> None:
        self._besides = frozenset(besides)
        self._options = options
        self._writer = writer
        self._render = renderer
        self._level = Level[options.level.upper()]
        self._excluded = Exclusion(
            options.requests_exclude_patterns, options.requests_exclude_interval_ms / 1000
        )
        self._lines: FilteringBoundLogger = structlog.wrap_logger(
            _Output(writer),
            processors=[_build_cleaner(options.max_field_size), _stamp, renderer],
            wrapper_class=structlog.make_filtering_bound_logger(self._level),
            cache_logger_on_first_use=True,
        ).bind()
        self._methods = {level: getattr(self._lines, name) for level, name in _METHODS.items()}
        self._handler = _LibraryHandler(self._lines)
        logging.getLogger().addHandler(self._handler)
        logging.captureWarnings(True)
        subscribe_each(self, self._find_writer)
        atexit.register(self.close)

    def _find_writer(self, kind: type[Event]) -> Listener | None:
        """Return what writes the line of an event, if the options allow it."""
        if kind.level is Level.SILENT or kind in self._besides or kind.level < self._level:
            return None
        if kind in (RequestFinished, RequestRefused) and not self._options.requests:
            return None
        return self._write_request if kind is RequestFinished else self._write

    def _write_request(self, event: Any) -> None:
        if not (self._options.requests_exclude_patterns and self._excluded.covers(event.path)):
            self._writer.put(partial(self._render_request, event, time()))

    def _write(self, event: Event) -> None:
        fields = _fields(event)
        if (trace := current.get()) is not None:
            fields["trace_id"] = trace.id
        self._methods[event.level](event.name, **fields)

    def _render_request(self, event: RequestFinished, now: float) -> bytes:
        # Without the chain of processors, which would cost twice as much. `service` and `error` are
        # names of docgraph, and names of operations are plain.
        limit = self._options.max_field_size
        texts = [event.method, event.path, event.client, event.request_id, event.account, event.app]
        if not are_plain(*texts, limit=limit):
            texts = [clean_text(text, limit) for text in texts]
        method, path, client, request_id, account, app = texts
        fields: dict[str, Any] = {
            "time": datetime.fromtimestamp(now, UTC),
            "level": "info",
            "event": event.name,
            "method": method,
            "path": path,
            "status": event.status,
            "duration_ms": int(event.duration * 1_000_000 + 0.5) / 1000,  # faster than `round`
            "bytes_out": event.bytes_out,
            "client": client,
            "request_id": request_id,
            "account": account,
            "service": event.service,
        }
        if app:
            fields["app"] = app
        if event.operation:
            fields["operation"] = event.operation
        if event.entries:
            fields["entries"] = event.entries
        if event.error:
            fields["error"] = event.error
        if event.aborted:
            fields["aborted"] = True
        if event.endless:
            fields["endless"] = True
        if event.trace is not None:
            fields["trace_id"] = event.trace.id
        return self._render(None, "info", fields)

    def close(self) -> None:
        """Write the queued lines and stop listening; a second call does nothing."""
        unsubscribe(self)
        root = logging.getLogger()
        if self._handler in root.handlers:
            logging.captureWarnings(False)
            root.removeHandler(self._handler)
        atexit.unregister(self.close)
        self._writer.close()


def _fields(event: Event) -> dict[str, Any]:
    """Build the fields of any other event, without empty ones; seconds become milliseconds."""
    fields: dict[str, Any] = {}
    for name in event.__struct_fields__:
        value = getattr(event, name)
        if name == "duration":
            fields["duration_ms"] = round(value * 1000, 3)
        elif name == "event":  # the name of the line has this key
            fields["about"] = value
        elif name in _OF_TRACES:
            pass  # every line of a request has its trace id
        elif value not in ("", None, ()):
            fields[name] = value
    return fields


Renderer = Callable[[WrappedLogger, str, EventDict], bytes]


def _build_renderer(style: str, fd: int) -> Renderer:
    terminal = os.isatty(fd)
    if style == "json" or (style == "auto" and not terminal):
        return _render_json
    from docgraph.observe.console_lines import build_console

    return build_console(colours=terminal and "NO_COLOR" not in os.environ)


def _build_cleaner(limit: int) -> Callable[[WrappedLogger, str, EventDict], EventDict]:
    def clean(logger: WrappedLogger, method: str, fields: EventDict) -> EventDict:
        cleaned: EventDict = {}
        for name, value in fields.items():
            cleaned[name] = _clean_value(value, limit)
            if isinstance(value, BaseException) and (way := render_traceback(value, limit)):
                cleaned["traceback"] = way
        return cleaned

    return clean


def _clean_value(value: Any, limit: int) -> Any:
    match value:
        case None | int():
            return value
        case float():
            return round(value, 3)
        case list() | tuple():
            shown = [clean_text(str(item), limit) for item in value[:MAX_ITEMS]]
            left_out = len(value) - MAX_ITEMS
            return [*shown, f"({left_out} more)"] if left_out > 0 else shown
        case BaseException():
            return render_error(value, limit)
        case _:
            return clean_text(str(value), limit)


def _stamp(logger: WrappedLogger, method: str, fields: EventDict) -> EventDict:
    return {"time": datetime.now(UTC), "level": method, "event": fields.pop("event"), **fields}


def _render_json(logger: WrappedLogger, method: str, fields: EventDict) -> bytes:
    return orjson.dumps(fields, option=orjson.OPT_UTC_Z | orjson.OPT_APPEND_NEWLINE)


class _Output:
    """The logger object for structlog: the destination of rendered lines."""

    def __init__(self, writer: LineWriter) -> None:
        self.debug = self.info = self.warning = self.error = writer.put


class _LibraryHandler(logging.Handler):
    """Logs records of `logging` as lines of docgraph's log."""

    def __init__(self, lines: FilteringBoundLogger) -> None:
        super().__init__(logging.WARNING)
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        try:
            fields: dict[str, Any] = {"logger": record.name, "message": record.getMessage()}
            if record.exc_info and record.exc_info[1]:
                fields["error"] = record.exc_info[1]
            write = self._lines.error if record.levelno >= logging.ERROR else self._lines.warning
            write("library", **fields)
        except Exception:
            self.handleError(record)


class Exclusion:
    """Path patterns whose requests are not logged, except the first one in each interval.

    `*` matches any text, including slashes. Without an interval (0 or less) only the very first
    request is logged.
    """

    def __init__(
        self, patterns: Sequence[str], seconds: float, clock: Callable[[], float] = monotonic
    ) -> None:
        self._seconds = seconds if seconds > 0 else float("inf")
        self._clock = clock
        self._patterns = [Wildcard(pattern) for pattern in patterns]
        self._quiet_until = [0.0] * len(patterns)

    def covers(self, path: str) -> bool:
        """Return whether this request is not logged; the call counts the request as seen."""
        for place, pattern in enumerate(self._patterns):
            if pattern.matches(path):
                now = self._clock()
                if now < self._quiet_until[place]:
                    return True
                self._quiet_until[place] = now + self._seconds
                return False
        return False
