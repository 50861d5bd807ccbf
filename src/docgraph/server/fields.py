"""Header fields on the wire: names in their usual capitals, values that cannot break out."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

__all__ = [
    "FieldName",
    "RawHeaders",
    "read_name",
    "render_field",
    "render_raw_field",
]

RawHeaders = list[tuple[bytes, bytes]]

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_UNSAFE = re.compile(r"[^\t\x20-\x7e\x80-\xff]")
_SPELLINGS = {"etag": "ETag", "www-authenticate": "WWW-Authenticate", "te": "TE", "dnt": "DNT"}


class FieldName(NamedTuple):
    """A name in lower case, to compare it, and the beginning of its line."""

    lower: str
    prefix: bytes


@lru_cache(maxsize=1024)  # the same few names stand in every response
def read_name(name: str) -> FieldName:
    """A name as it is written on the wire: capitals stay, one without any gets the usual ones."""
    if not _TOKEN.fullmatch(name):
        raise ValueError(f"{name!r} cannot be the name of a response header")
    lower = name.lower()
    if name == lower:
        words = (word.capitalize() for word in lower.split("-"))
        name = _SPELLINGS.get(lower) or "-".join(words)
    return FieldName(lower, f"{name}: ".encode("ascii"))


def render_field(name: str, value: str) -> bytes:
    """The line of one field.

    A line break in a value would let its author write headers, or a second response.
    """
    if _UNSAFE.search(value):
        raise ValueError(f"the value of the response header {name} has unsafe characters")
    return b"%s%s\r\n" % (read_name(name).prefix, value.encode("latin-1"))


def render_raw_field(name: bytes, value: bytes) -> bytes:
    """The same for a field in bytes, as other applications give them."""
    return render_field(name.decode("latin-1"), value.decode("latin-1"))
