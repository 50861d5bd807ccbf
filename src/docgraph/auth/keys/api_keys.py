"""The stored API keys: one document each, next to the users.

The secret of a key is not stored, only its HMAC-SHA256 with a key of the installation: a copy of
the collection alone is useless elsewhere. A change is announced like a change of users: within two
seconds all workers and instances read keys again, and authorize open streams again.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from datetime import UTC, datetime, timedelta
from hashlib import sha256
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
NO_HASH: Final = bytes(32)  # that no secret has
_LIMIT_MS: Final = 10_000
_USED_EVERY: Final = timedelta(seconds=60)
_SECRET: Final = frozenset({"hash", "previous", "madeAt"})
_Texts = Annotated[tuple[str, ...], Meta(max_length=50)]


class KeyOrder(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The key that a maker wants; its name has no slash, so that `<owner>/<name>` is unique."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")]
    not_after: datetime
    roles: _Texts = ()
    networks: _Texts = ()
    inherits: _Texts = ()
    properties: dict[str, Any] = {}
    owner: str = ""


class Rotation(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The hours for which the previous secret of a key stays valid."""

    hours: Annotated[float, Meta(ge=0, le=744)] = 24


class ApiKey(msgspec.Struct, frozen=True, rename="camel"):
    """A stored key, as its verification needs it; dates are in UTC, without a zone.

    `inherits` are properties that are read from the owner. `made_at` is compared with the
    revocation marks of the owner.
    """

    id: str = msgspec.field(name="_id")
    name: str
    owner: str
    realm: str
    hash: bytes
    made_at: float
    not_after: datetime
    roles: tuple[str, ...]
    networks: tuple[str, ...] = ()
    inherits: tuple[str, ...] = ()
    properties: dict[str, Any] = {}
    previous: bytes = NO_HASH
    previous_until: datetime = EPOCH


def parse_key(document: Document | None) -> ApiKey | None:
    """Return a stored key; None for a document without the shape of one."""
    try:
        return msgspec.convert(document, ApiKey)
    except msgspec.ValidationError:
        return None


class ApiKeys:
    """Reads and writes the documents of keys."""

    def __init__(
        self,
        section: ApiKeyMechanism,
        store: Store,
        db: str,
        generations: Generations,
        revocations: Revocations,
        root_role: str | None,
    ) -> None:
        self.revocations = revocations
        self.versions = Versions(store, db, API_KEY_STORE)
        self._section = section
        self._store = store
        self._db = db
        self._generations = generations
        self._barred = set() if section.allow_root_role else {root_role}
        self._secret = None if section.key is None else sha256(section.key.encode()).digest()

    async def hash(self, text: ApiKeyText) -> bytes:
        """Return the stored form of a secret, which is bound to its id."""
        if self._secret is None:
            (self._secret, *_) = await load_keys(self._store, self._db, "apiKeys", len(NO_HASH))
        return hmac.digest(self._secret, f"{text.id} {text.secret}".encode(), "sha256")

    def limit_roles(self, owner: Account) -> set[str]:
        """Return the roles that a key of this owner can have."""
        return set(owner.roles) - self._barred

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
        text, not_after = ApiKeyText.generate(), order.not_after
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
        await self._store.writes.ensure_index(
            self._db, API_KEY_STORE, {"owner": 1, "name": 1}, unique=True, deadline=_limit()
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
        text, until = ApiKeyText.generate(key["_id"]), self._now() + timedelta(hours=hours)
        change = {"hash": await self.hash(text), "previous": key["hash"], "previousUntil": until}
        same = {"_id": key["_id"], "hash": key["hash"]}
        if not await self._write(
            key["_id"], Write(WriteKind.UPDATE, filter=same, update={"$set": change})
        ):
            raise Conflict("the key was rotated or revoked at the same time")
        return text.render()

    async def record_uses(self, ids: Collection[str]) -> None:
        """Record that these keys were used, at most once a minute for each."""
        now = self._now()
        unrecorded = {"lastUsedAt": {"$not": {"$gt": now - _USED_EVERY}}}
        condition = {"_id": {"$in": list(ids)}, **unrecorded}
        await self._store.writes.write_unnoticed(
            Resource(ResourceType.COLLECTION, self._db, API_KEY_STORE),
            Write(
                WriteKind.UPDATE, filter=condition, update={"$set": {"lastUsedAt": now}}, many=True
            ),
            deadline=_limit(),
        )

    def _now(self) -> datetime:
        return EPOCH + timedelta(seconds=int(self._store.clock()))

    def _check(self, order: KeyOrder, not_after: datetime, owner: Account) -> None:
        """Reject a key that would have more rights than its owner, or no end."""
        if missing := sorted(set(order.roles) - self.limit_roles(owner)):
            raise RequestError(
                f"a key of {owner.name!r} cannot have the role {missing[0]!r}",
                hint="name roles of the owner; the root role needs apiKeyMechanism.allow-root-role",
            )
        days = self._section.max_age_days
        if not timedelta() < not_after - self._now() <= timedelta(days=days):
            hint = f"the limit is /apiKeyMechanism/max-age-days: {days}"
            raise RequestError("a key ends in the future, and not too late", hint=hint)
        for network in order.networks:
            try:
                ip_network(network)
            except ValueError as error:
                hint = "write it like 10.1.0.0/16 or 2001:db8::/32"
                raise RequestError(f"not a network: {error}", hint=hint) from None

    async def _read(self, condition: Document, limit: int) -> list[Document]:
        keys = await self._store.reads.find(
            self._db,
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
            place = Resource(ResourceType.DOCUMENT, self._db, API_KEY_STORE, id)
            result = await self._store.writes.write(place, write, deadline=_limit(), majority=True)
            self._generations.bump("users")
            await self.versions.announce()
            return bool(result.inserted or result.matched or result.deleted)

        return await self._store.writes.finish(f"key {id}", work)


def _limit() -> Deadline:
    return Deadline.after_ms(_LIMIT_MS)
