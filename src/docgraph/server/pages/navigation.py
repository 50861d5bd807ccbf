"""Detect browser navigation: the GET and HEAD requests that get a page (decision 22).

Browsers mark a navigation with `Sec-Fetch-Mode: navigate`, which no script can set. They send the
`Sec-Fetch-…` headers to https and to loopback addresses only. Over plain http to another host the
mark of a navigation is `Upgrade-Insecure-Requests: 1`, which `fetch()` and programs do not send.
`Accept` alone proves nothing: Java's `HttpURLConnection` prefers `text/html` by default.
"""

from __future__ import annotations

from typing import Final

from docgraph.exchange import Headers, Request
from docgraph.exchange.headers import parse_weight
from docgraph.exchange.markup import MEDIA_TYPE

VARY: Final = "Sec-Fetch-Mode, Upgrade-Insecure-Requests, Accept"  # what the answer depends on
_METHODS: Final = ("GET", "HEAD")
_MODE: Final = "sec-fetch-mode"
_FETCH_METADATA: Final = (_MODE, "sec-fetch-site", "sec-fetch-dest", "sec-fetch-user")


def is_navigation(request: Request) -> bool:
    """Return whether a person opened this URL in a browser."""
    if request.method not in _METHODS:
        return False
    headers = request.headers
    if any(name in headers for name in _FETCH_METADATA):
        return headers.get_list(_MODE) == ["navigate"]
    return headers.get("upgrade-insecure-requests") == "1" and _accepts_page(headers)


def _accepts_page(headers: Headers) -> bool:
    weights = map(parse_weight, ",".join(headers.get_list("accept")).split(","))
    return any(name == MEDIA_TYPE and weight > 0 for name, weight in weights)
