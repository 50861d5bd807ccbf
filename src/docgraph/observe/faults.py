"""Exceptions as text for the log: message and traceback.

Frames are named, not quoted: the source lines would have to be read from disk, and events may be
logged in the event loop.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator

from docgraph.exchange import DocgraphError
from docgraph.observe.text import LIMIT, clean_text

MAX_FRAMES = 40  # per exception, the innermost ones
MAX_CAUSES = 5


_AGAIN = ", full error: "  # after it, the driver repeats its message with details


def render_cause(error: BaseException) -> str:
    """Return the message of a database error without its repetition."""
    text, repeated, _ = str(error).partition(_AGAIN)
    details = getattr(error, "details", None)
    code = details.get("codeName", "") if repeated and isinstance(details, dict) else ""
    return f"{text} ({code})" if code else text


def render_error(error: BaseException, limit: int = LIMIT) -> str:
    """Render `ValueError: the text` for one field."""
    name, text = _qualified_name(error), str(error)
    return clean_text(f"{name}: {text}" if text else name, limit)


def render_traceback(error: BaseException, limit: int = LIMIT) -> list[str]:
    """Render the traceback of the error and its causes, outermost first; empty if expected."""
    if isinstance(error, DocgraphError):
        return []
    lines: list[str] = []
    for number, link in enumerate(_chain(error)):
        if number:
            lines.append(f"caused by {render_error(link, limit)}")
        lines.extend(_render_frames(link))
    return lines


def _chain(error: BaseException) -> Iterator[BaseException]:
    link: BaseException | None = error
    for _ in range(MAX_CAUSES):
        if link is None:
            return
        yield link
        link = link.__cause__ or (None if link.__suppress_context__ else link.__context__)


def _render_frames(error: BaseException) -> list[str]:
    frames = [
        clean_text(f"{frame.f_code.co_filename}:{line} in {frame.f_code.co_name}")
        for frame, line in traceback.walk_tb(error.__traceback__)
    ]
    left_out = len(frames) - MAX_FRAMES
    if left_out > 0:
        return [f"({left_out} outer frames left out)", *frames[left_out:]]
    return frames


def _qualified_name(error: BaseException) -> str:
    kind = type(error)
    if kind.__module__ == "builtins":
        return kind.__qualname__
    return f"{kind.__module__}.{kind.__qualname__}"
