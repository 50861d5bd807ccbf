"""`basicAuthMechanism`: HTTP Basic authentication with user id and password (RFC 7617)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from docgraph.auth.credentials import (
    BasicCredentials,
    MalformedCredentials,
    read_credentials,
    render_basic_challenge,
)
from docgraph.auth.mechanisms.realm import require_authenticator
from docgraph.auth.mechanisms.sections import BasicAuthMechanism
from docgraph.exchange import Exchange
from docgraph.plugins.kinds import (
    ABSENT,
    Accepted,
    Authenticator,
    AuthMechanism,
    Outcome,
    Rejected,
)
from docgraph.plugins.registry import PluginRegistry


class BasicMechanism(AuthMechanism):
    """Verifies with the configured authenticator; malformed credentials never reach it."""

    name: ClassVar[str] = "basicAuthMechanism"
    description: ClassVar[str] = "Authorization: Basic with user id and password"
    enabled_by_default: ClassVar[bool] = True
    priority: ClassVar[int] = 20
    Config = BasicAuthMechanism

    def __init__(self, config: BasicAuthMechanism, registry: PluginRegistry) -> None:
        self.config = config
        self._registry = registry
        self._challenge = (render_basic_challenge(config.realm),)
        self._authenticator: Authenticator

    async def provision(self) -> None:
        """Find the authenticator."""
        self._authenticator = require_authenticator(
            self._registry, self.name, self.config.authenticator
        )

    async def authenticate(self, exchange: Exchange) -> Outcome:
        """Verify the password; errors propagate: a database failure is not a wrong password."""
        credentials = read_credentials(exchange.request.headers)
        if credentials is None or credentials.scheme != "basic":
            return ABSENT
        try:
            given = BasicCredentials.parse(credentials.text)
        except MalformedCredentials:
            return Rejected("malformed")
        account = await self._authenticator.verify(given.user, given.password)
        return Accepted(account) if account is not None else Rejected("wrong-password")

    def challenge(self, exchange: Exchange) -> Sequence[str]:
        """Return the same challenge for every request."""
        return self._challenge
