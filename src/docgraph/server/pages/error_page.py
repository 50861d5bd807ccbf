"""Error page: a rejection as HTML, with the same status, headers and content as in JSON.

A caller who is not authenticated reads the same words whether the path exists or not. For an
authenticated user without the permission the page shows how an administrator finds the reason.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html import escape
from typing import Final

from docgraph.exchange import Body, DocgraphError, Exchange, Headers, Request
from docgraph.exchange.errors import Forbidden, MethodNotAllowed, Unauthenticated
from docgraph.exchange.headers import parse_weight
from docgraph.exchange.markup import MEDIA_TYPE, PageStyle, code, link
from docgraph.exchange.request import encode_path
from docgraph.server.respond import phrase_of

# Detect browser navigation: the GET and HEAD requests that get a page (decision 22).
#
# Browsers mark a navigation with `Sec-Fetch-Mode: navigate`, which no script can set. They send the
# `Sec-Fetch-…` headers to https and to loopback addresses only. Over plain http to another host the
# mark of a navigation is `Upgrade-Insecure-Requests: 1`, which `fetch()` and programs do not send.
# `Accept` alone proves nothing: Java's `HttpURLConnection` prefers `text/html` by default.

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


STYLE: Final = PageStyle(
    """
body{max-width:42rem}
.soft{color:var(--soft)}h1 b{color:var(--accent);font-weight:inherit}
ul{list-style:none;margin:.5rem 0;padding:0}
li{border-top:1px solid var(--line);padding:.5rem 0}
li:last-child{border-bottom:1px solid var(--line)}
"""
)
# Another caller, or another program, gets a different response at the same URL.
PAGE_HEADERS: Final = (*STYLE.headers, ("Vary", VARY), ("Cache-Control", "no-store"))
_OURS: Final = frozenset(name.lower() for name, _ in PAGE_HEADERS) - {"vary"}
_ASKING: Final = ("basic ", "digest ")
_GRAPHQL: Final = "graphql"
_EXAMPLE: Final = '{"query": "{ __typename }"}'


def build_refusal_page(
    error: DocgraphError, exchange: Exchange, body: Body, console: str | None = None
) -> Body:
    """Render the answer `body` as a page, with a link to `console` if that helps."""
    title = f"{body.status} {phrase_of(body.status)}".strip()
    content = "".join(_render(error, exchange, body.status, console))
    headers = [one for one in body.headers if one[0].lower() not in _OURS]
    return replace(
        body,
        content=STYLE.render(title, content),
        media_type=MEDIA_TYPE,
        headers=[*headers, *PAGE_HEADERS],
    )


def asks_for_password(error: Unauthenticated) -> bool:
    """Return whether a browser asks its user for a name and a password after this response."""
    return any(value.lower().startswith(_ASKING) for _, value in error.headers)


def _render(
    error: DocgraphError, exchange: Exchange, status: int, console: str | None
) -> Iterator[str]:
    yield f"<h1><b>{status}</b> {escape(phrase_of(status))}</h1>"
    if isinstance(error, Unauthenticated):
        yield "<p>Log in to continue.</p>"
        if asks_for_password(error):
            yield f"<p>{link('', 'Log in')}</p>"  # the same URL again: the browser asks
    elif isinstance(error, Forbidden):
        yield from _render_denial(exchange)
    else:
        yield from _render_reason(error, exchange, console)
    yield f"<p>{link('/', 'Front page')}</p>"


def _render_denial(exchange: Exchange) -> Iterator[str]:
    if exchange.account is None:
        yield "<p>This is not allowed.</p>"
        return
    yield f"<p>You are logged in as {code(exchange.account.name)}, who may not do this.</p>"
    yield "<p>The administrator of this server can find the reason with</p>"
    yield f"<pre>{escape(_explaining_command(exchange))}</pre>"


def _explaining_command(exchange: Exchange) -> str:
    """Return the command to type; shell and terminal interpret nothing in it."""
    request, account = exchange.request, exchange.account
    name = "" if account is None else account.name
    words = [
        "docgraph",
        "access",
        "explain",
        f"--user={name}",
        f"--method={request.method}",
        f"--path={encode_path(request.segments) or '/'}",
    ]
    if request.query_string:  # rules may depend on it
        words.append(f"--query={request.query_string.decode('latin-1')}")
    return " ".join(shlex.quote(_printable(word)) for word in words)


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _render_reason(error: DocgraphError, exchange: Exchange, console: str | None) -> Iterator[str]:
    yield f"<p>{_sentence(error.message)}</p>"
    if error.hint is not None:
        yield f'<p class="soft">{_sentence(error.hint)}</p>'
    if exchange.service == _GRAPHQL and isinstance(error, MethodNotAllowed):
        if console is not None:
            yield f"<p>{link(console, 'Ask this app in the console')}</p>"
        yield "<p>GraphQL apps are asked with POST. Send JSON such as this to this address:</p>"
        yield f"<pre>Content-Type: application/json\n\n{escape(_EXAMPLE)}</pre>"
    facts = [f"code {code(error.code)}"]
    if isinstance(error.details, Mapping) and "id" in error.details:
        facts.append(f"id {code(str(error.details['id']))}")
    yield f'<p class="soft">{", ".join(facts)}</p>'


def _sentence(text: str) -> str:
    return escape(text[:1].upper() + text[1:])
