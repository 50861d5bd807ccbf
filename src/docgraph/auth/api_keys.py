"""The stored API keys: one document each, next to the users (decision 72).

Not the secret is stored, but its HMAC-SHA256 with a key of the installation. The same HMAC of the
owner's stored password tells whether the owner is still the one who had the key made. A change is
announced like one of users: workers read keys, and authorize streams again (`revocation_watch.py`).
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from ipaddress import ip_network
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from docgraph.auth.credentials import ApiKeyText
from docgraph.auth.mechanisms.sections import ApiKeyMechanism
from docgraph.auth.tokens.revocation import EPOCH, Revocations
from docgraph.codec import JsonMode, to_json
from docgraph.exchange import Account, Deadline, Document, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import Conflict, Forbidden, NotFound, RequestError
from docgraph.plugins.kinds import KeyOwners, Kind
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Generations
from docgraph.store import Store
from docgraph.store.names import API_KEYS
from docgraph.store.stored_keys import PRIMARY, load_keys

PAGE: Final = 100  # keys in a list
NO_HASH: Final = bytes(32)  # that no secret has
_LIMIT_MS: Final = 10_000
_MINUTE: Final = timedelta(minutes=1)
_COPIED: Final = ("name", "roles", "networks", "inherits", "properties")
_SECRET: Final = frozenset({"hash", "previous", "madeAt", "seals"})
_PURPOSE: Final = "apiKeys"
_BY_OWNER: Final = {"owner": 1, "realm": 1, "_id": 1}
_SHOWN: Final = 30 * 86_400  # seconds after their end for which keys are listed
_SEALS: Final = 100  # of one key: concurrent replacements of a cheap hash each add one
# Documents that another program has written in another form count as none.
_FORM: Final[Document] = {
    **{name: {"$type": "string"} for name in ("name", "owner", "realm")},
    **{name: {"$type": "array"} for name in ("roles", "networks", "inherits", "seals")},
    **{name: {"$type": "date"} for name in ("notAfter", "createdAt")},
    **{
        "hash": {"$type": "binData"},
        "madeAt": {"$type": "number"},
        "properties": {"$type": "object"},
    },
}
_Texts = Annotated[tuple[Annotated[str, Meta(max_length=255)], ...], Meta(max_length=50)]


class KeyOrder(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The key that a maker wants; its name has no slash, so that `<owner>/<name>` is unique."""

    name: Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,62}\Z")]
    not_after: datetime
    roles: _Texts = ()
    networks: _Texts = ()
    inherits: _Texts = ()  # properties that are read from the owner
    properties: dict[str, Any] = {}
    owner: str = ""

    @classmethod
    def parse(cls, content: Any) -> KeyOrder:
        """Return the order that a caller or a command has written."""
        try:
            return msgspec.convert(content, cls)
        except msgspec.ValidationError as error:
            raise RequestError(f"a key cannot be made like this: {error}") from None


class Owner(NamedTuple):
    """A user, and what their realm stores of the password."""

    account: Account
    credential: str

    def seal(self, secret: bytes) -> bytes:
        """Return the HMAC by which a key recognizes its owner."""
        who = f"owner {self.account.kind}\0{self.account.name}\0{self.credential}"
        return hmac.digest(secret, who.encode(errors="surrogatepass"), "sha256")


async def keep_through_rehash(store: Store, db: str, owner: Owner, fresh: str) -> None:
    """Let keys accept a hash that is about to replace a cheaper one of the password (53)."""
    where, limit = _owned_by(owner.account), Deadline.after_ms(_LIMIT_MS)
    if not await store.reads.find_one(db, API_KEYS, where, deadline=limit, consistency=PRIMARY):
        return
    (secret, *_) = await load_keys(store, db, _PURPOSE, len(NO_HASH))
    where["seals"] = owner.seal(secret)
    more = {"$each": [owner._replace(credential=fresh).seal(secret)], "$slice": -_SEALS}
    write = Write(WriteKind.UPDATE, filter=where, update={"$push": {"seals": more}}, many=True)
    place = Resource(ResourceType.COLLECTION, db, API_KEYS)
    await store.writes.write_unnoticed(place, write, deadline=limit)


def _owned_by(user: Account) -> Document:
    return {"owner": user.name, "realm": user.kind}


