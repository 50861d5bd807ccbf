"""The path of a request as segments: decoded and normalised once, the same for everybody.

Routing, access rules and services all see this one reading, so that no spelling of a path can
mean one thing to a rule and another to the service behind it.
"""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from docgraph.exchange.errors import RequestError

__all__ = ["parse_path", "render_path"]


def parse_path(raw: bytes) -> tuple[str, ...]:
    """Split at `/`, then decode: `%2F` is a slash inside a segment, never a separator.

    Empty segments vanish (`//`, a trailing slash); `.` and `..`, however they are encoded, are
    resolved as RFC 3986 5.2.4 says.
    """
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


def _decode(part: bytes) -> str:
    try:
        text = unquote_to_bytes(part).decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError("the path is not valid UTF-8") from None
    if "\x00" in text:
        raise RequestError("the path contains a NUL character")
    return text


def render_path(segments: tuple[str, ...]) -> str:
    """The decoded path for people and predicates; `/` for no segment."""
    return "/" + "/".join(segments)
