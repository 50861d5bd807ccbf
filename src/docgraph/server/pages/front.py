"""`GET /` in a browser: what this is, what is here for the caller, and where to go on.

It needs no allower, as it says nothing but what the caller may ask for himself: an app is named
where a query to it would be admitted. `/?login` asks browsers for a name and a password.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, ClassVar, Final

from docgraph.auth.authenticate import Authenticator
from docgraph.exchange import Answer, Body, Exchange
from docgraph.exchange.errors import StoreError, Unauthenticated
from docgraph.exchange.markup import MEDIA_TYPE, code, link
from docgraph.exchange.path import encode_path
from docgraph.graphql.apps.stored_definitions import Entry
from docgraph.mcp.desk import Desk
from docgraph.plugins.kinds import Service
from docgraph.server.pages.refusal import PAGE_HEADERS, STYLE, asks_for_password
from docgraph.server.services.apps import find_description, find_visible_apps

__all__ = ["FrontPage"]

_LONGEST_MS: Final = 10_000
_LOGIN: Final = "login"
# What is worth a look, by the name of the service.
_SIGNS: Final = {
    "console": ("Console", "ask the apps, see how they answer, change them"),
    "openapiPage": ("API description", "everything that is served, for callers who may know"),
    "openapi": ("OpenAPI", "the same for programs"),
    "ping": ("Ping", "whether the server answers"),
    "database-probe": ("Health", "whether the database answers"),
}


class FrontPage(Service):
    """At `/` for browsers that navigate there; any other request gets what is bound to it."""

    name: ClassVar[str] = "frontPage"
    description: ClassVar[str] = "a page that says what is here"
    uri: ClassVar[str] = "/"
    exact: ClassVar[bool] = True
    secured: ClassVar[bool] = False

    def __init__(
        self,
        title: str,
        paths: Mapping[str, tuple[str, ...]],
        desk: Desk | None,
        authenticator: Authenticator,
    ) -> None:
        """`paths` are those of the services by name; `desk` knows the apps, where there are any."""
        self._title = title
        self._desk = desk
        self._apps_at = paths.get("graphql", ())
        self._console_at = paths.get("console")
        self._authenticator = authenticator
        self._signs = "".join(_render_signs(paths))

    def time_limit_ms(self, exchange: Exchange) -> int:
        """A page that takes longer is of no use."""
        return _LONGEST_MS

    async def handle(self, exchange: Exchange) -> Answer:
        """The page for this caller; who wants to log in has to do so first."""
        if exchange.account is None and _LOGIN in exchange.request.query:
            raise Unauthenticated("authentication required")
        parts = [
            f"<h1>{escape(self._title)}</h1>",
            '<p class="soft">docgraph: GraphQL and REST APIs over MongoDB.</p>',
            self._greet(exchange),
            "" if self._desk is None else await self._list_apps(self._desk, exchange),
            self._signs,
        ]
        return Body(200, STYLE.render(self._title, "".join(parts)), MEDIA_TYPE, list(PAGE_HEADERS))

    def _greet(self, exchange: Exchange) -> str:
        account = exchange.account
        if account is not None:
            roles = ", ".join(map(code, account.roles)) or "no roles"
            return f"<p>You are logged in as {code(account.name)} ({roles}).</p>"
        if asks_for_password(self._authenticator.challenge(exchange)):
            return f"<p>You are not logged in. {link(f'/?{_LOGIN}', 'Log in')}</p>"
        return f"<p>You are not logged in: send a token in the header {code('Authorization')}.</p>"

    async def _list_apps(self, desk: Desk, exchange: Exchange) -> str:
        heading = "<h2>Apps</h2>"
        try:
            found, has_more = await find_visible_apps(desk, exchange)
        except StoreError:
            return f"{heading}<p>They are not known now, because of the database.</p>"
        if not found:
            return f"{heading}<p>There is none that you may ask.</p>"
        rest = "<p>There are more.</p>" if has_more else ""
        return f"{heading}<ul>{''.join(map(self._render_app, found))}</ul>{rest}"

    def _render_app(self, entry: Entry) -> str:
        path = encode_path((*self._apps_at, *entry.uri.split("/")))
        told = find_description(entry)
        about = "" if told is None else f'<br><span class="soft">{escape(told)}</span>'
        return f"<li>POST {link(path, path)}{self._render_asking(entry)}{about}</li>"

    def _render_asking(self, entry: Entry) -> str:
        """Where people ask the app."""
        if self._console_at is None:
            return ""
        path = encode_path((*self._console_at, "ask", *entry.uri.split("/")))
        return f" · {link(path, 'ask')}"


def _render_signs(paths: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    signs: list[Any] = [(paths[name], *sign) for name, sign in _SIGNS.items() if name in paths]
    if signs:
        yield "<h2>Also here</h2><ul>"
        for path, title, about in signs:
            yield f'<li>{link(encode_path(path), title)}<br><span class="soft">{about}</span></li>'
        yield "</ul>"
