"""URLs in responses: `Location`, the links of a bulk write, the next page."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote, urlencode

from docgraph.exchange.path import encode_path
from docgraph.exchange.request import Request
from docgraph.rest.parameters.ids import render_id


def document_path(collection: tuple[str, ...], id: Any) -> str | None:
    """Return the path of a document below the path of its collection; None if it has none."""
    segment = render_id(id)
    return None if segment is None else f"{encode_path(collection)}/{segment}"


def build_location(request: Request, path: str, base_url: str | None) -> str:
    """Return the absolute URL: below the configured base URL, or the one that the client used."""
    if base_url is not None:
        return f"{base_url.rstrip('/')}{path}"
    host = request.headers.get("host")
    if host is None:
        server = request.connection.server
        host = f"{server[0]}:{server[1]}" if server is not None else "localhost"
    return f"{request.connection.scheme}://{quote(host, safe=':[]')}{path}"


def next_page(request: Request, **changed: str) -> tuple[str, str]:
    """Return the header with the link to the next page: this request with one parameter changed.

    The changed value (a number, a token) needs no encoding.
    """
    parts = [f"{name}={value}" for name, value in changed.items()]
    if request.query_string:
        left_out = {*changed, "page", "after"}
        kept = [
            (name, value)
            for name in sorted(request.query.names() - left_out)
            for value in request.query.get_list(name)
        ]
        parts = [urlencode(kept), *parts] if kept else parts
    path = encode_path(request.segments) or "/"
    return "Link", f'<{path}?{"&".join(parts)}>; rel="next"'
