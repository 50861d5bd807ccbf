"""`identityAuthMechanism`: authenticate every request as the configured account. For tests."""

from __future__ import annotations

from typing import ClassVar

from docgraph.auth.mechanisms.sections import IdentityAuthMechanism
from docgraph.exchange import Account, Exchange
from docgraph.plugins.kinds import Accepted, AuthMechanism, Outcome


class IdentityMechanism(AuthMechanism):
    """Runs last, so that real credentials win where other mechanisms are enabled, too."""

    name: ClassVar[str] = "identityAuthMechanism"
    description: ClassVar[str] = "authenticates every request as one configured account"
    enabled_by_default: ClassVar[bool] = False
    priority: ClassVar[int] = 1000
    Config = IdentityAuthMechanism

    def __init__(self, config: IdentityAuthMechanism) -> None:
        roles = tuple(config.roles)
        self._outcome = Accepted(
            Account(
                name=config.username,
                roles=roles,
                properties={"userid": config.username, "roles": list(roles)},
                kind="identity",
            )
        )

    async def authenticate(self, exchange: Exchange) -> Outcome:
        """Accept the request."""
        return self._outcome
