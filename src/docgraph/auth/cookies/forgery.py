"""Requests that a foreign page makes a browser send, with a cookie that the page cannot see.

`SameSite=Strict` keeps the cookie at home in the first place. Behind it stands what the browser
says of the page, which no page can change (`Origin`, and `Sec-Fetch-Site` over https):

    Origin                          Sec-Fetch-Site                  the page is
    one of `cors.allow-origins`     any                             ours
    our own                         none given, same-origin, none   ours
    `null` (by a referrer policy)   same-origin                     ours
    none given                      same-origin, none               ours
    none given                      none given                      unknown: a program
    anything else                                                   foreign

Where nothing is said, a body must not be of a type that an HTML form can send; logging out takes
any body, since it reads none.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from ipaddress import ip_address
from typing import Final, NamedTuple
from urllib.parse import urlsplit

from docgraph.exchange import Request
from docgraph.exchange.errors import Forbidden

__all__ = ["Page", "Pages", "foreign_page"]

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# What can be sent to another origin without asking it first (Fetch 2.2.2).
_SIMPLE: Final = frozenset(
    {"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"}
)
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
    """The pages that may use the cookie: our own ones, and those of `cors.allow-origins`."""

    def __init__(self, allowed: Iterable[str]) -> None:
        self._allowed = frozenset(_read_origin(one) for one in allowed) - {None}

    def judge(self, request: Request) -> Page:
        """What the browser says of the page; whatever contradicts itself is foreign."""
        site = (request.headers.get("sec-fetch-site") or _UNSAID).strip().lower()
        text = request.headers.get("origin")
        if text is None:
            return Page.UNKNOWN if site == _UNSAID else _ours_if(site in _AT_HOME)
        if text == "null":
            return _ours_if(site == "same-origin")
        origin = _read_origin(text)
        if origin is not None and origin in self._allowed:
            return Page.OURS
        is_own = origin is not None and _is_own(origin, request)
        return _ours_if(is_own and (site == _UNSAID or site in _AT_HOME))

    def check_forgery(self, request: Request, *, takes_forms: bool = False) -> None:
        """Refuse a request whose cookie counts but whose page should not."""
        page = self.judge(request)
        if request.method in _READING:
            # A link from elsewhere may lead here; a script of elsewhere says its origin.
            if page is Page.FOREIGN and "origin" in request.headers:
                raise foreign_page()
        elif page is Page.FOREIGN:
            raise foreign_page()
        elif page is Page.UNKNOWN and not takes_forms and _could_be_form(request):
            raise Forbidden("the cookie came with a content type that forms can send")


def foreign_page() -> Forbidden:
    """The refusal of what a page of somebody else has a browser send."""
    return Forbidden(
        "a foreign page sent the request",
        hint="list its origin in cors.allow-origins if it may use the cookie",
    )


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


def _is_own(origin: _Origin, request: Request) -> bool:
    """Host and port are compared, and the scheme where we know that it is https.

    Behind a proxy that ends TLS and that nobody trusts, https looks like http.
    """
    connection = request.connection
    if connection.scheme in _SECURE and origin.scheme != "https":
        return False
    found = _read_authority(connection.host or request.headers.get("host") or "")
    if found is None:
        return False
    host, port = found
    return (origin.host, origin.port) == (host, port or _DEFAULT_PORTS[origin.scheme])


def _could_be_form(request: Request) -> bool:
    """Whether it has a body, of a type that a page may send anywhere, or of none."""
    length = request.headers.get("content-length")
    has_content = "transfer-encoding" in request.headers or length not in (None, "0")
    kind = request.content_type
    return has_content and (not kind or kind in _SIMPLE)
