"""Front page: `GET /` in a browser, with links to what the caller can use.

It needs no allower, because it shows only what the caller could find out: an app is listed if a
query to it would be permitted. `/?login` makes browsers ask for a name and a password.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, ClassVar, Final

from docgraph.auth.authenticate import AuthenticateStage
from docgraph.exchange import Answer, Body, Exchange
from docgraph.exchange.errors import StoreError, Unauthenticated
from docgraph.exchange.markup import MEDIA_TYPE, code, link
from docgraph.exchange.request import encode_path
from docgraph.graphql.apps.stored_definitions import StoredDefinition
from docgraph.graphql.http.app_access import AppAccess
from docgraph.plugins.kinds import Service
from docgraph.server.pages.error_page import PAGE_HEADERS, STYLE, asks_for_password
from docgraph.server.services.apps import find_description, find_visible_apps

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
    """At `/` for browsers that navigate there; other requests get the service bound to it."""

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
        """`paths` are those of the services by name; `access` finds the apps, if there are any."""
        self._title = title
        self._access = access
        self._apps_at = paths.get("graphql", ())
        self._console_at = paths.get("console")
        self._authenticator = authenticator
        self._signs = "".join(_render_signs(paths))

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

    async def _list_apps(self, access: AppAccess, exchange: Exchange) -> str:
        heading = "<h2>Apps</h2>"
        try:
            found, has_more = await find_visible_apps(access, exchange)
        except StoreError:
            return f"{heading}<p>They are not known now, because of the database.</p>"
        if not found:
            return f"{heading}<p>There is none that you may ask.</p>"
        rest = "<p>There are more.</p>" if has_more else ""
        return f"{heading}<ul>{''.join(map(self._render_app, found))}</ul>{rest}"

    def _render_app(self, entry: StoredDefinition) -> str:
        path = encode_path((*self._apps_at, *entry.uri.split("/")))
        description = find_description(entry)
        about = (
            "" if description is None else f'<br><span class="soft">{escape(description)}</span>'
        )
        return f"<li>POST {link(path, path)}{self._render_asking(entry)}{about}</li>"

    def _render_asking(self, entry: StoredDefinition) -> str:
        """Render the link to the page where people query the app."""
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
