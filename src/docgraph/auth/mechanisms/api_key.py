"""`apiKeyMechanism`: `Authorization: Bearer dgk_…`, the key of a machine (decision 72).

A verified key is cached by its digest, for two seconds at most and until a change of keys or users.
Its end, its network and the revocation marks of its owner are checked at each use.
"""

from __future__ import annotations

import asyncio
import hmac
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC
from functools import partial
from hashlib import sha256
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from math import inf
from typing import ClassVar, Final

from docgraph.auth.api_keys import NO_HASH, ApiKeys
from docgraph.auth.authenticate import API_KEYS
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.auth.credentials import ApiKeyText, read_credentials, render_bearer_challenge
from docgraph.auth.mechanisms.jwt import REALM, REFUSED
from docgraph.auth.mechanisms.sections import ApiKeyMechanism as ApiKeySection
from docgraph.auth.tokens.revocation import Revocations
from docgraph.config.section import PluginConfig
from docgraph.exchange import Account, Answer, Document, Exchange, Headers
from docgraph.exchange.request import KEY_PREFIX
from docgraph.plugins import kinds
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Generations, LoadingCache, Tasks
from docgraph.store import Store

NAME: Final = API_KEYS
_REMEMBERED, _REMEMBERED_SECONDS = 10_000, 2.0
_USES_EVERY: Final = 60.0  # seconds between two writes of `lastUsedAt`


_Verified = tuple[Document, kinds.Accepted]


class _Refused(ValueError):
    """The reason for the log; nothing is cached."""


def admits(networks: Sequence[str], client: tuple[str, int] | None) -> bool:
    """Return whether the address is in one of the networks, if any; a Unix socket has none.

    An IPv4 address and its IPv6 form (`::ffff:10.1.2.3`) are the same, on both sides.
    """
    if not networks or client is None or not client[0]:
        return not networks
    address = ip_address(client[0].split("%", 1)[0])
    wide = IPv6Address(f"::ffff:{address}") if isinstance(address, IPv4Address) else address
    forms = (wide, wide.ipv4_mapped or wide)
    return any(form in ip_network(network) for network in networks for form in forms)


