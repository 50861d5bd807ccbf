"""`fullAuthorizer`: approve every request. For tests, and for servers behind another gateway."""

from __future__ import annotations

from typing import ClassVar

from docgraph.access.sections import FullAuthorizer as FullAuthorizerConfig
from docgraph.exchange import Exchange
from docgraph.plugins.kinds import Authorizer, Decision

_APPROVED = Decision(True, "fullAuthorizer approves every request", "fullAuthorizer")


class FullAuthorizer(Authorizer):
    """Approves authenticated users; without `authentication-required` every caller."""

    name: ClassVar[str] = "fullAuthorizer"
    description: ClassVar[str] = "approves every request"
    enabled_by_default: ClassVar[bool] = False
    priority: ClassVar[int] = 100  # last: rules have conditions, this one has none
    Config = FullAuthorizerConfig

    def __init__(self, config: FullAuthorizerConfig) -> None:
        self._authentication_required = config.authentication_required

    async def decide(self, exchange: Exchange) -> Decision:
        """Approve the request."""
        return _APPROVED

    def requires_authentication(self, exchange: Exchange) -> bool:
        """Return the configured value; true by default."""
        return self._authentication_required
