"""`authCookieSetter`: a cookie for callers who ask for it with `set-auth-cookie` (decision 30),
and for those who came by it and renew their token.

The cookie holds the token of the answer, never what the caller logged in with. It is set over https
only, unless `secure` is off; over plain http the answer says so, and the log does, once.
"""

from __future__ import annotations

import time
from typing import ClassVar, Final

from docgraph.auth.cookies.cookie import Cookie, CookieTooLarge
from docgraph.auth.cookies.sections import NO_MANAGER, TURN_ON, AuthCookieSetter
from docgraph.auth.headers import BasicCredentials, BearerToken
from docgraph.auth.tokens.headers import find_manager, find_token, wants_cookie
from docgraph.exchange import Answer, Exchange, StartupError
from docgraph.exchange.errors import NotSupported
from docgraph.observe import emit
from docgraph.observe.events import CookieNotSet
from docgraph.plugins.kinds import Interceptor, Point
from docgraph.plugins.registry import PluginRegistry

__all__ = ["CookieSetter"]

_NOT_SET: Final = (
    "Auth-Cookie-Not-Set",
    "the request came over http, and authCookieSetter.secure is true",
)
_WAY_OUT: Final = (
    "serve https; or name the proxy that does in core.trusted-proxies and have it send "
    "X-Forwarded-Proto; or set secure to false where nobody else is on the network"
)


class CookieSetter(Interceptor):
    """Stands at the response, after everything that may have renewed or ended the token."""

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
        self._is_told = False

    async def provision(self) -> None:
        """A JWT is carried as such where the JWT mechanism reads it, else like a password."""
        self._bearer = all(
            self._registry.find(name) is not None
            for name in ("jwtTokenManager", "jwtAuthenticationMechanism")
        )

    def validate(self) -> None:
        """Refuse names and attributes that browsers do not take together, and to have no token."""
        if find_manager(self._registry) is None:
            raise StartupError(f"/{self.name}/enabled: {NO_MANAGER}", hint=TURN_ON)
        self._cookie.check()

    def resolve(self, exchange: Exchange) -> bool:
        """Known callers who ask for it."""
        is_known = exchange.account is not None and not exchange.is_entry
        return is_known and wants_cookie(exchange)

    async def handle(self, exchange: Exchange) -> Answer | None:
        """Adds the cookie to the answer, or why there is none."""
        if self.config.secure and exchange.request.connection.scheme != "https":
            self._tell(exchange)
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

    def _tell(self, exchange: Exchange) -> None:
        exchange.headers.append(_NOT_SET)
        if not self._is_told:
            self._is_told = True
            emit(CookieNotSet(f"/{self.name}/secure", _WAY_OUT, exchange.id))
