"""Requests that a foreign page makes a browser send, with a cookie that the page cannot see.

`SameSite=Strict` keeps the cookie at home in the first place. Behind it stand two more checks, for
cookies that are configured more freely and for browsers that do not know the attribute: the page
must be ours or one of `cors.allow-origins`, and a body must be of a type that no HTML form can
send, so that the browser asks before it sends it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import urlsplit

from docgraph.exchange import Request
from docgraph.exchange.errors import Forbidden

__all__ = ["check_forgery"]

_READING: Final = frozenset({"GET", "HEAD", "OPTIONS"})
# What can be sent to another origin without asking it first (Fetch 2.2.2).
_SIMPLE: Final = frozenset(
    {"application/x-www-form-urlencoded", "multipart/form-data", "text/plain"}
)
_DEFAULT_PORTS: Final = {"http": 80, "https": 443}


def check_forgery(request: Request, allowed: Collection[str]) -> None:
    """Refuse a request whose cookie counts but whose page should not."""
    origin = request.headers.get("origin")
    if origin is not None and origin not in allowed and not _is_own(origin, request):
        raise Forbidden("a foreign page sent the cookie")
    if request.method in _READING:
        return
    kind = request.content_type
    if kind in _SIMPLE or (not kind and _has_body(request)):
        raise Forbidden("the cookie came with a content type that forms can send")


def _is_own(origin: str, request: Request) -> bool:
    """Host and port are compared; behind a proxy that ends TLS the scheme may not be known."""
    try:
        parts = urlsplit(origin)
        default = _DEFAULT_PORTS.get(parts.scheme)
        host = urlsplit(f"//{request.headers.get('host') or ''}")
        if default is None or not parts.hostname:
            return False
        return (parts.hostname, parts.port or default) == (host.hostname, host.port or default)
    except ValueError:
        return False


def _has_body(request: Request) -> bool:
    length = request.headers.get("content-length")
    return "transfer-encoding" in request.headers or length not in (None, "0")
