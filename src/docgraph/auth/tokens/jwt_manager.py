"""`jwtTokenManager`: signed tokens, valid on every instance that shares the key (decision 31).

Signing is expensive, so all workers of an instance issue the same token until it is renewed or
about to expire: they share its `jti` and times and sign alike. Verification needs no lookup. A
session that has reached `max-session-age` ends with its token, and gets no other one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, ClassVar, Final

import jwt

from docgraph.auth.jwt.algorithms import Algorithm, KeyRefused
from docgraph.auth.jwt.jwks import FixedKey
from docgraph.auth.jwt.verified_claims import Claims, TokenRefused
from docgraph.auth.mechanisms.jwt import TokenVerifier
from docgraph.auth.tokens.account_claims import PropertyNames, build_claims, restore
from docgraph.auth.tokens.issued import Issued, IssuedTokens, UserGone
from docgraph.auth.tokens.revocation import Revocations
from docgraph.auth.tokens.sections import JwtTokenManager
from docgraph.auth.tokens.token import AccountMemo, AuthToken, LastToken, TokenAccount
from docgraph.auth.tokens.token_headers import Realms
from docgraph.exchange import Account, StartupError
from docgraph.exchange.errors import Unauthenticated
from docgraph.plugins.kinds import TokenManager
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Blocking, Generations, Instance

ALGORITHM: Final = "HS256"
_CLOCKS_DIFFER: Final = 5.0  # seconds that a token of another instance may be in the future


class JwtTokens(TokenManager):
    """Issues one token per login and instance; accepts any token signed with the key."""

    name: ClassVar[str] = "jwtTokenManager"
    description: ClassVar[str] = "signed tokens, known to every instance with the key"
    enabled_by_default: ClassVar[bool] = False
    renewable: ClassVar[bool] = True
    Config = JwtTokenManager

    def __init__(
        self,
        config: JwtTokenManager,
        *,
        instance: Instance,
        blocking: Blocking,
        generations: Generations,
        registry: PluginRegistry,
        token_revocations: Revocations,
    ) -> None:
        self.config = config
        self._clock: Callable[[], float] = time.time
        self._revocations = token_revocations
        self._key = _require_key(config)
        self._issued = IssuedTokens(
            instance.directory / "tokens.sqlite",
            config.ttl * 60,
            blocking=blocking,
            generations=generations,
            revocations=token_revocations,
            read_again=Realms(registry).read_again,
            clock=time.time,  # verifiers use the time of day, too
            max_session_age=config.max_session_age * 60,
        )
        self._verifier = _build_verifier(config, self._key, token_revocations)
        self._names = PropertyNames(config.account_properties_claims)
        self._signed: AccountMemo[str] = AccountMemo(self._sign)

    async def provision(self) -> None:
        """Open the state that workers share."""
        await self._issued.open()

    async def close(self) -> None:
        """Close the shared state."""
        await self._issued.close()

    async def issue(self, account: Account, *, renew: bool = False) -> AuthToken:
        """Return the login's token; `renew` creates a new one. The old one stays valid."""
        if isinstance(account, TokenAccount) and self._issued.is_too_old(account):
            return LastToken(account.token_text, account.token_expires_at)
        try:
            issued = await (self._issued.renew(account) if renew else self._issued.current(account))
        except UserGone:
            raise Unauthenticated("the user does not exist any more") from None
        return self._render(issued)

    async def verify(self, user: str, token: str) -> Account | None:
        """Return the account that the token was issued for, if that is `user`."""
        try:
            account = await self._verifier.verify(token)
        except TokenRefused:
            return None
        if isinstance(account, TokenAccount):
            ends = account.token_expires_at
        else:
            ends = account.properties["exp"]
        return account if account.name == user and ends > self._clock() else None

    async def revoke(self, account: Account) -> None:
        """Revoke the issued token, and the one that the caller sent."""
        life = self._clock() + self.config.ttl * 60
        ended = {id.hex(): life for id in await self._issued.end(account)}
        if isinstance(account, TokenAccount):
            ended[account.token_id] = account.token_expires_at
        for jti, expires_at in ended.items():
            await self._revocations.revoke(jti, expires_at)

    def _render(self, issued: Issued) -> AuthToken:
        return AuthToken(self._signed.get(issued.account), issued.expires_at)

    def _sign(self, account: Account) -> str:
        assert isinstance(account, TokenAccount)  # noqa: S101 - made by `IssuedTokens`
        audience = self.config.audience
        claims: dict[str, Any] = {
            **build_claims(account, self._names, with_session=self.config.max_session_age > 0),
            "iss": self.config.issuer,
            "exp": int(account.token_expires_at),
            "iat": account.token_issued_at,  # with fractions, for revocation marks
            "jti": account.token_id,
        }
        if audience is not None:
            claims["aud"] = audience if isinstance(audience, str) else list(audience)
        return jwt.encode(claims, self._key, algorithm=ALGORITHM)


def _require_key(config: JwtTokenManager) -> str:
    if config.key is None:
        raise StartupError(
            "/jwtTokenManager/key: there is none", hint="set a random text of at least 32 bytes"
        )
    return config.key


def _build_verifier(config: JwtTokenManager, key: str, revocations: Revocations) -> TokenVerifier:
    algorithm = Algorithm.named(ALGORITHM, allow_weak_key=False)
    audience = config.audience
    audiences = (audience,) if isinstance(audience, str) else audience
    claims = Claims(
        username_claim="sub",
        roles_claim="roles",
        fixed_roles=(),
        issuer=config.issuer,
        audiences=None if audiences is None else frozenset(audiences),
        require_exp=True,
        leeway=_CLOCKS_DIFFER,
    )
    try:
        source = FixedKey(algorithm.load_secret(key.encode()))
    except KeyRefused as error:
        raise StartupError(f"/jwtTokenManager/key: {error}") from None
    return TokenVerifier(
        algorithm,
        claims,
        source,
        revocations=revocations,
        restore=restore,
        shares_users=True,
    )
