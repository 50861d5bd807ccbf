"""CORS: which pages of other origins may read our answers, and with whose credentials.

    allow-origins   Origin of the request   answer
    empty           any or none             `*`, never credentials
    a list          on the list             that origin, credentials, `Vary: Origin`
    a list          not on it, or none      nothing, `Vary: Origin`

An origin is compared as a whole: no suffix, prefix or pattern can be tricked. One that is listed in
another spelling than that of browsers (`https://App.example:443`) counts in theirs, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from docgraph.exchange.pages import spell_origin

__all__ = ["CorsPolicy", "preflight_headers"]

RawHeaders = list[tuple[bytes, bytes]]

_EXPOSED = (
    "Location, ETag, Link, X-Total-Count, X-Count-Strategy, Preference-Applied, X-Request-Id, "
    "Auth-Token, Auth-Token-Valid-Until, Auth-Token-Location, Retry-After, WWW-Authenticate, Allow"
)
_ACCEPTED = (
    "Authorization, Content-Type, X-Requested-With, No-Auth-Challenge, If-Match, If-None-Match, "
    "Prefer, Last-Event-ID"
)


class CorsPolicy:
    """The headers of every response, made once per origin."""

    def __init__(self, allow_origins: Sequence[str] = ()) -> None:
        exposed = (b"access-control-expose-headers", _EXPOSED.encode())
        self._listed: dict[bytes, RawHeaders] = {
            origin.encode(): [
                (b"access-control-allow-origin", origin.encode()),
                (b"access-control-allow-credentials", b"true"),
                exposed,
                (b"vary", b"Origin"),
            ]
            for origin in (*allow_origins, *map(spell_origin, allow_origins))
        }
        self._others: RawHeaders = (
            [(b"vary", b"Origin")]
            if allow_origins
            else [(b"access-control-allow-origin", b"*"), exposed]
        )

    def headers(self, origin: bytes | None) -> RawHeaders:
        """The headers for a request with that `Origin`; the list is shared: do not change it."""
        return self._listed.get(origin, self._others) if origin else self._others


def preflight_headers(methods: Sequence[str], headers: Sequence[str] = ()) -> list[tuple[str, str]]:
    """What a preflight asks: the methods, and the request headers beside the usual ones."""
    accepted = ", ".join((_ACCEPTED, *headers)) if headers else _ACCEPTED
    return [
        ("Access-Control-Allow-Methods", ", ".join(methods)),
        ("Access-Control-Allow-Headers", accepted),
    ]
