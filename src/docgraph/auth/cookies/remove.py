"""`authCookieRemover`: logout clears the cookie and revokes the token (decision 30).

Every caller may log out, with a form or without a body. A foreign page may not, whether or not the
browser sent the cookie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final

from docgraph.auth.cookies.cookie import Cookie
from docgraph.auth.cookies.csrf import foreign_page
from docgraph.auth.cookies.sections import AuthCookieRemover, AuthCookieSetter
from docgraph.auth.tokens.logout import end_session
from docgraph.auth.tokens.revocation import Revocations
from docgraph.auth.tokens.token_headers import find_manager, withdraw_token
from docgraph.exchange import Answer, Body, Exchange
from docgraph.exchange.errors import Unauthenticated
from docgraph.exchange.origin import RequestOrigin
from docgraph.plugins.kinds import Service, TokenManager
from docgraph.plugins.registry import PluginRegistry
from docgraph.store import Store

REMOVER: Final = "authCookieRemover"


class CookieRemover(Service):
    """Logs out; needs no credentials unless `secure` requires them."""

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
        """Return the methods; called before a method is rejected, so that 401 comes first."""
        is_known = exchange.account is not None or exchange.request.method == "OPTIONS"
        if self.config.secure and not is_known:
            raise Unauthenticated("authentication required")
        return self.methods

    async def handle(self, exchange: Exchange) -> Answer:
        """Clear the cookie in any case; 200 means that the token is revoked, too."""
        if exchange.request.page is RequestOrigin.FOREIGN:
            raise foreign_page()
        withdraw_token(exchange)
        exchange.headers.append(self._cleared)
        if exchange.account is not None:
            await end_session(self._store, self._manager, self._revocations, exchange.account)
        return Body(200)
