"""`authCookieSetter` and `authCookieRemover`: set the cookie (decision 30), clear it at logout.

Every caller may log out, with a form or without a body. A foreign page may not, whether or not the
browser sent the cookie.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import ClassVar, Final

from docgraph.auth.cookies.cookie import Cookie, CookieTooLarge, foreign_page
from docgraph.auth.cookies.sections import NO_MANAGER, TURN_ON, AuthCookieRemover, AuthCookieSetter
from docgraph.auth.credentials import BasicCredentials, BearerToken
from docgraph.auth.tokens.revocation import Revocations, end_session
from docgraph.auth.tokens.token_headers import (
    find_manager,
    find_token,
    wants_cookie,
    withdraw_token,
)
from docgraph.exchange import Answer, Body, Exchange, StartupError
from docgraph.exchange.errors import NotSupported, Unauthenticated
from docgraph.exchange.origin import RequestOrigin
from docgraph.observe import emit
from docgraph.observe.events import CookieNotSet
from docgraph.plugins.kinds import Interceptor, Point, Service, TokenManager
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


# `authCookieSetter`: set the authentication cookie (decision 30).
#
# Callers request it with `set-auth-cookie`; a renewed token replaces the cookie of its caller. The
# cookie contains the token of the response, never the credentials of the login. It is set over
# https only, unless `secure` is off; over plain http the response reports that, and the log does,
# once.

_NOT_SET: Final = (
    "Auth-Cookie-Not-Set",
    "the request came over http, and authCookieSetter.secure is true",
)
_WAY_OUT: Final = (
    "serve https; or name the proxy that does in core.trusted-proxies and have it send "
    "X-Forwarded-Proto; or set secure to false on a network that you trust"
)


class CookieSetter(Interceptor):
    """Runs at the response, after everything that may renew or revoke the token."""

    name: ClassVar[str] = "authCookieSetter"
    description: ClassVar[str] = "sets the authentication cookie for those who ask for it"
    enabled_by_default: ClassVar[bool] = False
    security: ClassVar[bool] = True
    point: ClassVar[Point] = Point.RESPONSE
    priority: ClassVar[int] = 50
    Config = AuthCookieSetter

    def __init__(
        self,
        config: AuthCookieSetter,
        registry: PluginRegistry,
    ) -> None:
        self.config = config
        self._registry = registry
        self._cookie = Cookie(config)
        self._bearer = False
        self._is_reported = False

    async def provision(self) -> None:
        """Choose the scheme: Bearer if the JWT mechanism reads the token, else Basic."""
        self._bearer = all(
            self._registry.find(name) is not None
            for name in ("jwtTokenManager", "jwtAuthenticationMechanism")
        )

    def validate(self) -> None:
        """Reject names and attributes that browsers do not accept together, and a missing token."""
        if find_manager(self._registry) is None:
            raise StartupError(f"/{self.name}/enabled: {NO_MANAGER}", hint=TURN_ON)
        self._cookie.check()

    def resolve(self, exchange: Exchange) -> bool:
        """Return whether an authenticated user requests the cookie."""
        is_known = exchange.account is not None and not exchange.is_entry
        return is_known and wants_cookie(exchange)

    async def handle(self, exchange: Exchange) -> Answer | None:
        """Add the cookie to the response, or the reason why it is missing."""
        if self.config.secure and exchange.request.connection.scheme != "https":
            self._warn(exchange)
            return None
        token, account = find_token(exchange), exchange.account
        if token is None or account is None:
            return None
        authorization = (
            BearerToken(token.text).render()
            if self._bearer
            else BasicCredentials(account.name, token.text).render()
        )
        try:
            cookie = self._cookie.set(authorization, time.time())
        except CookieTooLarge as error:
            raise NotSupported(
                f"the token of this account does not fit into a cookie ({error})",
                hint="send it in the Authorization header",
            ) from None
        exchange.headers.append(("Set-Cookie", cookie))
        return None

    def _warn(self, exchange: Exchange) -> None:
        exchange.headers.append(_NOT_SET)
        if not self._is_reported:
            self._is_reported = True
            emit(CookieNotSet(f"/{self.name}/secure", _WAY_OUT, exchange.id))
