"""`fullAuthorizer`: approves everything. For testing, and for servers behind their own gate."""

from __future__ import annotations

from typing import ClassVar

from docgraph.access.sections import FullAuthorizer as FullAuthorizerConfig
from docgraph.exchange import Exchange
from docgraph.plugins.kinds import Authorizer, Decision

__all__ = ["FullAuthorizer"]

_APPROVED = Decision(True, "fullAuthorizer approves every request", "fullAuthorizer")


class FullAuthorizer(Authorizer):
    """Approves every request of a known caller; of anybody without `authentication-required`."""

    name: ClassVar[str] = "fullAuthorizer"
    description: ClassVar[str] = "approves every request"
    enabled_by_default: ClassVar[bool] = False
    priority: ClassVar[int] = 100  # asked last: rules bring conditions, this one none
    Config = FullAuthorizerConfig

    def __init__(self, config: FullAuthorizerConfig) -> None:
        self._authentication_required = config.authentication_required

    async def decide(self, exchange: Exchange) -> Decision:
        """Always approved."""
        return _APPROVED

    def requires_authentication(self, exchange: Exchange) -> bool:
        """As configured; true by default."""
        return self._authentication_required
