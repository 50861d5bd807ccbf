"""`jwtAuthenticationMechanism`: `Authorization: Bearer` with a JSON Web Token (decision 31).

    size → form → algorithm and type → key → signature → claims → revocation

A verified token is cached by its digest, so that using it again costs a lookup; expiration and
revocation are checked at each use.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import ClassVar

from docgraph.auth.credentials import (
    BearerToken,
    MalformedCredentials,
    read_credentials,
    render_bearer_challenge,
)
from docgraph.auth.mechanisms.sections import JwtAuthenticationMechanism
from docgraph.auth.tokens import jwks as key_sets
from docgraph.auth.tokens.account_claims import is_own, restore
from docgraph.auth.tokens.jwks import (
    Algorithm,
    FixedKey,
    KeyRefused,
    KeySet,
    VerificationKey,
    VerificationKeys,
    parse_keys,
    parse_pem,
)
from docgraph.auth.tokens.revocation import Revocations
from docgraph.auth.tokens.sections import JwtTokenManager
from docgraph.auth.tokens.token import TokenAccount
from docgraph.auth.tokens.verified_claims import (
    Claims,
    TokenRefused,
    Verified,
    decode_object,
    parse_jws,
    unwrap_base64,
)
from docgraph.exchange import Account, Exchange, StartupError
from docgraph.observe import emit
from docgraph.observe.events import BackgroundFailed, ConfigWarning
from docgraph.plugins.kinds import ABSENT, Accepted, AuthMechanism, Outcome, Rejected
from docgraph.runtime import Blocking, LoadingCache, run_blocking

REALM = "docgraph"
REFUSED = "jwtAuthenticationMechanism.refused"
REMEMBERED = 2048
FILE_AGE = 10.0  # seconds until a file is read again
ADDRESS_AGE = 300.0


class JwtMechanism(AuthMechanism):
    """Bearer authentication with a JWT; responses never contain the reason of a rejection."""

    name: ClassVar[str] = "jwtAuthenticationMechanism"
    description: ClassVar[str] = "Authorization: Bearer with a JSON Web Token"
    enabled_by_default: ClassVar[bool] = False
    priority: ClassVar[int] = 40
    authorization_scheme: ClassVar[str] = "bearer"
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
        # Tokens of our own manager restore their login's account. A foreign token that claims to be
        # one of ours stays what it is: claims (decision 19).
        self._restores = (
            manager is not None
            and bool(manager.enabled)
            and manager.key is not None
            and manager.key == config.key
        )
        self._lane = blocking.lane("jwks", concurrency=2)
        self._revocations = token_revocations
        self._directory = configuration_directory or Path()
        self._algorithm = Algorithm.named(config.algorithm, allow_weak_key=config.allow_weak_key)
        self._keys: FixedKey | KeySet | None = None
        self._verifier: TokenVerifier

    async def provision(self) -> None:
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
        if self._keys is not None:
            await self._keys.close()

    async def authenticate(self, exchange: Exchange) -> Outcome:
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
        """Return the challenge, with `error="invalid_token"` if a token was sent (RFC 6750 3.1)."""
        return (render_bearer_challenge(REALM, refused=exchange.attributes.get(REFUSED, False)),)

    async def _open_keys(self) -> FixedKey | KeySet:
        match self.config.key, self.config.jwks:
            case str(key), None if not self._algorithm.is_symmetric and not _is_pem(key):
                return await self._open_file(self._directory / key, parse_pem)
            case str(), None:
                return FixedKey(
                    await run_blocking(self._lane, load_key, self.config, self._directory)
                )
            case None, str(jwks):
                return await self._open_set(jwks)
        # The section rejects it first; a mechanism can be built without a section.
        raise _reject(
            "key", "set either 'key' or 'jwks'", "'jwks' replaces 'key': remove one of them"
        )

    async def _open_set(self, jwks: str) -> KeySet:
        if not key_sets.is_address(jwks):
            return await self._open_file(self._directory / jwks, parse_keys)
        if key_sets.is_plain_address(jwks):
            message = "keys fetched over http can be replaced on the way"
            emit(ConfigWarning("configuration", f"/{self.name}/jwks", message, "use https"))
        keys = KeySet(
            lambda: run_blocking(self._lane, key_sets.fetch, jwks),
            self._algorithm,
            max_age=ADDRESS_AGE,
        )
        try:
            await keys.load()
        except Exception as error:
            # An unavailable issuer must not prevent the start: the fetch is retried when a token
            # arrives, which is answered with 503 as long as there are no keys.
            emit(BackgroundFailed("jwks", error))
        return keys

    async def _open_file(
        self, path: Path, parse: Callable[[bytes, Algorithm], VerificationKeys]
    ) -> KeySet:
        """Load a file, which may be replaced later."""
        keys = KeySet(
            lambda: run_blocking(self._lane, key_sets.read, path),
            self._algorithm,
            max_age=FILE_AGE,
            parse=parse,
        )
        await run_blocking(self._lane, check_keys, self.config, self._directory)
        await keys.load()
        return keys


def check_keys(config: JwtAuthenticationMechanism, directory: Path) -> None:
    """Check the key, or the set of keys in a file; that at an address may come later."""
    if config.key is not None:
        load_key(config, directory)
        return
    if config.jwks is None or key_sets.is_address(config.jwks):
        return
    algorithm, path = Algorithm.named(config.algorithm), directory / config.jwks
    try:
        loaded = parse_keys(key_sets.read(path), algorithm)
    except (OSError, ValueError) as error:
        reason = _describe(error) if isinstance(error, OSError) else str(error)
        raise _reject("jwks", f"{path}: {reason}", "name a file with a key set") from None
    if not loaded.all:
        raise _reject("jwks", f"{path}: no key fits {algorithm.name}")


def load_key(config: JwtAuthenticationMechanism, directory: Path) -> VerificationKey:
    """Load the key of the section: a secret, PEM text, or the file that is named."""
    algorithm = Algorithm.named(config.algorithm, allow_weak_key=config.allow_weak_key)
    key = config.key or ""
    hint = "give a PEM public key or certificate, as text or as the path of a file"
    if algorithm.is_symmetric:
        hint = f"use a random text of at least {algorithm.hash_bytes} bytes"
    try:
        if algorithm.is_symmetric:
            return algorithm.load_secret(key.encode())
        pem = key.encode() if _is_pem(key) else key_sets.read(directory / key)
        return algorithm.load_pem(pem)
    except KeyRefused as error:
        raise _reject("key", str(error), hint) from None
    except (OSError, ValueError) as error:
        # The option may contain a secret: its text is not repeated.
        reason = f" ({_describe(error)})" if isinstance(error, OSError) else ""
        what = f"neither PEM text nor the path of a readable file{reason}"
        raise _reject("key", what, hint) from None


def _is_pem(key: str) -> bool:
    """Return whether the option is the text of a key, not the path of a file."""
    return "-----BEGIN" in key


def _describe(error: OSError) -> str:
    return (error.strerror or "cannot be read").lower()


def _reject(option: str, message: str, hint: str | None = None) -> StartupError:
    return StartupError(f"/{JwtMechanism.name}/{option}: {message}", hint=hint)


class TokenVerifier:
    """Verifies the text of a token and returns its account; raises `TokenRefused`.

    Cached tokens depend on the keys only; expiration and revocation are checked at every use.
    `restore` adds to the claims of a token, given its text. `shares_users`: the users that foreign
    tokens name are users of this service, so that a changed password revokes those tokens, too.
    """

    def __init__(  # noqa: PLR0913 - the requirements for a token
        self,
        algorithm: Algorithm,
        claims: Claims,
        keys: FixedKey | KeySet,
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
        self._keys.keep_fresh()
        version = self._keys.version
        if version != self._version:
            self._remembered.clear()
            self._version = version
        digest = sha256(token.encode()).digest()
        verified = self._remembered.peek(digest)
        if verified is None:
            verified = await self._check(token)
            if self._keys.version == version:  # otherwise the keys were rotated
                self._remembered.put(digest, verified)
        elif self._claims.is_over(verified.expires, self._clock()):
            self._remembered.invalidate(digest)
            raise TokenRefused("expired-token")
        account = verified.account
        if self._revocations is not None:
            # By the id of the token; by its user only if that is a user of this service.
            is_ours = self._shares_users or isinstance(account, TokenAccount) or is_own(account)
            user = account.name if is_ours else None
            if self._revocations.is_revoked(verified.id, user, verified.issued):
                raise TokenRefused("revoked-token")
        return account

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