def _find_id(name: str) -> str:
    """Return the id of the key `<owner>/<name>`: no owner has two keys of one name."""
    return sha256(name.encode(errors="surrogatepass")).hexdigest()[:16]


@dataclass
class ApiKeys:
    """Reads and writes the documents of keys."""

    section: ApiKeyMechanism
    store: Store
    db: str
    generations: Generations
    revocations: Revocations
    root_role: str | None
    registry: PluginRegistry
    _secret: bytes = b""

    async def hash(self, text: ApiKeyText) -> bytes:
        """Return the stored form of a secret, which is bound to its id."""
        return hmac.digest(await self._load(), f"{text.id} {text.secret}".encode(), "sha256")

    async def find_owner(self, name: str, kind: str | None = None) -> Owner | None:
        """Return the current user of that name, of any realm or of one."""
        for realm in self.registry.of_kind(Kind.AUTHENTICATOR):
            owner = await realm.find_owner(name) if isinstance(realm, KeyOwners) else None
            if owner is not None and kind in (None, owner[0].kind):
                return Owner(*owner)
        return None

    async def find_owner_of(self, key: Document) -> Account | None:
        """Return the owner of a key; None for another user of that name, or a new password."""
        owner = await self.find_owner(key["owner"], key["realm"])
        return owner.account if owner and owner.seal(await self._load()) in key["seals"] else None

    def limit_roles(self, owner: Account) -> set[str]:
        """Return the roles that a key of this owner can have."""
        barred = None if self.section.allow_root_role else self.root_role
        return {role for role in owner.roles if role != barred}

    async def find(self, text: str) -> Document | None:
        """Return the key with that id, or that `<owner>/<name>`."""
        where = {"_id": _find_id(text) if "/" in text else text}
        return next(iter(await self._read(where)), None)

    async def require(self, text: str, owner: Account | None = None) -> Document:
        """Return that key, of that owner if one is given; raise `NotFound` otherwise."""
        key = await self.find(text)
        if key is None or (owner and (owner.name, owner.kind) != (key["owner"], key["realm"])):
            raise NotFound(f"there is no key {text!r}", hint="`docgraph keys list` lists them")
        return key

    async def list_page(self, owner: Account | None = None, after: str = "") -> list[Document]:
        """Return the next keys by their ids, of all owners or of one; at most `PAGE`."""
        condition = {} if owner is None else _owned_by(owner)
        return await self._read({"_id": {"$gt": after}, **condition})

    async def describe(self, *keys: Document) -> list[Any]:
        """Return what may be shown of keys, as JSON: everything but their secrets."""
        secret, owners = await self._load(), {}
        for who in {(key["owner"], key["realm"]) for key in keys}:
            owner = await self.find_owner(*who)
            owners[who] = owner and owner.seal(secret)
        described = []
        for key in keys:
            shown = {name: key[name] for name in key if name not in _SECRET}
            is_owned = owners[key["owner"], key["realm"]] in key["seals"]
            shown["active"] = is_owned and not self._is_over(key)
            described.append(to_json(shown, JsonMode.GRAPHQL_PLAIN))
        return described

    async def make(
        self, order: KeyOrder, owner: Owner | None, made_at: float | None = None
    ) -> tuple[Document, str]:
        """Store a new key of that owner; return it with its text, which exists only here.

        `made_at`: when the token was made that orders it, so that whatever ends one ends both.
        """
        if owner is None:
            raise RequestError("the owner is no user of a realm", hint="only users own keys")
        user = owner.account
        text = ApiKeyText(_find_id(f"{user.name}/{order.name}"))
        now, end = self._now(), order.not_after
        left = (end if end.tzinfo else end.replace(tzinfo=UTC)) - now.replace(tzinfo=UTC)
        self._check(order, left, user)
        key = {name: getattr(order, name) for name in _COPIED} | {
            "_id": text.id,
            "owner": user.name,
            "realm": user.kind,
            "notAfter": now + left,
            "createdAt": now,
            "madeAt": self.revocations.date(user.name) if made_at is None else made_at,
            "hash": await self.hash(text),
            "seals": [owner.seal(await self._load())],
        }
        if await self.find(text.id):
            raise Conflict(
                f"{user.name!r} has a key {order.name!r} already", hint="rotate or revoke it"
            )
        limit, ensure_index = Deadline.after_ms(_LIMIT_MS), self.store.writes.ensure_index
        await ensure_index(self.db, API_KEYS, _BY_OWNER, deadline=limit)
        by_end: Document = {"notAfter": 1}
        await ensure_index(self.db, API_KEYS, by_end, expireAfterSeconds=_SHOWN, deadline=limit)
        await self._write(text.id, Write(WriteKind.INSERT, (key,)))
        most, current = self.section.max_keys_per_user, await self.find_owner_of(key)
        is_same = current is not None and self.limit_roles(current).issuperset(order.roles)
        if is_same and not self.is_revoked(key):
            if len(await self._read(_owned_by(user), most + 1)) <= most:
                return key, text.render()
            hint = "revoke keys, or raise /apiKeyMechanism/max-keys-per-user"
            error = Conflict(f"{user.name!r} has {most} keys already", hint=hint)
        else:
            error = Conflict("the owner was changed at the same time", hint="make the key again")
        same = {"_id": text.id, "hash": key["hash"]}
        await self._write(text.id, Write(WriteKind.DELETE, filter=same))
        raise error

    async def revoke(self, name: str, owner: Account | None = None) -> None:
        """Delete a key, of that owner if one is given."""
        key = await self.require(name, owner)
        await self._write(key["_id"], Write(WriteKind.DELETE, filter={"_id": key["_id"]}))

    async def rotate(self, name: str, hours: float, owner: Account | None = None) -> str:
        """Give a key another secret; the previous one stays valid for so many hours."""
        key = await self.require(name, owner)
        if owner and key["properties"]:  # which the owner could not give
            raise Forbidden("only administrators rotate keys with properties")
        if self._is_over(key) or await self.find_owner_of(key) is None:
            raise Conflict("the key has ended", hint="revoke it, and make another one")
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
        where = {"_id": {"$in": list(ids)}, "lastUsedAt": {"$not": {"$gt": now - _MINUTE}}}
        use = Write(WriteKind.UPDATE, filter=where, update={"$set": {"lastUsedAt": now}}, many=True)
        place = Resource(ResourceType.COLLECTION, self.db, API_KEYS)
        await self.store.writes.write_unnoticed(place, use, deadline=Deadline.after_ms(_LIMIT_MS))

    def _now(self) -> datetime:
        return EPOCH + timedelta(seconds=int(self.store.clock()))

    def _check(self, order: KeyOrder, left: timedelta, owner: Account) -> None:
        """Reject a key that would have more rights than its owner, or no end."""
        if missing := sorted(set(order.roles) - self.limit_roles(owner)):
            hint = "name roles of the owner; the root role needs apiKeyMechanism.allow-root-role"
            raise RequestError(f"a key of {owner.name!r} cannot have {missing[0]!r}", hint=hint)
        if not timedelta() < left <= timedelta(days=self.section.max_age_days):
            hint = f"the limit is /apiKeyMechanism/max-age-days: {self.section.max_age_days}"
            raise RequestError("a key ends in the future, and not too late", hint=hint)
        try:
            list(map(ip_network, order.networks))
        except ValueError as error:
            raise RequestError(f"not a network: {error}", hint="write 10.1.0.0/16") from None

    def is_revoked(self, key: Document) -> bool:
        """Return whether a revocation mark of the owner ends the key."""
        return self.revocations.is_revoked(None, key["owner"], key["madeAt"])

    def _is_over(self, key: Document) -> bool:
        return self.is_revoked(key) or bool(key["notAfter"] <= self._now())

    async def _load(self) -> bytes:
        if not self._secret:
            (self._secret, *_) = await load_keys(self.store, self.db, _PURPOSE, len(NO_HASH))
        return self._secret

    async def _read(self, where: Document, limit: int = PAGE) -> list[Document]:
        where, by_id, deadline = _FORM | where, {"_id": 1}, Deadline.after_ms(_LIMIT_MS)
        return await self.store.reads.find(
            self.db,
            API_KEYS,
            where,
            sort=by_id,
            limit=limit,
            deadline=deadline,
            consistency=PRIMARY,
        )

    async def _write(self, id: str, write: Write) -> bool:
        """Write a key, and announce it to the other workers; return whether there was one."""
        place = Resource(ResourceType.DOCUMENT, self.db, API_KEYS, id)
        limit = Deadline.after_ms(_LIMIT_MS)
        result = await self.store.writes.write(place, write, deadline=limit, majority=True)
        self.generations.bump("users")
        return bool(result.inserted or result.matched or result.deleted)
