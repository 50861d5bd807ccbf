"""The stored API keys: one document each, next to the users (decision 72).

Not the secret is stored, but its HMAC-SHA256 with a key of the installation. A change is announced
like one of users: workers read keys, and authorize streams again (`revocation_watch.py`: others).
"""

from __future__ import annotations

import hmac
from collections.abc import Collection
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from ipaddress import ip_network
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from docgraph.auth.credentials import ApiKeyText
from docgraph.auth.mechanisms.sections import ApiKeyMechanism
from docgraph.auth.tokens.revocation import EPOCH, Revocations
from docgraph.codec import JsonMode, to_json
from docgraph.exchange import Account, Deadline, Document, Resource, ResourceType, Write, WriteKind
from docgraph.exchange.errors import Conflict, Forbidden, NotFound, RequestError
from docgraph.runtime import Generations
from docgraph.store import Store
from docgraph.store.names import API_KEYS
from docgraph.store.stored_keys import PRIMARY, load_keys

PAGE: Final = 100  # keys in a list
NO_HASH: Final = bytes(32)  # that no secret has
_LIMIT_MS: Final = 10_000
_MINUTE: Final = timedelta(minutes=1)
_COPIED: Final = ("name", "roles", "networks", "inherits", "properties")
_SECRET: Final = frozenset({"hash", "previous", "madeAt"})
# Documents that another program has written in another form count as none.
_FORM: Final[Document] = {
    **{name: {"$type": "string"} for name in ("name", "owner", "realm")},
    **{name: {"$type": "array"} for name in ("roles", "networks", "inherits")},
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
    _secret: bytes = b""

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
        condition = {} if owner is None else {"owner": owner.name, "realm": owner.kind}
        return await self._read({"_id": {"$gt": after}, **condition})

    def describe(self, key: Document) -> Any:
        """Return what may be shown of a key, as JSON: everything but its secrets."""
        is_over = self.revocations.is_revoked(None, key["owner"], key["madeAt"])
        shown = {name: key[name] for name in key if name not in _SECRET}
        shown["active"] = not is_over and key["notAfter"] > self._now()
        return to_json(shown, JsonMode.GRAPHQL_PLAIN)

    async def make(self, order: KeyOrder, owner: Account | None) -> tuple[Document, str]:
        """Store a new key of that owner; return it with its text, which exists only here."""
        if owner is None:
            raise RequestError("the owner is no user of a realm", hint="only users own keys")
        text = ApiKeyText(_find_id(f"{owner.name}/{order.name}"))
        now, end = self._now(), order.not_after
        left = (end if end.tzinfo else end.replace(tzinfo=UTC)) - now.replace(tzinfo=UTC)
        self._check(order, left, owner)
        key = {name: getattr(order, name) for name in _COPIED} | {
            "_id": text.id,
            "owner": owner.name,
            "realm": owner.kind,
            "notAfter": now + left,
            "createdAt": now,
            "madeAt": self.revocations.date(owner.name),
            "hash": await self.hash(text),
        }
        if await self.find(text.id):
            raise Conflict(f"{owner.name!r} has a key {order.name!r} already", hint="rotate it")
        await self._write(text.id, Write(WriteKind.INSERT, (key,)))
        return key, text.render()

    async def revoke(self, name: str, owner: Account | None = None) -> None:
        """Delete a key, of that owner if one is given."""
        key = await self.require(name, owner)
        await self._write(key["_id"], Write(WriteKind.DELETE, filter={"_id": key["_id"]}))

    async def rotate(self, name: str, hours: float, owner: Account | None = None) -> str:
        """Give a key another secret; the previous one stays valid for so many hours."""
        key = await self.require(name, owner)
        if owner and key["properties"]:  # which the owner could not give
            raise Forbidden("only administrators rotate keys with properties")
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

    async def _read(self, where: Document) -> list[Document]:
        where, by_id, limit = _FORM | where, {"_id": 1}, Deadline.after_ms(_LIMIT_MS)
        return await self.store.reads.find(
            self.db, API_KEYS, where, sort=by_id, limit=PAGE, deadline=limit, consistency=PRIMARY
        )

    async def _write(self, id: str, write: Write) -> bool:
        """Write a key, and announce it to the other workers; return whether there was one."""
        place = Resource(ResourceType.DOCUMENT, self.db, API_KEYS, id)
        limit = Deadline.after_ms(_LIMIT_MS)
        result = await self.store.writes.write(place, write, deadline=limit, majority=True)
        self.generations.bump("users")
        return bool(result.inserted or result.matched or result.deleted)
