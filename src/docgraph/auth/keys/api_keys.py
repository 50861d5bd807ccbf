"""The stored API keys: one document each, next to the users (decision 72).

The secret of a key is not stored, only its HMAC-SHA256 with a key of the installation: a copy of
the collection alone is useless elsewhere. A change is announced like a change of users: within two
seconds all workers and instances read keys again, and authorize open streams again.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_network
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from docgraph.auth.credentials import ApiKeyText
from docgraph.auth.mechanisms.sections import ApiKeyMechanism
from docgraph.auth.tokens.revocation import EPOCH, Revocations
from docgraph.exchange import Account, Deadline, Document, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import Conflict, NotFound, RequestError
from docgraph.runtime import Generations
from docgraph.store import Store
from docgraph.store.names import API_KEY_STORE
from docgraph.store.stored_keys import PRIMARY, load_keys
from docgraph.store.versions import Versions

PAGE: Final = 100  # keys in a list
OVERLAP_HOURS: Final = 24.0  # for which a replaced secret stays valid
NO_HASH: Final = bytes(32)  # that no secret has
_LIMIT_MS: Final = 10_000
_USED_EVERY: Final = timedelta(seconds=60)
_SECRET: Final = frozenset({"hash", "previous", "madeAt"})
_Texts = Annotated[tuple[str, ...], Meta(max_length=50)]


class KeyOrder(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The key that a maker wants; `inherits` are properties that are read from the owner.

    Its name has no slash, so that `<owner>/<name>` is unique.
    """

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")]
    not_after: datetime
    roles: _Texts = ()
    networks: _Texts = ()
    inherits: _Texts = ()
    properties: dict[str, Any] = {}
    owner: str = ""

    @classmethod
    def parse(cls, content: Any) -> KeyOrder:
        """Return the order that a caller or a command has written."""
        try:
            return msgspec.convert(content, cls)
        except msgspec.ValidationError as error:
            raise RequestError(f"a key cannot be made like this: {error}") from None


class ApiKey(KeyOrder, frozen=True, rename="camel", kw_only=True, forbid_unknown_fields=False):
    """A stored key, as its verification needs it; dates are in UTC, without a zone.

    `made_at` is compared with the revocation marks of the owner.
    """

    id: str = msgspec.field(name="_id")
    realm: str
    hash: bytes
    made_at: float
    previous: bytes = NO_HASH
    previous_until: datetime = EPOCH


def parse_key(document: Document | None) -> ApiKey | None:
    """Return a stored key; None for a document without the shape of one."""
    try:
        return msgspec.convert(document, ApiKey)
    except msgspec.ValidationError:
        return None


