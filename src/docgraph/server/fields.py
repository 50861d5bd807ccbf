"""Header fields on the wire: canonical names, safe values, request ids (correlation ids)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
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


# Ids of callers are written to logs and headers: short, and without control characters.
_SAFE = re.compile(rb"[A-Za-z0-9._:/+=@,;\-]{1,128}")
_OWN = b"x-request-id"
_ID_BYTES = 12
_OWN_LINE = b"X-Request-Id: %s\r\n"


class RequestIds:
    """Assigns an id to every request of this process."""

    def __init__(self, tracing_headers: Sequence[str] = ()) -> None:
        self._prefixes = {
            name.lower().encode("ascii"): read_name(name).prefix for name in tracing_headers
        }

    def generate(self) -> str:
        """Return an id that is unique, and says nothing about other requests."""
        return os.urandom(_ID_BYTES).hex()

    def trace(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, list[bytes]]:
        """Return the id of a request, and the lines for the response.

        Every tracing header is returned; the first listed one that exists supplies the id.
        """
        if not self._prefixes:
            id = os.urandom(_ID_BYTES).hex()
            return id, [_OWN_LINE % id.encode()]
        traced = {n: v for n, v in headers if n in self._prefixes and _SAFE.fullmatch(v)}
        echoed = [name for name in self._prefixes if name in traced]
        id = traced[echoed[0]].decode("ascii") if echoed else self.generate()
        lines = [b"%s%s\r\n" % (self._prefixes[n], traced[n]) for n in echoed if n != _OWN]
        return id, [_OWN_LINE % id.encode(), *lines]
