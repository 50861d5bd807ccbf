"""Render errors: an error becomes a body in the format of its service, or a page."""

from __future__ import annotations

from typing import Any

import orjson

from docgraph.exchange import Body, DocgraphError, Exchange
from docgraph.exchange.errors import Forbidden, Unauthenticated
from docgraph.exchange.markup import MEDIA_TYPE
from docgraph.server.pages.error_page import build_refusal_page
from docgraph.server.pages.navigation import is_navigation
from docgraph.server.respond import phrase_of


def render_refusal(
    error: DocgraphError, exchange: Exchange, own: Body | None = None, console: str | None = None
) -> Body:
    """Return the response to a rejected request; `own` is the body in the service's format.

    `console` is the path of the page in which people can do what was tried.
    """
    body = build_error_body(error) if own is None else own
    if body.media_type == MEDIA_TYPE or not is_navigation(exchange.request):
        return body
    return build_refusal_page(error, exchange, body, console)


def build_error_body(error: DocgraphError) -> Body:
    """Build the general format of an error; 401 and 403 have no body."""
    headers = list(error.headers)
    if isinstance(error, Unauthenticated | Forbidden):
        return Body(error.status, headers=headers)
    content: dict[str, Any] = {
        "http status code": error.status,
        "http status description": phrase_of(error.status),
        "message": error.message.replace('"', "'").replace("\t", "  "),
        "code": error.code,
        **error.fields,
    }
    if error.hint is not None:
        content["hint"] = error.hint
    if error.details is not None:
        content["details"] = error.details
    return Body(error.status, orjson.dumps(content, default=str), "application/json", headers)
