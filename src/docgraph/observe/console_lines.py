"""The console format of the log, for people; nothing else needs the renderer of structlog."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

import orjson
from structlog.dev import (
    BLUE,
    BRIGHT,
    CYAN,
    DIM,
    GREEN,
    RED,
    RESET_ALL,
    YELLOW,
    Column,
    ConsoleRenderer,
    KeyValueColumnFormatter,
    LogLevelColumnFormatter,
)
from structlog.typing import EventDict, WrappedLogger

# A value with a blank, a quote or an equals sign could look like another field.
_needs_quotes = re.compile(r"[\s\"'=\\]|^$").search
_LEVEL_COLOURS = {"debug": BLUE, "info": GREEN, "warning": YELLOW, "error": RED}


def build_console(*, colours: bool) -> Callable[[WrappedLogger, str, EventDict], bytes]:
    """Return the last processor of the chain, which renders fields to the bytes of a line.

    The format is for people: aligned, colored on a terminal, one line per event. Only an exception
    takes more lines, which are indented; all their texts have been cleaned before.
    """
    renderer = ConsoleRenderer(columns=_build_columns(colours), sort_keys=False)

    def render(logger: WrappedLogger, method: str, fields: EventDict) -> bytes:
        if traceback := fields.pop("traceback", None):
            fields["exception"] = "\n".join(f"    {line}" for line in traceback)
        return f"{renderer(logger, method, fields)}\n".encode()

    return render


def _build_columns(colours: bool) -> list[Column]:
    def style(code: str) -> str:
        return code if colours else ""

    reset = style(RESET_ALL)
    levels = {level: style(code) for level, code in _LEVEL_COLOURS.items()}
    return [
        Column("", KeyValueColumnFormatter(style(CYAN), "", reset, _render_value)),
        Column("time", KeyValueColumnFormatter(None, style(DIM), reset, _render_time)),
        Column("level", LogLevelColumnFormatter(levels, reset)),
        Column("event", KeyValueColumnFormatter(None, style(BRIGHT), reset, str, width=18)),
    ]


def _render_time(value: object) -> str:
    return f"{value:%H:%M:%S.%f}"[:-3] if isinstance(value, datetime) else str(value)


def _render_value(value: object) -> str:
    if isinstance(value, str) and not _needs_quotes(value):
        return value
    return orjson.dumps(value).decode()
