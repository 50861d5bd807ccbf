"""`tokenBasicAuthMechanism`: Basic authentication with a token in place of the password.

It shares its scheme with `basicAuthMechanism` and runs first. A text that is no token may still be
a password. A mismatch is therefore a rejection only where no other mechanism reads the scheme: a
login by password must not count as a failure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from docgraph.auth.credentials import (
    BasicCredentials,
    MalformedCredentials,
    read_credentials,
    render_basic_challenge,
)
from docgraph.auth.mechanisms.sections import BasicAuthMechanism, TokenBasicAuthMechanism
from docgraph.exchange import Exchange
from docgraph.plugins.kinds import (
    ABSENT,
    Accepted,
    AuthMechanism,
    Kind,
    Outcome,
    Rejected,
    TokenManager,
)
from docgraph.plugins.registry import PluginRegistry

BASIC = "basicAuthMechanism"


class TokenBasicMechanism(AuthMechanism):
    """Verifies with the token manager; without one it does nothing."""

    name: ClassVar[str] = "tokenBasicAuthMechanism"
    description: ClassVar[str] = "Authorization: Basic with user id and token"
    enabled_by_default: ClassVar[bool] = True
    priority: ClassVar[int] = 10
    Config = TokenBasicAuthMechanism

    def __init__(
        self,
        config: TokenBasicAuthMechanism,
        registry: PluginRegistry,
        basic: BasicAuthMechanism,
    ) -> None:
        self.config = config
        self._registry = registry
        self._challenge = (render_basic_challenge(basic.realm),)
        self._manager: TokenManager | None = None
        self._refusal: Outcome = ABSENT

    async def provision(self) -> None:
        """Find the token manager, and whether passwords use the same scheme."""
        managers = self._registry.of_kind(Kind.TOKEN_MANAGER)
        self._manager = managers[0] if managers else None
        if self._registry.find(BASIC) is None:
            self._refusal = Rejected("wrong-token")

    async def authenticate(self, exchange: Exchange) -> Outcome:
        """Accept the request when the token manager accepts user and token together."""
        credentials = read_credentials(exchange.request.headers)
        if self._manager is None or credentials is None or credentials.scheme != "basic":
            return ABSENT
        try:
            given = BasicCredentials.parse(credentials.text)
        except MalformedCredentials:
            return ABSENT if self._refusal is ABSENT else Rejected("malformed")
        account = await self._manager.verify(given.user, given.password)
        return Accepted(account) if account is not None else self._refusal

    def challenge(self, exchange: Exchange) -> Sequence[str]:
        """Return the challenge of `basicAuthMechanism`, so that both together send it once."""
        return self._challenge
