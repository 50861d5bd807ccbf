"""`digestAuthMechanism`: HTTP Digest authentication (RFC 7616, decision 36).

Supports only `qop=auth` without session variants. The order of the checks matters: `stale=true`
makes a client retry without asking its user, and is sent only after a valid digest.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from typing import ClassVar
from urllib.parse import urlsplit

from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.auth.credentials import (
    AuthenticationInfo,
    DigestChallenge,
    DigestCredentials,
    MalformedCredentials,
    read_credentials,
)
from docgraph.auth.mechanisms.basic import require_authenticator
from docgraph.auth.mechanisms.digest_nonces import (
    Nonce,
    Nonces,
    SharedCounts,
    StoredCounts,
    create_shared_counts,
)
from docgraph.auth.mechanisms.sections import DigestAuthMechanism
from docgraph.auth.passwords import DIGEST_HASHES
from docgraph.exchange import Exchange, Request, StartupError
from docgraph.plugins.kinds import (
    ABSENT,
    Accepted,
    AuthMechanism,
    DigestAuthenticator,
    Outcome,
    Rejected,
)
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Blocking, Instance, Tasks, run_blocking
from docgraph.store import Store

STALE = "digestAuthMechanism.stale"


class DigestMechanism(AuthMechanism):
    """Digest authentication, with a challenge for each configured algorithm."""

    name: ClassVar[str] = "digestAuthMechanism"
    description: ClassVar[str] = "Authorization: Digest"
    enabled_by_default: ClassVar[bool] = False
    priority: ClassVar[int] = 30
    authorization_scheme: ClassVar[str] = "digest"
    Config = DigestAuthMechanism

    def __init__(  # noqa: PLR0913 - the providers
        self,
        config: DigestAuthMechanism,
        *,
        registry: PluginRegistry,
        instance: Instance,
        store: Store,
        blocking: Blocking,
        tasks: Tasks,
        users: DbRealmAuthenticator,
    ) -> None:
        self.config = config
        self._registry = registry
        self._instance = instance
        self._store = store
        self._lane = blocking.lane("digest", concurrency=1)
        self._tasks = tasks
        self._db = users.users_db  # the nonces are stored next to the users
        # The clock that all processes with the key share: all instances, or the workers of this
        # one.
        self._nonces = (
            Nonces(config.key.encode(), clock=store.clock)
            if config.key
            else Nonces(instance.secret("digest nonces"))
        )
        # The same everywhere: a client of another instance gets `stale` and not a rejection.
        self._opaque = hashlib.sha256(f"docgraph {config.realm}".encode()).hexdigest()[:32]
        self._nobody = secrets.token_hex()  # the secret of users that do not exist
        self._authenticator: DigestAuthenticator
        self._counts: SharedCounts | StoredCounts | None = None

    async def provision(self) -> None:
        """Find the authenticator; open the counts, of this instance or of all with the same key."""
        authenticator = require_authenticator(self._registry, self.name, self.config.authenticator)
        if not isinstance(authenticator, DigestAuthenticator):
            raise StartupError(
                f"/{self.name}/authenticator: {authenticator.name!r} knows no secrets for digest",
                hint="name an authenticator that does, or use basicAuthMechanism",
            )
        self._authenticator = authenticator
        if self.config.key is not None:
            stored = StoredCounts(self._store, self._db)
            if self._instance.worker <= 1:  # one of the workers is enough
                self._tasks.start("digest-nonces", stored.sweep)
            self._counts = stored
        else:
            self._counts = await run_blocking(self._lane, self._open_shared)

    async def close(self) -> None:
        if self._counts is not None:
            await self._counts.close()

    async def authenticate(self, exchange: Exchange) -> Outcome:
        """Check the digest first, then the nonce, then its count."""
        credentials = read_credentials(exchange.request.headers)
        if credentials is None or credentials.scheme != "digest":
            return ABSENT
        try:
            given = DigestCredentials.parse(credentials.text)
        except MalformedCredentials:
            return Rejected("malformed")
        flaw = self._find_flaw(given, exchange.request)
        if flaw is not None:
            return Rejected(flaw)
        secret = await self._find_secret(given, exchange.request.method)
        if secret is None:
            return Rejected("wrong-password")
        nonce = await self._use_nonce(given, exchange)
        if nonce is None:
            exchange.attributes[STALE] = True
            return Rejected("stale-nonce")
        account = await self._authenticator.find(given.username)
        if account is None:
            return Rejected("unknown-user")
        exchange.headers.append(("Authentication-Info", self._confirm(given, secret, nonce)))
        return Accepted(account)

    def challenge(self, exchange: Exchange) -> Sequence[str]:
        stale = exchange.attributes.get(STALE, False)
        nonce = self._nonces.make()
        return [
            DigestChallenge(
                realm=self.config.realm,
                domain=self.config.domain,
                nonce=nonce,
                opaque=self._opaque,
                algorithm=algorithm,
                stale=stale,
            ).render()
            for algorithm in self.config.algorithms
        ]

    def _find_flaw(self, given: DigestCredentials, request: Request) -> str | None:
        """Return why the response does not fit our challenge or this request, or None."""
        if given.realm != self.config.realm:
            return "wrong-realm"
        if given.opaque != self._opaque:
            return "wrong-opaque"
        if given.algorithm not in self.config.algorithms:
            return "wrong-algorithm"
        return None if _is_target(given.uri, request) else "wrong-uri"

    async def _find_secret(self, given: DigestCredentials, method: str) -> str | None:
        """Return the user's secret if the digest is valid; unknown users take the same time."""
        secret = await self._authenticator.digest_secret(
            given.username, self.config.realm, given.algorithm
        )
        expected = compute_response(secret or self._nobody, given, method)
        right = hmac.compare_digest(expected.encode(), given.response.encode())
        return secret if right else None

    async def _use_nonce(self, given: DigestCredentials, exchange: Exchange) -> Nonce | None:
        """Return the nonce if it is ours, fresh, and its count has not been used."""
        nonce = self._nonces.read(given.nonce)
        if exchange.is_renewal:  # its count was used by the original request
            return nonce
        if nonce is None or not self._nonces.is_fresh(nonce) or self._counts is None:
            return None
        accepted = await self._counts.accept(nonce, given.count, exchange.deadline)
        return nonce if accepted else None

    def _confirm(self, given: DigestCredentials, secret: str, nonce: Nonce) -> str:
        return AuthenticationInfo(
            rspauth=compute_response(secret, given, ""),
            cnonce=given.cnonce,
            nc=given.nc,
            nextnonce=self._nonces.make() if self._nonces.is_ageing(nonce) else None,
        ).render()

    def _open_shared(self) -> SharedCounts:
        path = self._instance.directory / "digest-nonces"
        create_shared_counts(path)
        return SharedCounts(path)


def _is_target(uri: str, request: Request) -> bool:
    """Return whether `uri` is the target of the request line, as path or as URL of this host."""
    target = request.connection.root_path + request.raw_path.decode("latin-1")
    if request.query_string:
        target += f"?{request.query_string.decode('latin-1')}"
    if uri.startswith("/"):
        return uri == target or (not request.query_string and uri == f"{target}?")
    try:
        parts = urlsplit(uri)
    except ValueError:
        return False
    host = (request.headers.get("host") or "").lower()
    if parts.scheme not in {"http", "https"} or parts.netloc.lower() != host:
        return False
    return uri.endswith(f"://{parts.netloc}{target}")


def compute_response(secret: str, given: DigestCredentials, method: str) -> str:
    """Return the response that a client with the secret must have sent (RFC 7616 3.4).

    Without a method it is the server's proof for the client that it knows the secret.

    `secret` is HA1, which an authenticator stores or computes: equivalent to the password.
    """
    digest = DIGEST_HASHES[given.algorithm]
    action = digest(f"{method}:{given.uri}".encode("latin-1")).hexdigest()
    parts = (secret, given.nonce, given.nc, given.cnonce, "auth", action)
    response: str = digest(":".join(parts).encode("latin-1")).hexdigest()
    return response
