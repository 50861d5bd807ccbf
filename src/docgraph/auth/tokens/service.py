"""`authTokenService`: the caller's own token at `<srv-uri>` and `<srv-uri>/<userid>` (decision 29).

GET     the token, the same as in `Auth-Token`        POST   a new one
DELETE  revokes it                                    another user's: 403

A caller with the cookie gets only the expiration time; a new token goes into the cookie.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import orjson

from docgraph.auth.roles import check_own_path
from docgraph.auth.tokens.logout import end_session
from docgraph.auth.tokens.revocation import Revocations
from docgraph.auth.tokens.sections import AuthTokenService
from docgraph.auth.tokens.token import AuthToken
from docgraph.auth.tokens.token_headers import (
    find_end,
    find_manager,
    find_token,
    give_token,
    is_by_cookie,
    render_instant,
    service_uri,
    withdraw_token,
)
from docgraph.exchange import Account, Answer, Body, Exchange
from docgraph.exchange.errors import NotFound
from docgraph.plugins.binding import bound_path
from docgraph.plugins.kinds import Service, TokenManager
from docgraph.plugins.registry import PluginRegistry
from docgraph.store import Store


class TokenService(Service):
    """Needs no rule: a path without a user id is the caller's, one with another id is 403."""

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
        check_own_path(exchange, bound_path(self, self.config), bare=True)
        return self.methods

    async def handle(self, exchange: Exchange) -> Answer:
        """Serve the token; the caller is authenticated, and the path is the caller's own."""
        account = check_own_path(exchange, bound_path(self, self.config), bare=True)
        if account is None or self._manager is None:
            raise NotFound("no token manager is on")
        match exchange.request.method:
            case "DELETE":
                return await self._end(exchange, account)
            case "POST":
                token = AuthToken.of(await self._manager.issue(account, renew=True))
                give_token(exchange, token, self.uri, renewed=True)
            case _:
                token = find_token(exchange) or AuthToken.of(await self._manager.issue(account))
        shown = {} if is_by_cookie(exchange) else {"auth_token": token.text}
        shown["auth_token_valid_until"] = render_instant(find_end(exchange, token))
        return Body(200, orjson.dumps(shown), "application/json", [("Cache-Control", "no-store")])

    async def _end(self, exchange: Exchange, account: Account) -> Answer:
        await end_session(self._store, self._manager, self._revocations, account)
        withdraw_token(exchange)
        return Body(204, headers=[("Cache-Control", "no-store")])
