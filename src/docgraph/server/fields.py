"""Header fields on the wire: names in canonical case, values without line breaks."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

RawHeaders = list[tuple[bytes, bytes]]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNSAFE = re.compile(r"[^\t\x20-\x7e\x80-\xff]")
_SPELLINGS = {"etag": "ETag", "www-authenticate": "WWW-Authenticate", "te": "TE", "dnt": "DNT"}


class FieldName(NamedTuple):
    """A name in lower case, for comparison, and the beginning of its line."""

    lower: str
    prefix: bytes


@lru_cache(maxsize=1024)  # every response has the same few names
def read_name(name: str) -> FieldName:
    """Return a name as it is sent: capitals stay, a lower-case name gets the usual ones."""
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{name!r} cannot be the name of a response header")
    lower = name.lower()
    if name == lower:
        words = (word.capitalize() for word in lower.split("-"))
        name = _SPELLINGS.get(lower) or "-".join(words)
    return FieldName(lower, f"{name}: ".encode("ascii"))


def render_field(name: str, value: str) -> bytes:
    """Render the line of one field.

    A line break in a value would allow header injection, or a second response (response splitting).
    """
    if _UNSAFE.search(value):
        raise ValueError(f"the value of the response header {name} has unsafe characters")
    return b"%s%s\r\n" % (read_name(name).prefix, value.encode("latin-1"))


def render_raw_field(name: bytes, value: bytes) -> bytes:
    """Render a field in bytes, as other applications supply them."""
    return render_field(name.decode("latin-1"), value.decode("latin-1"))
