"""Text of the log: sanitized, and exceptions with traceback.

Much of the logged text comes from strangers. Escaping prevents line breaks, terminal sequences and
text direction marks from forging or hiding lines. The bound prevents one request from filling the
disk. Masking is a second safety net: no code of docgraph puts a secret into an event, but the
messages of libraries may quote a connection string or a header.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterator

from docgraph.exchange import DocgraphError

LIMIT = 1024  # bytes of a field
_MAX_BYTES = 4  # of a character

# Nearly every field of nearly every line: nothing to escape, and no room for a secret.
_is_plain = re.compile(r"(?!.*dgk_)[\w./@%~+,()-]*").fullmatch

_may_hold_secret = re.compile(
    r"://|bearer|basic|digest|authorization|cookie|passw|pwd|secret|token|api.?key|eyJ|dgk_", re.I
).search
_MASKS: tuple[tuple[re.Pattern[str], str], ...] = (
    # The driver takes everything up to the last @ as credentials, even unescaped.
    (re.compile(r"(mongodb(?:\+srv)?://)[^\s\"']{0,512}@", re.I), r"\1***@"),
    (re.compile(r"(://)[^\s/@:\"']{0,256}:[^\s/@\"']{0,256}@"), r"\1***@"),
    (
        re.compile(r"\b((?:proxy-)?authorization|(?:set-)?cookie)(\W{1,4})[^\r\n]*", re.I),
        r"\1\2***",
    ),
    (re.compile(r"\b(bearer|basic|digest)\s{1,4}[\w.~+/=-]{8,}", re.I), r"\1 ***"),
    (
        re.compile(
            r"\b(\w*(?:password|passwd|pwd|secret|token|api[_-]?key)[\"']?\s{0,4}[:=]\s{0,4})"
            r"(?:\"[^\"]*\"?|'[^']*'?|[^\s\"',;&]+)",
            re.I,
        ),
        r"\1***",
    ),
    (re.compile(r"\beyJ[\w-]{8,}\.[\w-]*\.[\w-]*"), "***"),  # a JWT
    (re.compile(r"(dgk_[0-9a-f]{0,16}_)\w+"), r"\1***"),  # an API key
)


def are_plain(*texts: str, limit: int = LIMIT) -> bool:
    """Return whether `clean_text` would leave all of these texts unchanged."""
    text = "".join(texts)
    return len(text) * _MAX_BYTES <= limit and bool(_is_plain(text)) and "eyJ" not in text


def clean_text(text: str, limit: int = LIMIT) -> str:
    """Return the text with secrets masked, control characters escaped, cut to `limit` bytes."""
    if are_plain(text, limit=limit):
        return text
    text = text[: 2 * limit]  # the rest is cut anyway, and would slow down the patterns
    if _may_hold_secret(text):
        for pattern, replacement in _MASKS:
            text = pattern.sub(replacement, text)
    if not text.isprintable():
        text = "".join(char if char.isprintable() else _escape(char) for char in text)
    return _cut(text, limit)


def _escape(char: str) -> str:
    return char.encode("unicode_escape").decode("ascii")


def _cut(text: str, limit: int) -> str:
    data = text.encode()
    if len(data) <= limit:
        return text
    ellipsis = "…"
    return data[: limit - len(ellipsis.encode())].decode(errors="ignore") + ellipsis


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
    """Render the traceback of the error and its causes, outermost first; empty if expected.

    Frames are named, not quoted: the source lines would have to be read from disk, and events may
    be logged in the event loop.
    """
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
