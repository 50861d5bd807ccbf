"""`authCookieRemover`: logging out clears the cookie and ends the token (decision 30).

Whoever asks for it may do so, with a form or without any body; a foreign page may not, whether the
browser sent the cookie along or kept it back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from docgraph.auth.cookies.cookie import Cookie
from docgraph.auth.cookies.forgery import foreign_page
from docgraph.auth.cookies.sections import AuthCookieRemover, AuthCookieSetter
from docgraph.auth.tokens.ending import end_session
from docgraph.auth.tokens.headers import find_manager, withdraw_token
from docgraph.auth.tokens.revocation import Revocations
from docgraph.exchange import Answer, Body, Exchange
from docgraph.exchange.errors import Unauthenticated
from docgraph.exchange.pages import Page
from docgraph.plugins.kinds import Service, TokenManager
from docgraph.plugins.registry import PluginRegistry
from docgraph.store import Store

__all__ = ["REMOVER", "CookieRemover"]

REMOVER: Final = "authCookieRemover"


class CookieRemover(Service):
    """Works without credentials, too, unless `secure` asks for them."""

    name: ClassVar[str] = REMOVER
    description: ClassVar[str] = "clears the authentication cookie and ends the token"
    enabled_by_default: ClassVar[bool] = False
    uri: ClassVar[str] = "/logout"
    exact: ClassVar[bool] = True
    methods: ClassVar[tuple[str, ...]] = ("POST",)
    secured: ClassVar[bool] = False
    security: ClassVar[bool] = True
    Config = AuthCookieRemover

    def __init__(
        self,
        config: AuthCookieRemover,
        registry: PluginRegistry,
        cookie: AuthCookieSetter,
        store: Store,
        token_revocations: Revocations | None = None,
    ) -> None:
        self.config = config
        self._store = store
        self.uri = config.uri  # type: ignore[misc]
        self._registry = registry
        self._cleared = ("Set-Cookie", Cookie(cookie).clear())
        self._revocations = token_revocations
        self._manager: TokenManager | None = None

    async def provision(self) -> None:
        """Find the token manager."""
        self._manager = find_manager(self._registry)

    def allowed_methods(self, exchange: Exchange) -> Sequence[str]:
        """Asked before a method is refused, so that 401 comes first."""
        is_known = exchange.account is not None or exchange.request.method == "OPTIONS"
        if self.config.secure and not is_known:
            raise Unauthenticated("authentication required")
        return self.methods

    async def handle(self, exchange: Exchange) -> Answer:
        """The cookie is cleared whatever else happens; 200 says that the token has ended, too."""
        if exchange.request.page is Page.FOREIGN:
            raise foreign_page()
        withdraw_token(exchange)
        exchange.headers.append(self._cleared)
        if exchange.account is not None:
            await end_session(self._store, self._manager, self._revocations, exchange.account)
        return Body(200)
