"""Path of a request as segments, decoded and normalized once for all layers.

Routing, access rules and services use the same segments, so that no spelling of a path can mean one
thing to a rule and another to the service behind it.
"""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import quote, unquote_to_bytes

from docgraph.exchange.errors import RequestError

_USUAL_LENGTH = 256  # bytes: longer paths are not cached


def parse_path(raw: bytes) -> tuple[str, ...]:
    """Split at `/`, then decode: `%2F` is a slash inside a segment, never a separator.

    Empty segments (`//`, a trailing slash) are dropped. `.` and `..`, however they are encoded, are
    resolved as RFC 3986 5.2.4 requires.
    """
    return _parse_usual(raw) if len(raw) <= _USUAL_LENGTH else _parse(raw)


def _parse(raw: bytes) -> tuple[str, ...]:
    segments: list[str] = []
    for part in raw.split(b"/"):
        segment = _decode(part)
        if segment in ("", "."):
            continue
        if segment == "..":
            if segments:
                segments.pop()
            continue
        segments.append(segment)
    return tuple(segments)


# Most requests are for few paths; the cache is bounded, whatever callers request.
_parse_usual = lru_cache(maxsize=1024)(_parse)


def _decode(part: bytes) -> str:
    try:
        text = unquote_to_bytes(part).decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError("the path is not valid UTF-8") from None
    if "\x00" in text:
        raise RequestError("the path contains a NUL character")
    return text


def cut_unreadable(raw: bytes) -> bytes:
    """Return the path up to the first segment that cannot be decoded: it finds the service."""
    readable: list[bytes] = []
    for part in raw.split(b"/"):
        try:
            _decode(part)
        except RequestError:
            break
        readable.append(part)
    return b"/".join(readable) or b"/"


def encode_path(segments: tuple[str, ...]) -> str:
    """Encode segments as the path that `parse_path` reads them from; empty for the root."""
    return "".join(f"/{quote(segment, safe='')}" for segment in segments)


def render_path(segments: tuple[str, ...]) -> str:
    """Render the decoded path for people and predicates; `/` without segments."""
    return "/" + "/".join(segments)