@dataclass
class ApiKeys:
    """Reads and writes the documents of keys."""

    section: ApiKeyMechanism
    store: Store
    db: str
    generations: Generations
    revocations: Revocations
    root_role: str | None
    _secret: bytes = b""

    @property
    def versions(self) -> Versions:
        """The version of the keys, which every change increments."""
        return Versions(self.store, self.db, API_KEY_STORE)

    async def hash(self, text: ApiKeyText) -> bytes:
        """Return the stored form of a secret, which is bound to its id."""
        if not self._secret:
            (self._secret, *_) = await load_keys(self.store, self.db, "apiKeys", len(NO_HASH))
        return hmac.digest(self._secret, f"{text.id} {text.secret}".encode(), "sha256")

    def limit_roles(self, owner: Account) -> set[str]:
        """Return the roles that a key of this owner can have."""
        barred = None if self.section.allow_root_role else self.root_role
        return {role for role in owner.roles if role != barred}

    async def find(self, text: str) -> Document | None:
        """Return the key with that id, or that `<owner>/<name>`."""
        owner, slash, name = text.rpartition("/")
        page = await self._read({"owner": owner, "name": name} if slash else {"_id": text}, 1)
        return page[0] if page else None

    async def require(self, text: str, owner: Account | None = None) -> Document:
        """Return that key, of that owner if one is given; raise `NotFound` otherwise."""
        key = await self.find(text)
        if key is None or (owner and (owner.name, owner.kind) != (key["owner"], key["realm"])):
            raise NotFound(f"there is no key {text!r}", hint="`docgraph keys list` lists them")
        return key

    async def list_page(self, owner: Account | None = None, after: str = "") -> list[Document]:
        """Return the next keys by their ids, of all owners or of one; at most `PAGE`."""
        own = {} if owner is None else {"owner": owner.name, "realm": owner.kind}
        return await self._read({"_id": {"$gt": after}, **own}, PAGE)

    def describe(self, key: Document) -> Document:
        """Return what may be shown of a key: everything but its secrets."""
        has_ended = self.revocations.is_revoked(None, key["owner"], key["madeAt"])
        state = "expired" if key["notAfter"] <= self._now() else "ended" if has_ended else "active"
        return {name: key[name] for name in key if name not in _SECRET} | {"state": state}

    async def make(self, order: KeyOrder, owner: Account) -> tuple[Document, str]:
        """Store a new key of that owner; return it with its text, which exists only here."""
        text, not_after = ApiKeyText(), order.not_after
        if not_after.tzinfo is not None:
            not_after = not_after.astimezone(UTC).replace(tzinfo=None)
        self._check(order, not_after, owner)
        key = {
            "_id": text.id,
            "name": order.name,
            "owner": owner.name,
            "realm": owner.kind,
            "roles": order.roles,
            "networks": order.networks,
            "inherits": order.inherits,
            "properties": order.properties,
            "notAfter": not_after,
            "createdAt": self._now(),
            "madeAt": self.revocations.date(owner.name),
            "hash": await self.hash(text),
        }
        await self.store.writes.ensure_index(
            self.db, API_KEY_STORE, {"owner": 1, "name": 1}, unique=True, deadline=_limit()
        )
        try:
            await self._write(text.id, Write(WriteKind.INSERT, (key,)))
        except Conflict:
            message = f"{owner.name!r} has a key {order.name!r} already"
            raise Conflict(message, hint="rotate or revoke it") from None
        return key, text.render()

    async def revoke(self, key: Document) -> None:
        """Delete a key."""
        await self._write(key["_id"], Write(WriteKind.DELETE, filter={"_id": key["_id"]}))

    async def rotate(self, key: Document, hours: float) -> str:
        """Give a key another secret; the previous one stays valid for so many hours."""
        text, until = ApiKeyText(key["_id"]), self._now() + timedelta(hours=hours)
        change = {"hash": await self.hash(text), "previous": key["hash"], "previousUntil": until}
        same = {"_id": text.id, "hash": key["hash"]}
        write = Write(WriteKind.UPDATE, filter=same, update={"$set": change})
        if not await self._write(text.id, write):
            raise Conflict("the key was rotated or revoked at the same time")
        return text.render()

    async def record_uses(self, ids: Collection[str]) -> None:
        """Record that these keys were used, at most once a minute for each."""
        now = self._now()
        condition = {
            "_id": {"$in": list(ids)},
            "lastUsedAt": {"$not": {"$gt": now - _USED_EVERY}},
        }
        change = {"$set": {"lastUsedAt": now}}
        write = Write(WriteKind.UPDATE, filter=condition, update=change, many=True)
        place = Resource(ResourceType.COLLECTION, self.db, API_KEY_STORE)
        await self.store.writes.write_unnoticed(place, write, deadline=_limit())

    def _now(self) -> datetime:
        return EPOCH + timedelta(seconds=int(self.store.clock()))

    def _check(self, order: KeyOrder, not_after: datetime, owner: Account) -> None:
        """Reject a key that would have more rights than its owner, or no end."""
        if missing := sorted(set(order.roles) - self.limit_roles(owner)):
            raise RequestError(
                f"a key of {owner.name!r} cannot have the role {missing[0]!r}",
                hint="name roles of the owner; the root role needs apiKeyMechanism.allow-root-role",
            )
        days = self.section.max_age_days
        if not timedelta() < not_after - self._now() <= timedelta(days=days):
            hint = f"the limit is /apiKeyMechanism/max-age-days: {days}"
            raise RequestError("a key ends in the future, and not too late", hint=hint)
        try:
            list(map(ip_network, order.networks))
        except ValueError as error:
            raise RequestError(f"not a network: {error}", hint="write 10.1.0.0/16") from None

    async def _read(self, condition: Document, limit: int) -> list[Document]:
        keys = await self.store.reads.find(
            self.db,
            API_KEY_STORE,
            condition,
            sort={"_id": 1},
            limit=limit,
            deadline=_limit(),
            consistency=PRIMARY,
        )
        return [key for key in keys if parse_key(key)]

    async def _write(self, id: str, write: Write) -> bool:
        """Write a key and announce it, even if the caller is cancelled; return if there was one."""

        async def work() -> bool:
            place = Resource(ResourceType.DOCUMENT, self.db, API_KEY_STORE, id)
            result = await self.store.writes.write(place, write, deadline=_limit(), majority=True)
            self.generations.bump("users")
            await self.versions.announce()
            return bool(result.inserted or result.matched or result.deleted)

        return await self.store.writes.finish(f"key {id}", work)


def _limit() -> Deadline:
    return Deadline.after_ms(_LIMIT_MS)
