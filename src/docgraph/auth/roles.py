"""`GET /roles/<userid>`: the caller's own roles. The code checks the user id; no rule is needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import orjson

from docgraph.auth.sections import Roles
from docgraph.exchange import Account, Answer, Body, Exchange
from docgraph.exchange.errors import Forbidden, Unauthenticated
from docgraph.plugins.binding import bound_path
from docgraph.plugins.kinds import Service


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
        """Return the roles, in the order of the account."""
        check_own_path(exchange, self._prefix)
        answer = {"authenticated": True, "roles": list(exchange.roles)}
        return Body(200, orjson.dumps(answer), "application/json")
