"""Origin policy (CSRF, CORS): which page made a browser send a request, for cookies and forms.

Pages cannot change these headers of the browser (`Origin`, and `Sec-Fetch-Site` over https):

    Origin                          Sec-Fetch-Site                  the page is
    one of `cors.allow-origins`     any                             ours
    our own                         none given, same-origin, none   ours
    `null` (by a referrer policy)   same-origin                     ours
    none given                      same-origin, none               ours
    none given                      none given                      unknown: a program
    anything else                                                   foreign
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from docgraph.exchange.errors import Forbidden
from docgraph.exchange.headers import Headers

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SECURE: Final = frozenset({"https", "wss"})
_UNSPECIFIED: Final = ""
_SAME_ORIGIN: Final = frozenset({"same-origin", "none"})  # none: the user's action, no page's


class RequestOrigin(Enum):
    """Whose page made the browser send a request."""

    OURS = "ours"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"  # no current browser sent it


class _Origin(NamedTuple):
    scheme: str
    host: str
    port: int


class OriginPolicy:
    """The trusted pages: those of this instance and of `cors.allow-origins`."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = frozenset(_read_origin(origin) for origin in allowed) - {None}

    def classify(self, headers: Headers, scheme: str, host: str | None = None) -> RequestOrigin:
        """Classify the page by the headers of the browser; contradictions are foreign.

        `scheme` is that of the connection; `host` is the one from a trusted proxy.
        """
        site = (headers.get("sec-fetch-site") or _UNSPECIFIED).strip().lower()
        text = headers.get("origin")
        if text is None:
            return RequestOrigin.UNKNOWN if site == _UNSPECIFIED else _ours_if(site in _SAME_ORIGIN)
        if len(headers.get_list("origin")) > 1:
            return RequestOrigin.FOREIGN
        if text == "null":
            return _ours_if(site == "same-origin")
        origin = _read_origin(text)
        if origin is None:
            return RequestOrigin.FOREIGN
        if origin in self._allowed:
            return RequestOrigin.OURS
        is_own = _is_own(origin, scheme, host or headers.get("host") or "")
        return _ours_if(is_own and (site == _UNSPECIFIED or site in _SAME_ORIGIN))


def check_socket_origin(page: RequestOrigin) -> None:
    """Reject a page of another origin: browsers send no CORS preflight for a WebSocket."""
    if page is RequestOrigin.FOREIGN:
        raise Forbidden("a page of another origin may not open a WebSocket")


def spell_origin(text: str) -> str:
    """Normalize an origin as browsers do: lower case, no default port; else return the text."""
    origin = _read_origin(text)
    if origin is None:
        return text
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    port = "" if origin.port == _DEFAULT_PORTS[origin.scheme] else f":{origin.port}"
    return f"{origin.scheme}://{host}{port}"


def _ours_if(condition: bool) -> RequestOrigin:
    return RequestOrigin.OURS if condition else RequestOrigin.FOREIGN


def _read_origin(text: str) -> _Origin | None:
    """Parse scheme, host and port of `https://example.org`; None for any other form."""
    scheme, separator, authority = text.strip().partition("://")
    default = _DEFAULT_PORTS.get(scheme.lower())
    if not separator or default is None:
        return None
    origin = _read_authority(authority)
    return None if origin is None else _Origin(scheme.lower(), origin[0], origin[1] or default)


def _read_authority(text: str) -> tuple[str, int | None] | None:
    """Parse host and port in their normal form; `@` and paths are invalid."""
    if not text or any(character in text for character in "@/?#\\ \t"):
        return None
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname, parts.port
    except ValueError:
        return None
    return (_spell(host), port) if host else None


def _spell(host: str) -> str:
    try:
        return str(ip_address(host))
    except ValueError:
        return host.removesuffix(".")


def _is_own(origin: _Origin, scheme: str, host: str) -> bool:
    """Compare host and port, and the scheme where the connection is known to be https.

    Behind a proxy that ends TLS and is not trusted, https appears as http.
    """
    if scheme in _SECURE and origin.scheme != "https":
        return False
    authority = _read_authority(host)
    if authority is None:
        return False
    name, port = authority
    return (origin.host, origin.port) == (name, port or _DEFAULT_PORTS[origin.scheme])


class Wildcard:
    """A compiled pattern; matching takes linear time, however many `*` it has.

    A regular expression with as many `.*` would try every way to divide the text among them.
    """

    __slots__ = ("_first", "_last", "_middle")

    def __init__(self, text: str) -> None:
        self._first, *rest = text.split("*")
        self._last = rest.pop() if rest else None
        self._middle = [part for part in rest if part]

    def matches(self, text: str) -> bool:
        if self._last is None:
            return text == self._first
        start, end = len(self._first), len(text) - len(self._last)
        if end < start or not text.startswith(self._first) or not text.endswith(self._last):
            return False
        for part in self._middle:
            # The leftmost match leaves the most text for the parts that follow.
            place = text.find(part, start, end)
            if place < 0:
                return False
            start = place + len(part)
        return True
