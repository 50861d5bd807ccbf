"""Whose page made a browser send a request: the one judge of it, for cookies and for forms.

What the browser says of the page no page can change (`Origin`, and `Sec-Fetch-Site` over https):

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

from docgraph.exchange.headers import Headers

__all__ = ["Page", "Pages", "spell_origin"]

_DEFAULT_PORTS: Final = {"http": 80, "https": 443}
_SECURE: Final = frozenset({"https", "wss"})
_UNSAID: Final = ""
_AT_HOME: Final = frozenset({"same-origin", "none"})  # none: the user's own doing, no page's


class Page(Enum):
    """Whose page made the browser send a request."""

    OURS = "ours"
    FOREIGN = "foreign"
    UNKNOWN = "unknown"  # no browser of today sent it


class _Origin(NamedTuple):
    scheme: str
    host: str
    port: int


class Pages:
    """The pages that count as ours: our own ones, and those of `cors.allow-origins`."""

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        self._allowed = frozenset(_read_origin(one) for one in allowed) - {None}

    def judge(self, headers: Headers, scheme: str, host: str | None = None) -> Page:
        """What the browser says of the page; whatever contradicts itself is foreign.

        `scheme` is that of the connection, `host` the one that a trusted proxy was asked for.
        """
        site = (headers.get("sec-fetch-site") or _UNSAID).strip().lower()
        text = headers.get("origin")
        if text is None:
            return Page.UNKNOWN if site == _UNSAID else _ours_if(site in _AT_HOME)
        if len(headers.get_list("origin")) > 1:
            return Page.FOREIGN
        if text == "null":
            return _ours_if(site == "same-origin")
        origin = _read_origin(text)
        if origin is None:
            return Page.FOREIGN
        if origin in self._allowed:
            return Page.OURS
        is_own = _is_own(origin, scheme, host or headers.get("host") or "")
        return _ours_if(is_own and (site == _UNSAID or site in _AT_HOME))


def spell_origin(text: str) -> str:
    """An origin as browsers write it: in lower case, without the usual port; else the text."""
    origin = _read_origin(text)
    if origin is None:
        return text
    host = f"[{origin.host}]" if ":" in origin.host else origin.host
    port = "" if origin.port == _DEFAULT_PORTS[origin.scheme] else f":{origin.port}"
    return f"{origin.scheme}://{host}{port}"


def _ours_if(condition: bool) -> Page:
    return Page.OURS if condition else Page.FOREIGN


def _read_origin(text: str) -> _Origin | None:
    """Scheme, host and port of `https://example.org`; None for anything that is more, or less."""
    scheme, separator, authority = text.strip().partition("://")
    default = _DEFAULT_PORTS.get(scheme.lower())
    if not separator or default is None:
        return None
    found = _read_authority(authority)
    return None if found is None else _Origin(scheme.lower(), found[0], found[1] or default)


def _read_authority(text: str) -> tuple[str, int | None] | None:
    """Host and port, in the one spelling of each; `@` and paths have no place in it."""
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
    """Host and port are compared, and the scheme where we know that it is https.

    Behind a proxy that ends TLS and that nobody trusts, https looks like http.
    """
    if scheme in _SECURE and origin.scheme != "https":
        return False
    found = _read_authority(host)
    if found is None:
        return False
    name, port = found
    return (origin.host, origin.port) == (name, port or _DEFAULT_PORTS[origin.scheme])
