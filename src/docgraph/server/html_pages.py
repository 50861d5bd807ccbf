"""HTML pages: errors with the same status, headers and content as in JSON, and the front page.

A caller who is not authenticated reads the same words whether the path exists or not. For an
authenticated user without the permission the page shows how an administrator finds the reason.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import replace
from html import escape
from typing import Any, ClassVar, Final

from docgraph.auth.authenticate import AuthenticateStage
from docgraph.exchange import Answer, Body, DocgraphError, Exchange, Headers, Request
from docgraph.exchange.errors import Forbidden, MethodNotAllowed, StoreError, Unauthenticated
from docgraph.exchange.headers import parse_weight
from docgraph.exchange.markup import MEDIA_TYPE, PageStyle, code, link
from docgraph.exchange.request import encode_path
from docgraph.graphql.apps.stored_definitions import StoredDefinition
from docgraph.graphql.http.app_access import AppAccess
from docgraph.plugins.kinds import Service
from docgraph.server.respond import phrase_of
from docgraph.server.services.rights import find_description, find_visible_apps

VARY: Final = "Sec-Fetch-Mode, Upgrade-Insecure-Requests, Accept"  # what the answer depends on
_MODE: Final = "sec-fetch-mode"
_FETCH_METADATA: Final = (_MODE, "sec-fetch-site", "sec-fetch-dest", "sec-fetch-user")


def is_navigation(request: Request) -> bool:
    """Return whether a person opened this URL in a browser.

    A GET or HEAD request of a navigation gets a page (decision 22). Browsers mark a navigation with
    `Sec-Fetch-Mode: navigate`, which no script can set. They send the `Sec-Fetch-…` headers to
    https and to loopback addresses only. Over plain http to another host the mark of a navigation
    is `Upgrade-Insecure-Requests: 1`, which `fetch()` and programs do not send. `Accept` alone
    proves nothing: Java's `HttpURLConnection` prefers `text/html` by default.
    """
    if request.method not in ("GET", "HEAD"):
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
_EXAMPLE: Final = '{"query": "{ __typename }"}'


def build_refusal_page(
    error: DocgraphError, exchange: Exchange, body: Body, console: str | None = None
) -> Body:
    """Render the answer `body` as a page, with a link to `console` if that helps."""
    title = f"{body.status} {phrase_of(body.status)}".strip()
    content = "".join(_render(error, exchange, body.status, console))
    headers = [header for header in body.headers if header[0].lower() not in _OURS]
    return replace(
        body,
        content=STYLE.render(title, content),
        media_type=MEDIA_TYPE,
        headers=[*headers, *PAGE_HEADERS],
    )


def asks_for_password(error: Unauthenticated) -> bool:
    """Return whether a browser asks its user for a name and a password after this response."""
    return any(value.lower().startswith(("basic ", "digest ")) for _, value in error.headers)


def _render(
    error: DocgraphError, exchange: Exchange, status: int, console: str | None
) -> Iterator[str]:
    yield f"<h1><b>{status}</b> {escape(phrase_of(status))}</h1>"
    if isinstance(error, Unauthenticated):
        yield "<p>Log in to continue.</p>"
        if asks_for_password(error):
            yield f"<p>{link('', 'Log in')}</p>"  # the same URL again: the browser asks
    elif isinstance(error, Forbidden):
        if exchange.account is None:
            yield "<p>This is not allowed.</p>"
        else:
            yield f"<p>You are logged in as {code(exchange.account.name)}, who may not do this.</p>"
            yield "<p>The administrator of this server can find the reason with</p>"
            yield f"<pre>{escape(_explaining_command(exchange))}</pre>"
    else:
        yield from _render_reason(error, exchange, console)
    yield f"<p>{link(_find_root(exchange), 'Front page')}</p>"


def _find_root(exchange: Exchange) -> str:
    return f"{exchange.request.connection.root_path}/"


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
    if exchange.service == "graphql" and isinstance(error, MethodNotAllowed):
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


_LONGEST_MS: Final = 10_000
_LOGIN: Final = "login"
# Links by the name of the service.
_SIGNS: Final = {
    "console": ("Console", "ask the apps, see how they answer, change them"),
    "openapiPage": ("API description", "everything that is served, for callers who may know"),
    "openapi": ("OpenAPI", "the same for programs"),
    "ping": ("Ping", "whether the server answers"),
    "database-probe": ("Health", "whether the database answers"),
}


class FrontPage(Service):
    """Front page at `/`, for browsers; other requests get the service bound to that path.

    It has links to what the caller can use. It needs no allower, because it shows only what the
    caller could find out: an app is listed if a query to it would be permitted. `/?login` makes
    browsers ask for a name and a password.
    """

    name: ClassVar[str] = "frontPage"
    description: ClassVar[str] = "a page that says what is here"
    uri: ClassVar[str] = "/"
    exact: ClassVar[bool] = True
    secured: ClassVar[bool] = False

    def __init__(
        self,
        title: str,
        paths: Mapping[str, tuple[str, ...]],
        access: AppAccess | None,
        authenticator: AuthenticateStage,
    ) -> None:
        """Store the paths of services by name; `access` finds the apps, if there are any."""
        self._title = title
        self._access = access
        self._apps_at = paths.get("graphql", ())
        self._console_at = paths.get("console")
        self._authenticator = authenticator
        self._paths = paths

    def time_limit_ms(self, exchange: Exchange) -> int:
        """Return a short limit: a slow page is useless."""
        return _LONGEST_MS

    async def handle(self, exchange: Exchange) -> Answer:
        """Return the page for this caller; with `?login` the caller must log in first."""
        if exchange.account is None and _LOGIN in exchange.request.query:
            raise Unauthenticated("authentication required")
        parts = [
            f"<h1>{escape(self._title)}</h1>",
            '<p class="soft">docgraph: GraphQL and REST APIs over MongoDB.</p>',
            self._greet(exchange),
            "" if self._access is None else await self._list_apps(self._access, exchange),
            *_render_signs(self._paths, exchange.request.connection.root_path),
        ]
        return Body(200, STYLE.render(self._title, "".join(parts)), MEDIA_TYPE, list(PAGE_HEADERS))

    def _greet(self, exchange: Exchange) -> str:
        account = exchange.account
        if account is not None:
            roles = ", ".join(map(code, account.roles)) or "no roles"
            return f"<p>You are logged in as {code(account.name)} ({roles}).</p>"
        if asks_for_password(self._authenticator.challenge(exchange)):
            login = link(f"{_find_root(exchange)}?{_LOGIN}", "Log in")
            return f"<p>You are not logged in. {login}</p>"
        return f"<p>You are not logged in: send a token in the header {code('Authorization')}.</p>"

    async def _list_apps(self, access: AppAccess, exchange: Exchange) -> str:
        heading = "<h2>Apps</h2>"
        try:
            visible, has_more = await find_visible_apps(access, exchange)
        except StoreError:
            return f"{heading}<p>They are not known now, because of the database.</p>"
        if not visible:
            return f"{heading}<p>There is none that you may ask.</p>"
        rest = "<p>There are more.</p>" if has_more else ""
        root = exchange.request.connection.root_path
        apps = "".join(self._render_app(entry, root) for entry in visible)
        return f"{heading}<ul>{apps}</ul>{rest}"

    def _render_app(self, entry: StoredDefinition, root: str) -> str:
        path = root + encode_path((*self._apps_at, *entry.uri.split("/")))
        description = find_description(entry)
        about = (
            "" if description is None else f'<br><span class="soft">{escape(description)}</span>'
        )
        return f"<li>POST {link(path, path)}{self._render_asking(entry, root)}{about}</li>"

    def _render_asking(self, entry: StoredDefinition, root: str) -> str:
        """Render the link to the page where people query the app."""
        if self._console_at is None:
            return ""
        path = root + encode_path((*self._console_at, "ask", *entry.uri.split("/")))
        return f" · {link(path, 'ask')}"


def _render_signs(paths: Mapping[str, tuple[str, ...]], root: str) -> Iterator[str]:
    signs: list[Any] = [(paths[name], *sign) for name, sign in _SIGNS.items() if name in paths]
    if signs:
        yield "<h2>Also here</h2><ul>"
        for path, title, about in signs:
            at = root + encode_path(path)
            yield f'<li>{link(at, title)}<br><span class="soft">{about}</span></li>'
        yield "</ul>"
