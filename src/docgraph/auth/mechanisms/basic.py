"""Mechanisms with one line of credentials: Basic, Basic with a token, and a fixed identity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from docgraph.auth.credentials import (
    BasicCredentials,
    MalformedCredentials,
    read_credentials,
    render_basic_challenge,
)
from docgraph.auth.mechanisms.sections import (
    BasicAuthMechanism,
    DigestAuthMechanism,
    IdentityAuthMechanism,
    TokenBasicAuthMechanism,
)
from docgraph.exchange import Account, Exchange, StartupError
from docgraph.plugins.kinds import (
    ABSENT,
    Accepted,
    Authenticator,
    AuthMechanism,
    Kind,
    Outcome,
    Rejected,
    TokenManager,
)
from docgraph.plugins.registry import PluginRegistry


class BasicMechanism(AuthMechanism):
    """Basic authentication with user and password, checked by the configured authenticator."""

    name: ClassVar[str] = "basicAuthMechanism"
    description: ClassVar[str] = "Authorization: Basic with user id and password"
    enabled_by_default: ClassVar[bool] = True
    priority: ClassVar[int] = 20
    authorization_scheme: ClassVar[str] = "basic"
    Config = BasicAuthMechanism

    def __init__(self, config: BasicAuthMechanism, registry: PluginRegistry) -> None:
        self.config = config
        self._registry = registry
        self._challenge = (render_basic_challenge(config.realm),)
        self._authenticator: Authenticator

    async def provision(self) -> None:
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
        return self._challenge


class IdentityMechanism(AuthMechanism):
    """Authenticates every request as one account; runs last, so that real credentials win."""

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
        return self._outcome


BASIC = "basicAuthMechanism"


class TokenBasicMechanism(AuthMechanism):
    """Basic authentication with user and token, checked by the token manager, if there is one.

    It shares its scheme with `basicAuthMechanism` and runs first. A text that is no token may still
    be a password. A mismatch is therefore a rejection only where no other mechanism reads the
    scheme: a login by password must not count as a failure.
    """

    name: ClassVar[str] = "tokenBasicAuthMechanism"
    description: ClassVar[str] = "Authorization: Basic with user id and token"
    enabled_by_default: ClassVar[bool] = True
    priority: ClassVar[int] = 10
    authorization_scheme: ClassVar[str] = "basic"
    Config = TokenBasicAuthMechanism

    def __init__(
        self,
        config: TokenBasicAuthMechanism,
        registry: PluginRegistry,
        basic: BasicAuthMechanism,
        digest: DigestAuthMechanism,
    ) -> None:
        self.config = config
        self._registry = registry
        # A Basic challenge asks people for a password: not where only Digest accepts passwords.
        is_misleading = digest.enabled and not basic.enabled
        self._challenge = () if is_misleading else (render_basic_challenge(basic.realm),)
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
        """Return the challenge of `basicAuthMechanism`, so that both together send it once.

        None if passwords are accepted by Digest only.
        """
        return self._challenge


def require_authenticator(registry: PluginRegistry, section: str, name: str) -> Authenticator:
    """Return the enabled authenticator of that name; raises a configuration error otherwise."""
    found = registry.find(name)
    if found is not None and found.kind is Kind.AUTHENTICATOR:
        authenticator: Authenticator = found
        return authenticator
    names = [one.name for one in registry.of_kind(Kind.AUTHENTICATOR)]
    listed = ", ".join(names) or "none; enable dbRealmAuthenticator or fileRealmAuthenticator"
    raise StartupError(
        f"/{section}/authenticator: there is no authenticator {name!r} that is on",
        hint=f"authenticators that are on: {listed}",
    )
