"""Token managers: random tokens of one instance, and signed tokens for all with the key."""

from __future__ import annotations

import base64
import hmac
import re
import time
from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar, Final

import jwt

from docgraph.auth.mechanisms.jwt import TokenVerifier
from docgraph.auth.tokens.account_claims import PropertyNames, build_claims, restore
from docgraph.auth.tokens.issued import ID_BYTES, Issued, IssuedTokens, LoginEnded, UserGone
from docgraph.auth.tokens.jwks import Algorithm, FixedKey, KeyRefused
from docgraph.auth.tokens.revocation import Revocations
from docgraph.auth.tokens.sections import JwtTokenManager, RndTokenManager
from docgraph.auth.tokens.token import AccountMemo, AuthToken, LastToken, Realms, TokenAccount
from docgraph.auth.tokens.verified_claims import Claims, TokenRefused
from docgraph.exchange import Account, StartupError
from docgraph.exchange.errors import Unauthenticated
from docgraph.plugins.kinds import TokenManager
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Blocking, Generations, Instance
from docgraph.runtime.clock import elapsed

_SEAL_BYTES: Final = 18  # with the 24 random bytes a multiple of three: one spelling in base64
_FORM: Final = re.compile(rf"[A-Za-z0-9_-]{{{(ID_BYTES + _SEAL_BYTES) // 3 * 4}}}")


class Seal:
    """Builds the text of a token from its random part, and extracts the random part from a text."""

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def close(self, id: bytes, user: str) -> str:
        """Return the text of the token."""
        return base64.urlsafe_b64encode(id + self._sign(id, user)).decode()

    def open(self, text: str, user: str) -> bytes | None:
        """Return the random part; None for a text of another issuer or user."""
        if not _FORM.fullmatch(text):
            return None
        data = base64.urlsafe_b64decode(text)
        id, seal = data[:ID_BYTES], data[ID_BYTES:]
        return id if hmac.compare_digest(seal, self._sign(id, user)) else None

    def _sign(self, id: bytes, user: str) -> bytes:
        name = user.encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret, id + name, "sha256")[:_SEAL_BYTES]


class _IssuingManager(TokenManager):
    """Issues one live token per login; the workers of the instance share it."""

    _issued: IssuedTokens

    async def provision(self) -> None:
        await self._issued.open()

    async def close(self) -> None:
        await self._issued.close()

    async def issue(self, account: Account, *, renew: bool = False) -> AuthToken:
        """Return the login's token; `renew` creates a new one."""
        try:
            issued = await (self._issued.renew(account) if renew else self._issued.current(account))
        except UserGone:
            raise Unauthenticated("the user does not exist any more") from None
        except LoginEnded:
            raise Unauthenticated("the login has ended") from None
        return self._render(issued)

    @abstractmethod
    def _render(self, issued: Issued) -> AuthToken:
        """Return the token as clients receive it."""


class RandomTokens(_IssuingManager):
    """`rndTokenManager`: random tokens, valid on the instance that issued them (decision 33).

    A token is 192 random bits and a seal over them and the user, made with the secret of the
    instance. Texts without the seal are rejected without reading the table: guesses and passwords
    cost no more than a hash. The table stores the random part only.
    """

    name: ClassVar[str] = "rndTokenManager"
    description: ClassVar[str] = "random tokens, known to this instance"
    renewable: ClassVar[bool] = False  # `renew-auth-token` is for JWTs; POST creates a new one
    Config = RndTokenManager

    def __init__(
        self,
        config: RndTokenManager,
        *,
        instance: Instance,
        blocking: Blocking,
        generations: Generations,
        registry: PluginRegistry,
        token_revocations: Revocations,
    ) -> None:
        self.config = config
        self._seal = Seal(instance.secret("rnd-tokens"))
        self._issued = IssuedTokens(
            instance.directory / "tokens.sqlite",
            config.ttl * 60,
            blocking=blocking,
            generations=generations,
            revocations=token_revocations,
            read_again=Realms(registry).read_again,
            clock=elapsed,
            wall=time.time,
        )

    async def verify(self, user: str, token: str) -> Account | None:
        """Return the account of the login that the token was issued for."""
        id = self._seal.open(token, user)
        issued = None if id is None else await self._issued.find(id)
        return issued.account if issued is not None and issued.account.name == user else None

    async def revoke(self, account: Account) -> None:
        """Revoke the login's token for all its users."""
        await self._issued.end(account)

    def _render(self, issued: Issued) -> AuthToken:
        text = self._seal.close(issued.id, issued.account.name)
        return AuthToken(text, self._issued.find_end(issued))


ALGORITHM: Final = "HS256"
_CLOCKS_DIFFER: Final = 5.0  # seconds that a token of another instance may be in the future


class JwtTokens(_IssuingManager):
    """`jwtTokenManager`: signed tokens, valid on every instance that shares the key (decision 31).

    Signing is expensive, so all workers of an instance issue the same token until it is renewed or
    about to expire: they share its `jti` and times and sign alike. Verification needs no lookup. A
    session that has reached `max-session-age` ends with its token, and gets no other one.
    """

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
        if config.key is None:
            raise StartupError(
                "/jwtTokenManager/key: there is none", hint="set a random text of at least 32 bytes"
            )
        self._key = config.key
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

    async def issue(self, account: Account, *, renew: bool = False) -> AuthToken:
        """Return the login's token; `renew` creates a new one. The old one stays valid."""
        if isinstance(account, TokenAccount) and self._issued.is_too_old(account):
            return LastToken(account.token_text, account.token_expires_at)
        return await super().issue(account, renew=renew)

    async def verify(self, user: str, token: str) -> Account | None:
        """Return the account that the token was issued for, if that is `user`."""
        try:
            account = await self._verifier.verify(token)
        except TokenRefused:
            return None
        return account if account.name == user else None

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


def _build_verifier(config: JwtTokenManager, key: str, revocations: Revocations) -> TokenVerifier:
    algorithm = Algorithm.named(ALGORITHM)
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
        end_leeway=0,
    )
    try:
        source = FixedKey(algorithm.load_secret(key.encode()))
    except KeyRefused as error:
        raise StartupError(f"/jwtTokenManager/key: {error}") from None
    return TokenVerifier(
        algorithm, claims, source, revocations=revocations, restore=restore, shares_users=True
    )
