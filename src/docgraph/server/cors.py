"""CORS: which pages of other origins may read responses, and whether with credentials.

    allow-origins   Origin of the request   answer
    empty           any or none             `*`, never credentials
    a list          on the list             that origin, credentials, `Vary: Origin`
    a list          not on it, or none      nothing, `Vary: Origin`

An origin is compared as a whole: no suffix, prefix or pattern can be tricked. A listed origin that
browsers spell differently (`https://App.example:443`) matches their spelling, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from docgraph.exchange import Headers
from docgraph.exchange.origin import spell_origin
from docgraph.server.fields import render_field

_EXPOSED = (
    "Location, ETag, Link, X-Total-Count, X-Count-Strategy, Preference-Applied, X-Request-Id, "
    "Auth-Token, Auth-Token-Valid-Until, Auth-Token-Location, Retry-After, RateLimit, "
    "RateLimit-Policy, WWW-Authenticate, Allow, Content-Disposition"
)
_ACCEPTED = (
    "Authorization, Content-Type, X-Requested-With, No-Auth-Challenge, If-Match, If-None-Match, "
    "Prefer, Last-Event-ID"
)


class CorsPolicy:
    """The CORS headers of every response, built once per origin."""

    def __init__(self, allow_origins: Sequence[str] = ()) -> None:
        exposed = ("Access-Control-Expose-Headers", _EXPOSED)
        self._listed: dict[str | None, list[bytes]] = {
            origin: _render(
                ("Access-Control-Allow-Origin", origin),
                ("Access-Control-Allow-Credentials", "true"),
                exposed,
                ("Vary", "Origin"),
            )
            for origin in (*allow_origins, *map(spell_origin, allow_origins))
        }
        self._others = (
            _render(("Vary", "Origin"))
            if allow_origins
            else _render(("Access-Control-Allow-Origin", "*"), exposed)
        )

    def find_lines(self, headers: Headers) -> list[bytes]:
        """Return the lines for a request with these headers; do not change the shared list."""
        if not self._listed:
            return self._others
        return self._listed.get(headers.get("origin"), self._others)


def _render(*fields: tuple[str, str]) -> list[bytes]:
    return [render_field(name, value) for name, value in fields]


def preflight_headers(methods: Sequence[str], headers: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return the headers of a preflight: methods, and request headers besides the usual ones."""
    accepted = ", ".join((_ACCEPTED, *headers)) if headers else _ACCEPTED
    return [
        ("Access-Control-Allow-Methods", ", ".join(methods)),
        ("Access-Control-Allow-Headers", accepted),
    ]
