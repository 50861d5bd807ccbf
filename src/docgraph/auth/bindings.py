"""Names of `@user` that are bound, by login method (decision 19).

The provider `account-bindings`, for `docgraph access explain`: the account of a realm after a login
by password, and after a login by each kind of token that is enabled.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Final

from docgraph.auth.cookies.sections import AuthCookieSetter
from docgraph.auth.jwt.verified_claims import Verified
from docgraph.auth.mechanisms.sections import IdentityAuthMechanism, JwtAuthenticationMechanism
from docgraph.auth.tokens.account_claims import PropertyNames, build_claims, restore
from docgraph.auth.tokens.sections import JwtTokenManager, RndTokenManager
from docgraph.auth.tokens.token import TokenAccount
from docgraph.config.section import PluginConfig
from docgraph.exchange import Account
from docgraph.plugins.kinds import Provider

_CLAIMED: Final = "(every claim of the token)"


class AccountBindings(Provider):
    """Provides itself: `find` lists the login methods with the names that they bind."""

    name: ClassVar[str] = "accountBindings"
    description: ClassVar[str] = "which names of @user are bound, by how a caller logs in"
    provides: ClassVar[str] = "account-bindings"

    def __init__(
        self,
        config: PluginConfig,
        *,
        identity: IdentityAuthMechanism,
        jwt: JwtAuthenticationMechanism,
        signed: JwtTokenManager,
        random: RndTokenManager,
        cookies: AuthCookieSetter,
    ) -> None:
        self._identity = identity
        self._jwt = jwt
        self._signed = signed
        self._random = random
        self._cookies = cookies

    def get(self) -> AccountBindings:
        """Return this object."""
        return self

    def find(self, account: Account) -> list[tuple[str, list[str]]]:
        """Return each enabled login method, with the names that are bound."""
        return [(way, sorted(names)) for way, names in self._find(account)]

    def _find(self, account: Account) -> Iterator[tuple[str, set[str]]]:
        yield account.kind, set(account.properties)
        token = None
        if self._signed.enabled:
            token = "own JWT", set(_sign(account, self._signed).properties)
        elif self._random.enabled:
            token = "random token", set(account.properties)
        if token is not None:
            yield token
            if self._cookies.enabled:
                yield f"cookie ({token[0]})", token[1]
        if self._identity.enabled:
            yield f"identity ({self._identity.username})", {"userid", "roles"}
        if self._jwt.enabled:
            yield "foreign JWT", {self._jwt.username_claim, _CLAIMED}


def _sign(account: Account, manager: JwtTokenManager) -> Account:
    """Return the account as a token of this service restores it."""
    login = TokenAccount(account.name, account.roles, account.properties, account.kind)
    claims = build_claims(login, PropertyNames(manager.account_properties_claims))
    return restore(Verified(Account(account.name, account.roles, claims, "jwt")), "").account
