"""`authTokenService`: the caller's own token at `<srv-uri>` and `<srv-uri>/<userid>` (decision 29).

GET     the token, the same as in `Auth-Token`        POST   a new one
DELETE  revokes it                                    another user's: 403

A caller with the cookie gets only the expiration time; a new token goes into the cookie.

With `oauth-style` (decision 55) the answers have the names of OAuth, `?renew` makes a new token
with any method, and `POST <srv-uri>/cookie` sets the cookie.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import orjson

from docgraph.auth.sections import Roles
from docgraph.auth.tokens.revocation import Revocations, end_session
from docgraph.auth.tokens.sections import AuthTokenService
from docgraph.auth.tokens.token import (
    AuthToken,
    find_end,
    find_manager,
    find_token,
    give_token,
    is_by_cookie,
    render_instant,
    request_cookie,
    service_uri,
    withdraw_token,
)
from docgraph.exchange import Account, Answer, Body, Exchange
from docgraph.exchange.errors import Forbidden, NotFound, Unauthenticated
from docgraph.plugins.kinds import Service, TokenManager
from docgraph.plugins.registry import PluginRegistry, bound_path
from docgraph.store import Store

_SETTER: Final = "authCookieSetter"
_DOTS: Final = 2  # in a signed token
_NOT_STORED: Final = (("Cache-Control", "no-store"),)


class TokenService(Service):
    """Serves the caller's token without a permission rule; the path of another user is 403."""

    name: ClassVar[str] = "authTokenService"
    description: ClassVar[str] = "gives and ends the caller's token"
    uri: ClassVar[str] = "/tokens"  # or the URI that the token manager sets
    methods: ClassVar[tuple[str, ...]] = ("GET", "POST", "DELETE")
    secured: ClassVar[bool] = False
    security: ClassVar[bool] = True
    Config = AuthTokenService

    def __init__(
        self,
        config: AuthTokenService,
        registry: PluginRegistry,
        store: Store,
        token_revocations: Revocations | None = None,
    ) -> None:
        self.config = config
        self._store = store
        self._registry = registry
        self._revocations = token_revocations
        self._manager: TokenManager | None = None

    async def provision(self) -> None:
        """Find the token manager, which sets the URI of its service."""
        self._manager = find_manager(self._registry)
        self.uri = service_uri(self._manager, self.config)  # type: ignore[misc]

    def allowed_methods(self, exchange: Exchange) -> Sequence[str]:
        """Return the methods, the same for every user.

        Called before a method is rejected, so that 401 comes first.
        """
        if self._is_for_cookie(exchange):
            return ("POST",)
        check_own_path(exchange, bound_path(self, self.config), bare=True)
        return self.methods

    async def handle(self, exchange: Exchange) -> Answer:
        """Serve the token; the caller is authenticated, and the path is the caller's own."""
        if self._is_for_cookie(exchange):
            return await self._set_cookie(exchange)
        account = check_own_path(exchange, bound_path(self, self.config), bare=True)
        if account is None or self._manager is None:
            raise NotFound("no token manager is on")
        is_oauth, method = self.config.oauth_style, exchange.request.method
        if method == "DELETE":
            return await self._end(exchange, account)
        if "renew" in exchange.request.query if is_oauth else method == "POST":
            token = await self._renew(self._manager, exchange, account)
        else:
            token = find_token(exchange) or AuthToken.of(await self._manager.issue(account))
        shown = (
            _describe_oauth(exchange, account, token) if is_oauth else _describe(exchange, token)
        )
        return _render(shown)

    def _is_for_cookie(self, exchange: Exchange) -> bool:
        """Return whether the request is to `<uri>/cookie`; raise 401 for anonymous callers."""
        prefix = bound_path(self, self.config)
        if not self.config.oauth_style or exchange.request.segments != (*prefix, "cookie"):
            return False
        if exchange.account is None and exchange.request.method != "OPTIONS":
            raise Unauthenticated("authentication required")
        return True

    async def _renew(
        self, manager: TokenManager, exchange: Exchange, account: Account
    ) -> AuthToken:
        """Issue a new token; the manager bounds it by the end of the login."""
        token = AuthToken.of(await manager.issue(account, renew=True))
        give_token(exchange, token, self.uri, renewed=True)
        return token

    async def _set_cookie(self, exchange: Exchange) -> Answer:
        account = exchange.account
        if account is None or self._manager is None or not self._registry.find(_SETTER):
            raise NotFound("cookies are off", hint=f"turn on {_SETTER}")
        if "renew" in exchange.request.query:
            await self._renew(self._manager, exchange, account)
        request_cookie(exchange)
        return _render(
            {"authenticated": True, "username": account.name, "roles": list(account.roles)}
        )

    async def _end(self, exchange: Exchange, account: Account) -> Answer:
        await end_session(self._store, self._manager, self._revocations, account)
        withdraw_token(exchange)
        return Body(204, headers=[*_NOT_STORED])


def _render(shown: dict[str, Any]) -> Body:
    return Body(200, orjson.dumps(shown), "application/json", [*_NOT_STORED])


def _describe(exchange: Exchange, token: AuthToken) -> dict[str, Any]:
    shown = {} if is_by_cookie(exchange) else {"auth_token": token.text}
    return {**shown, "auth_token_valid_until": render_instant(find_end(exchange, token))}


def _describe_oauth(exchange: Exchange, account: Account, token: AuthToken) -> dict[str, Any]:
    """Describe the token as OAuth does; a signed one is sent as a bearer."""
    is_signed = token.text.count(".") == _DOTS
    shown = {} if is_by_cookie(exchange) else {"access_token": token.text}
    return {
        **shown,
        "token_type": "Bearer" if is_signed else "Basic-Password",
        "expires_in": max(0, int(find_end(exchange, token) - time.time())),
        "username": account.name,
        "roles": list(account.roles),
    }


def check_own_path(
    exchange: Exchange, prefix: tuple[str, ...], *, bare: bool = False
) -> Account | None:
    """Reject every caller but the user whose id follows the prefix; OPTIONS needs no caller.

    With `bare` the prefix alone is the caller's path. Decoded segments are compared, so that no
    spelling of a path can name another user.
    """
    if exchange.request.method == "OPTIONS":
        return None
    if exchange.account is None:
        raise Unauthenticated("authentication required")
    rest = exchange.request.segments[len(prefix) :]
    if rest != (exchange.account.name,) and not (bare and not rest):
        raise Forbidden("the path is not the caller's own")
    return exchange.account


class RolesService(Service):
    """Returns the roles of the caller."""

    name: ClassVar[str] = "roles"
    description: ClassVar[str] = "tells callers their roles"
    uri: ClassVar[str] = "/roles"
    secured: ClassVar[bool] = False
    security: ClassVar[bool] = True
    Config = Roles

    def __init__(self, config: Roles) -> None:
        self.config = config
        self._prefix = bound_path(self, config)

    def allowed_methods(self, exchange: Exchange) -> Sequence[str]:
        """Return the methods; called before a method is rejected, so that 401 and 403 precede."""
        check_own_path(exchange, self._prefix)
        return self.methods

    async def handle(self, exchange: Exchange) -> Answer:
        check_own_path(exchange, self._prefix)
        answer = {"authenticated": True, "roles": list(exchange.roles)}
        return Body(200, orjson.dumps(answer), "application/json")
