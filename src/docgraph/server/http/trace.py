"""Request ids: taken from a tracing header of the caller, or short ones of our own."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from itertools import count

from docgraph.server.fields import read_name

__all__ = ["RequestIds"]

# What a caller sends ends in logs and headers: short, and nothing that could break out of them.
_SAFE = re.compile(rb"[A-Za-z0-9._:/+=@,;\-]{1,128}")
_OWN = b"x-request-id"
_OWN_LINE = b"X-Request-Id: %s\r\n"


class RequestIds:
    """Gives every request of this process its id."""

    def __init__(self, tracing_headers: Sequence[str] = ()) -> None:
        self._prefixes = {
            name.lower().encode("ascii"): read_name(name).prefix for name in tracing_headers
        }
        self._prefix = secrets.token_hex(4)
        self._numbers = count(1)

    def generate(self) -> str:
        """A short id that no other process has, nor this one again."""
        return f"{self._prefix}-{next(self._numbers):x}"

    def trace(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, list[bytes]]:
        """The id of a request, and the lines that go back with the response.

        Every tracing header goes back; the first one listed that is there gives the id.
        """
        if not self._prefixes:
            id = self.generate()
            return id, [_OWN_LINE % id.encode()]
        found = {n: v for n, v in headers if n in self._prefixes and _SAFE.fullmatch(v)}
        echoed = [name for name in self._prefixes if name in found]
        id = found[echoed[0]].decode("ascii") if echoed else self.generate()
        lines = [b"%s%s\r\n" % (self._prefixes[n], found[n]) for n in echoed if n != _OWN]
        return id, [_OWN_LINE % id.encode(), *lines]
