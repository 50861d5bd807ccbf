"""`authCookieHandler`: use the cookie as an `Authorization` header (decisions 27, 30).

Only mechanisms that verify tokens see the header. Those that check passwords do not: the cookie
never contains one, and a stale cookie must cost neither a hash nor an attempt. A real
`Authorization` header has precedence. A cookie that no mechanism accepts counts as none and is
cleared, but not in requests of foreign pages; two different cookies of the name count as such a
cookie.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import ClassVar, Final

from docgraph.auth.cookies.cookie import Cookie, check_forgery, find_values, read_authorization
from docgraph.auth.cookies.remove import REMOVER
from docgraph.auth.cookies.sections import AuthCookieHandler, AuthCookieSetter
from docgraph.auth.tokens.token_headers import record_cookie
from docgraph.config.section import PluginConfig
from docgraph.exchange import Answer, Exchange, Headers
from docgraph.exchange.origin import RequestOrigin
from docgraph.plugins.kinds import (
    ABSENT,
    Accepted,
    AuthMechanism,
    Interceptor,
    Outcome,
    Point,
    Rejected,
)
from docgraph.plugins.registry import PluginRegistry

_VERIFIERS: Final = ("tokenBasicAuthMechanism", "jwtAuthenticationMechanism")
_REJECTED: Final = "authCookieHandler.rejected"


class CookieHandler(AuthMechanism):
    """A mechanism without a challenge: browsers send cookies by themselves."""

    name: ClassVar[str] = "authCookieHandler"
    description: ClassVar[str] = "takes the authentication cookie as credentials"
    enabled_by_default: ClassVar[bool] = False
    priority: ClassVar[int] = 5
    Config = AuthCookieHandler

    def __init__(
        self,
        config: AuthCookieHandler,
        registry: PluginRegistry,
        cookie: AuthCookieSetter,
    ) -> None:
        self.config = config
        self._registry = registry
        self._name = Cookie(cookie).name
        self._verifiers: list[AuthMechanism] = []

    async def provision(self) -> None:
        """Find the mechanisms that verify tokens."""
        found = [self._registry.find(name) for name in _VERIFIERS]
        self._verifiers = [one for one in found if one is not None]

    async def authenticate(self, exchange: Exchange) -> Outcome:
        """Return the result of the mechanisms for the cookie."""
        headers = exchange.request.headers
        if "authorization" in headers:
            return ABSENT
        values = find_values(headers, self._name)
        if not values:
            return ABSENT
        outcome = await self._verify(exchange, values)
        if isinstance(outcome, Accepted):
            is_logout = exchange.service == REMOVER
            check_forgery(exchange.request, takes_forms=is_logout)
            record_cookie(exchange)
        elif exchange.request.page is not RequestOrigin.FOREIGN:
            exchange.attributes[_REJECTED] = True
        return outcome

    async def _verify(self, exchange: Exchange, values: list[str]) -> Outcome:
        authorization = read_authorization(values[0]) if len(values) == 1 else None
        if authorization is None:
            return Rejected("malformed")
        shown = _show(exchange, authorization)
        for verifier in self._verifiers:
            outcome = await verifier.authenticate(shown)
            if isinstance(outcome, Accepted):
                return outcome
        return Rejected("wrong-token")


class CookieClearer(Interceptor):
    """Clears a cookie that no mechanism accepted."""

    name: ClassVar[str] = "authCookieClearer"
    description: ClassVar[str] = "clears an authentication cookie that is not valid any more"
    point: ClassVar[Point] = Point.AFTER_AUTH
    priority: ClassVar[int] = 5

    def __init__(self, config: PluginConfig, cookie: AuthCookieSetter) -> None:
        self.config = config
        self._cleared = ("Set-Cookie", Cookie(cookie).clear())

    def resolve(self, exchange: Exchange) -> bool:
        """Return whether the handler has rejected a cookie."""
        return _REJECTED in exchange.attributes and not exchange.is_entry

    async def handle(self, exchange: Exchange) -> Answer | None:
        """Add the header; never ends the request."""
        exchange.headers.append(self._cleared)
        return None


class CookieClearerOnRefusal(CookieClearer):
    """Clears the cookie of requests that are rejected as unauthenticated."""

    name: ClassVar[str] = "authCookieClearerOnRefusal"
    description: ClassVar[str] = "clears an invalid authentication cookie, also with a 401"
    point: ClassVar[Point] = Point.AFTER_FAILED_AUTH


def _show(exchange: Exchange, authorization: str) -> Exchange:
    """Return a copy of the exchange with that header; its attributes are discarded afterwards."""
    request = copy.copy(exchange.request)
    request.headers = Headers.of(authorization=authorization)
    return replace(exchange, request=request, headers=[], attributes={})
