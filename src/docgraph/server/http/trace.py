"""Request ids: from a tracing header of the caller, or generated."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Sequence
from itertools import count

from docgraph.server.fields import read_name

# Ids of callers are written to logs and headers: short, and without control characters.
_SAFE = re.compile(rb"[A-Za-z0-9._:/+=@,;\-]{1,128}")
_OWN = b"x-request-id"
_OWN_LINE = b"X-Request-Id: %s\r\n"


class RequestIds:
    """Assigns an id to every request of this process."""

    def __init__(self, tracing_headers: Sequence[str] = ()) -> None:
        self._prefixes = {
            name.lower().encode("ascii"): read_name(name).prefix for name in tracing_headers
        }
        self._prefix = secrets.token_hex(4)
        self._numbers = count(1)

    def generate(self) -> str:
        """Return a short id that is unique across processes."""
        return f"{self._prefix}-{next(self._numbers):x}"

    def trace(self, headers: Iterable[tuple[bytes, bytes]]) -> tuple[str, list[bytes]]:
        """Return the id of a request, and the lines for the response.

        Every tracing header is returned; the first listed one that exists supplies the id.
        """
        if not self._prefixes:
            id = self.generate()
            return id, [_OWN_LINE % id.encode()]
        found = {n: v for n, v in headers if n in self._prefixes and _SAFE.fullmatch(v)}
        echoed = [name for name in self._prefixes if name in found]
        id = found[echoed[0]].decode("ascii") if echoed else self.generate()
        lines = [b"%s%s\r\n" % (self._prefixes[n], found[n]) for n in echoed if n != _OWN]
        return id, [_OWN_LINE % id.encode(), *lines]
