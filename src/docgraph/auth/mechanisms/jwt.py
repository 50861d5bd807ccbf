"""`jwtAuthenticationMechanism`: `Authorization: Bearer` with a JSON Web Token (decision 31).

    size → form → algorithm and type → key → signature → claims → revocation

A verified token is remembered by its digest, so that a client which uses it again costs a lookup;
time and revocation are asked at each use all the same.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import ClassVar, Protocol

from docgraph.auth.headers import (
    BearerToken,
    MalformedCredentials,
    read_credentials,
    render_bearer_challenge,
)
from docgraph.auth.jwt import sources
from docgraph.auth.jwt.algorithms import Algorithm, Key, KeyRefused
from docgraph.auth.jwt.claims import Claims, Verified
from docgraph.auth.jwt.jwks import FixedKey, KeySet, KeySource
from docgraph.auth.jwt.jws import decode_object, parse_jws, unwrap_base64
from docgraph.auth.mechanisms.refusal import TokenRefused
from docgraph.auth.mechanisms.sections import JwtAuthenticationMechanism
from docgraph.auth.tokens.claims import is_own, restore
from docgraph.auth.tokens.sections import JwtTokenManager
from docgraph.auth.tokens.token import TokenAccount
from docgraph.exchange import Account, Exchange, StartupError
from docgraph.observe import emit
from docgraph.observe.events import BackgroundFailed, ConfigWarning
from docgraph.plugins.kinds import ABSENT, Accepted, AuthMechanism, Outcome, Rejected
from docgraph.runtime import Blocking, LoadingCache, run_blocking

__all__ = ["JwtMechanism", "Revocations", "TokenVerifier"]

REALM = "docgraph"
REFUSED = "jwtAuthenticationMechanism.refused"
REMEMBERED = 2048
FILE_AGE = 10.0  # seconds until a file is read again
ADDRESS_AGE = 300.0


class Revocations(Protocol):
    """The provider `token-revocations`: what has been ended before its time, in memory."""

    def is_revoked(self, jti: str | None, user: str | None, issued_at: float | None) -> bool:
        """Whether that token no longer counts."""
        ...


class JwtMechanism(AuthMechanism):
    """Reads the token, has it verified, and says nothing of the reasons to the caller."""

    name: ClassVar[str] = "jwtAuthenticationMechanism"
    description: ClassVar[str] = "Authorization: Bearer with a JSON Web Token"
    enabled_by_default: ClassVar[bool] = False
    priority: ClassVar[int] = 40
    Config = JwtAuthenticationMechanism

    def __init__(
        self,
        config: JwtAuthenticationMechanism,
        blocking: Blocking,
        token_revocations: Revocations | None = None,
        configuration_directory: Path | None = None,
        manager: JwtTokenManager | None = None,
    ) -> None:
        self.config = config
        self._restores = _shares_key(config, manager)
        self._lane = blocking.lane("jwks", concurrency=2)
        self._revocations = token_revocations
        self._directory = configuration_directory or Path()
        self._algorithm = Algorithm.named(config.algorithm, allow_weak_key=config.allow_weak_key)
        self._keys: KeySource | None = None
        self._verifier: TokenVerifier

    async def provision(self) -> None:
        """Load the key or the set of keys."""
        self._keys = await self._open_keys()
        self._verifier = TokenVerifier(
            self._algorithm,
            Claims.from_section(self.config),
            self._keys,
            revocations=self._revocations,
            restore=restore if self._restores else None,
            shares_users=self.config.shares_users,
        )

    async def close(self) -> None:
        """Give up what runs in the background."""
        if self._keys is not None:
            await self._keys.close()

    async def authenticate(self, exchange: Exchange) -> Outcome:
        """Who the token says it is."""
        credentials = read_credentials(exchange.request.headers)
        if credentials is None or credentials.scheme != "bearer":
            return ABSENT
        try:
            token = BearerToken.parse(credentials.text).token
            if self.config.base64_encoded:
                token = unwrap_base64(token)
            return Accepted(await self._verifier.verify(token))
        except MalformedCredentials:
            reason = "malformed"
        except TokenRefused as refusal:
            reason = refusal.reason
        exchange.attributes[REFUSED] = True
        return Rejected(reason)

    def challenge(self, exchange: Exchange) -> Sequence[str]:
        """With `error="invalid_token"` for those who sent one (RFC 6750 3.1)."""
        return (render_bearer_challenge(REALM, refused=exchange.attributes.get(REFUSED, False)),)

    async def _open_keys(self) -> KeySource:
        match self.config.key, self.config.jwks:
            case str(key), None:
                return await self._open_key(key)
            case None, str(jwks):
                return await self._open_set(jwks)
        raise self._refuse("key", "set either 'key' or 'jwks'", "'jwks' stands in its place")

    async def _open_key(self, key: str) -> FixedKey:
        try:
            return FixedKey(await self._load_key(key))
        except KeyRefused as error:
            raise self._refuse("key", str(error), self._describe_key()) from None

    async def _load_key(self, key: str) -> Key:
        if self._algorithm.is_symmetric:
            return self._algorithm.load_secret(key.encode())
        if "-----BEGIN" in key:
            return self._algorithm.load_pem(key.encode())
        path = self._directory / key
        try:
            pem = await run_blocking(self._lane, sources.read, path)
        except (OSError, ValueError) as error:
            # The option holds a secret as far as anybody knows: its text is not repeated.
            raise KeyRefused(
                f"neither PEM text nor the path of a readable file ({type(error).__name__})"
            ) from None
        return self._algorithm.load_pem(pem)

    async def _open_set(self, jwks: str) -> KeySet:
        if not sources.is_address(jwks):
            return await self._open_file(self._directory / jwks)
        if sources.is_plain_address(jwks):
            message = "keys fetched over http can be replaced on the way"
            emit(ConfigWarning("configuration", f"/{self.name}/jwks", message, "use https"))
        keys = KeySet(
            lambda: run_blocking(self._lane, sources.fetch, jwks),
            self._algorithm,
            max_age=ADDRESS_AGE,
        )
        try:
            await keys.load()
        except Exception as error:
            # An issuer that is away keeps nobody else from being served: it is tried again when
            # a token comes, which is answered with 503 as long as there are no keys.
            emit(BackgroundFailed("jwks", error))
        return keys

    async def _open_file(self, path: Path) -> KeySet:
        keys = KeySet(
            lambda: run_blocking(self._lane, sources.read, path), self._algorithm, max_age=FILE_AGE
        )
        try:
            loaded = await keys.load()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            raise self._refuse("jwks", f"{path}: {reason}", "name a file with a key set") from None
        if not loaded.all:
            raise self._refuse("jwks", f"{path}: no key fits {self._algorithm.name}")
        return keys

    def _describe_key(self) -> str:
        if self._algorithm.is_symmetric:
            return f"use a random text of at least {self._algorithm.hash_bytes} bytes"
        return "give a PEM public key or certificate, as text or as the path of a file"

    def _refuse(self, option: str, message: str, hint: str | None = None) -> StartupError:
        return StartupError(f"/{self.name}/{option}: {message}", hint=hint)


def _shares_key(config: JwtAuthenticationMechanism, manager: JwtTokenManager | None) -> bool:
    """Whether tokens of our own manager come this way: they keep the account of their login.

    A token of anybody else who claims to be one of ours stays what it says: claims (decision 19).
    """
    return (
        manager is not None
        and bool(manager.enabled)
        and manager.key is not None
        and manager.key == config.key
    )


class TokenVerifier:
    """From the text of a token to an account; raises `TokenRefused`.

    Remembered tokens depend on the keys only; whether one has ended is asked at every use.
    `restore` makes more of what a token says, given its text. `shares_users`: the users that tokens
    of others name are users of this service, so that a changed password ends those tokens, too.
    """

    def __init__(  # noqa: PLR0913 - what is asked of a token
        self,
        algorithm: Algorithm,
        claims: Claims,
        keys: KeySource,
        *,
        revocations: Revocations | None = None,
        restore: Callable[[Verified, str], Verified] | None = None,
        shares_users: bool = False,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._algorithm = algorithm
        self._claims = claims
        self._keys = keys
        self._revocations = revocations
        self._restore = restore
        self._shares_users = shares_users
        self._clock = clock
        self._version = keys.version
        self._remembered: LoadingCache[bytes, Verified] = LoadingCache(REMEMBERED)

    async def verify(self, token: str) -> Account:
        """The account of the token."""
        self._keys.keep_fresh()
        version = self._keys.version
        if version != self._version:
            self._remembered.clear()
            self._version = version
        digest = sha256(token.encode()).digest()
        verified = self._remembered.peek(digest)
        if verified is None:
            verified = await self._check(token)
            if self._keys.version == version:  # else it was verified with keys that were rotated
                self._remembered.put(digest, verified)
        elif self._claims.is_over(verified.expires, self._clock()):
            self._remembered.invalidate(digest)
            raise TokenRefused("expired-token")
        if self._is_revoked(verified):
            raise TokenRefused("revoked-token")
        return verified.account

    async def _check(self, token: str) -> Verified:
        jws = parse_jws(token, self._algorithm.name)
        candidates = await self._keys.find(jws.kid)
        if not candidates:
            raise TokenRefused("unknown-key")
        if not any(
            self._algorithm.verify(jws.signing_input, key, jws.signature) for key in candidates
        ):
            raise TokenRefused("bad-signature")
        verified = self._claims.read(decode_object(jws.payload), self._clock())
        return verified if self._restore is None else self._restore(verified, token)

    def _is_revoked(self, verified: Verified) -> bool:
        """By the id of the token; by its user only where that is a user of this service."""
        if self._revocations is None:
            return False
        account = verified.account
        is_ours = self._shares_users or isinstance(account, TokenAccount) or is_own(account)
        user = account.name if is_ours else None
        return self._revocations.is_revoked(verified.id, user, verified.issued)
