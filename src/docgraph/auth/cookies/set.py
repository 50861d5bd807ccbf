"""`authCookieSetter`: set the authentication cookie (decision 30).

Callers request it with `set-auth-cookie`; a renewed token replaces the cookie of its caller. The
cookie contains the token of the response, never the credentials of the login. It is set over https
only, unless `secure` is off; over plain http the response reports that, and the log does, once.
"""

from __future__ import annotations

import time
from typing import ClassVar, Final

from docgraph.auth.cookies.cookie import Cookie, CookieTooLarge
from docgraph.auth.cookies.sections import NO_MANAGER, TURN_ON, AuthCookieSetter
from docgraph.auth.credentials import BasicCredentials, BearerToken
from docgraph.auth.tokens.token_headers import find_manager, find_token, wants_cookie
from docgraph.exchange import Answer, Exchange, StartupError
from docgraph.exchange.errors import NotSupported
from docgraph.observe import emit
from docgraph.observe.events import CookieNotSet
from docgraph.plugins.kinds import Interceptor, Point
from docgraph.plugins.registry import PluginRegistry

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