class ApiKeyMechanism(kinds.AuthMechanism):
    """Authenticates keys; responses never contain the reason of a rejection."""

    name: ClassVar[str] = NAME
    description: ClassVar[str] = "Authorization: Bearer with an API key"
    enabled_by_default: ClassVar[bool] = False
    priority: ClassVar[int] = 30
    authorization_scheme: ClassVar[str] = "bearer"
    Config = ApiKeySection

    def __init__(  # noqa: PLR0913 - the providers it needs
        self,
        config: ApiKeySection,
        *,
        store: Store,
        generations: Generations,
        tasks: Tasks,
        registry: PluginRegistry,
        token_revocations: Revocations,
        users: DbRealmAuthenticator,
        root_role: str | None,
    ) -> None:
        self.config = config
        self.users = users
        self.keys = ApiKeys(
            config, store, users.users_db, generations, token_revocations, root_role, registry
        )
        self._tasks = tasks
        self._read_generation = generations.reader("users")
        self._seen = -1
        self._cache: LoadingCache[bytes, _Verified] = LoadingCache(_REMEMBERED, _REMEMBERED_SECONDS)
        self._used: set[str] = set()

    async def provision(self) -> None:
        """Record uses in the background."""
        self._tasks.start("api-keys-used", self._record_uses)

    async def close(self) -> None:
        """Stop reading keys."""
        await self._cache.close()

    async def authenticate(self, exchange: Exchange) -> kinds.Outcome:
        """Return the account of the key."""
        credentials = read_credentials(exchange.request.headers)
        if credentials is None or not credentials.is_api_key:
            return kinds.ABSENT
        try:
            key, accepted = await self._verify(credentials.text, exchange)
        except ValueError as refusal:  # a `_Refused`, a malformed text or network
            exchange.attributes[REFUSED] = True
            return kinds.Rejected(str(refusal) if isinstance(refusal, _Refused) else "malformed")
        self._used.add(key["_id"])
        return accepted

    def challenge(self, exchange: Exchange) -> Sequence[str]:
        """Return the challenge, the same as that of JSON Web Tokens."""
        return (render_bearer_challenge(REALM, refused=exchange.attributes.get(REFUSED, False)),)

    async def find(self, user: str) -> Account | None:
        """Return the account of the key `key:<owner>/<name>`, for explanations."""
        name = user.removeprefix(KEY_PREFIX)
        key = await self.keys.find(name) if name != user and "/" in name else None
        owner = await self.keys.find_owner_of(key) if key else None
        return self._build(key, owner, inf) if key and owner else None

    async def _verify(self, text: str, exchange: Exchange) -> _Verified:
        generation = self._read_generation()
        if generation != self._seen:
            self._seen = generation
            self._cache.clear()
        digest = sha256(text.encode()).digest()
        verified = self._cache.find(digest)
        if verified is None:
            load = partial(self._load, ApiKeyText.parse(text))
            verified = await self._cache.get(digest, load)
        key, accepted = verified
        if (accepted.account.expires_at or 0) <= time.time():
            raise _Refused("expired-key")
        if self.keys.is_revoked(key):
            raise _Refused("revoked-key")
        if not admits(key["networks"], exchange.request.connection.client):
            raise _Refused("foreign-network")
        return verified

    async def _load(self, given: ApiKeyText, _: bytes) -> _Verified:
        """Verify a key; an unknown id and a wrong secret take the same steps."""
        hashed, key = await self.keys.hash(given), await self.keys.find(given.id) or {}
        is_current = hmac.compare_digest(hashed, key.get("hash", NO_HASH))
        is_previous = hmac.compare_digest(hashed, key.get("previous", NO_HASH))
        if not is_current and not is_previous:
            raise _Refused("wrong-key")
        owner = await self.keys.find_owner_of(key)
        if owner is None:
            raise _Refused("owner-gone")
        last = key["notAfter"] if is_current else min(key["notAfter"], key["previousUntil"])
        account = self._build(key, owner, last.replace(tzinfo=UTC).timestamp())
        return key, kinds.Accepted(account)

    def _build(self, key: Document, owner: Account, end: float) -> Account:
        """Build the account of a key: it has no role that its owner has lost.

        It carries the owner, whose rules bound those of the key. What an administrator has given to
        the key applies to both.
        """
        allowed, values = self.keys.limit_roles(owner), owner.properties
        roles = tuple(role for role in dict.fromkeys(key["roles"]) if role in allowed)
        inherited = {name: values[name] for name in key["inherits"] if name in values}
        properties = {**inherited, **key["properties"], "roles": list(roles)}
        who = f"{KEY_PREFIX}{owner.name}/{key['name']}"
        owner = replace(owner, properties={**values, **key["properties"]})
        return Account(who, roles, properties, "key", end, owner=owner)

    async def _record_uses(self) -> None:
        while True:
            await asyncio.sleep(_USES_EVERY)
            used, self._used = self._used, set()
            if used:
                await self.keys.record_uses(used)


class KeyHeader(kinds.Interceptor):
    """Reads the key of another header as a bearer token; two credentials are none."""

    name: ClassVar[str] = "apiKeyHeader"
    description: ClassVar[str] = "takes the API key from the header that apiKeyMechanism names"
    part_of: ClassVar[str] = NAME
    security: ClassVar[bool] = True
    point: ClassVar[kinds.Point] = kinds.Point.BEFORE_AUTH
    priority: ClassVar[int] = 0  # before whatever reads `Authorization`

    def __init__(self, config: PluginConfig, mechanism: ApiKeySection) -> None:
        self.config = config
        self._header = mechanism.header or ""

    def resolve(self, exchange: Exchange) -> bool:
        """Return whether the request has the header."""
        return self._header in exchange.request.headers

    async def handle(self, exchange: Exchange) -> Answer | None:
        """Rename the header; a second `Authorization` makes both unreadable (401)."""
        headers = exchange.request.headers
        values = [
            text if text.startswith("dgk_") else "dgk_" for text in headers.get_list(self._header)
        ]
        keys = [(b"authorization", f"Bearer {text}".encode("latin-1")) for text in values]
        exchange.request.headers = Headers([*headers.without(self._header).raw, *keys])
        return None
