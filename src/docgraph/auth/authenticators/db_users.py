"""`dbRealmAuthenticator`: users in a collection of the database.

Finds users and checks passwords. Other plugins write users (`user_writes.py`), create the first one
(`first_user.py`) and read the costs of the hashes (`password_costs.py`); they use the section, the
passwords and the keys of this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, NamedTuple

from docgraph.auth.api_keys import Owner, keep_through_rehash
from docgraph.auth.authenticators.sections import DbRealmAuthenticator
from docgraph.auth.passwords import (
    BcryptPasswords,
    Passwords,
    PlainPasswords,
    Strength,
    build_ha1,
    encode_text,
    open_lane,
)
from docgraph.auth.tokens.revocation import Revocations
from docgraph.codec.roles_path import RolesPath
from docgraph.config.sources import CONFIGURATION
from docgraph.exchange import (
    Account,
    ConfigError,
    Deadline,
    DocgraphError,
    Document,
    Problem,
    Resource,
    ResourceType,
    Write,
    WriteKind,
)
from docgraph.exchange.errors import StoreUnavailable, TimeLimitExceeded
from docgraph.plugins.kinds import Authenticator
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import AFTER_READ, AFTER_WRITE, Blocking, Generations, Instance, LoadingCache
from docgraph.runtime.tasks import Tasks
from docgraph.store import ChangeEvents, RevealKey, Store
from docgraph.store.change_stream import Follower, ResumeToken
from docgraph.store.versions import VersionFollower, Versions

# These properties are the user id in accounts of JWTs. Users who may edit their own document must
# not be able to write another id there.
_NAMES_OF_ID: Final = ("sub", "userid")
_HEX_LENGTHS = {"MD5": 32, "SHA-256": 64}


@dataclass(frozen=True, slots=True)
class User:
    """A user and the stored password; its repr contains no secrets."""

    account: Account
    password: str | None = field(default=None, repr=False)
    ha1: Any = field(default=None, repr=False)

    def find_ha1(self, algorithm: str) -> str | None:
        """Return the stored HA1: one hex text, or several by their algorithm."""
        value = self.ha1.get(algorithm) if isinstance(self.ha1, Mapping) else self.ha1
        if isinstance(value, str) and len(value) == _HEX_LENGTHS.get(algorithm):
            return value.lower()
        return None


class UserReader:
    """Parses user documents as the section configures.

    A document without the shape of a user counts as no user: a login with it fails exactly like one
    with an unknown name.
    """

    def __init__(self, section: DbRealmAuthenticator) -> None:
        self._section = section
        self.roles = RolesPath(section.json_path_roles)

    def read(self, name: str, document: Document) -> User | None:
        """Return the user of that name; the account has no secret, and no id but the user's own."""
        # An array of names matches a filter on one of them, and a collation ignores case.
        if find_value(document, self._section.prop_id) != name:
            return None
        secret = {self._section.prop_password, self._section.prop_ha1}
        properties = {key: value for key, value in document.items() if key not in secret}
        roles = self.roles.read(properties)
        if roles is None:
            return None
        for key in _NAMES_OF_ID:
            if properties.get(key) != name:
                properties.pop(key, None)
        password = document.get(self._section.prop_password)
        return User(
            Account(name, roles, properties, "database"),
            password if isinstance(password, str) else None,
            document.get(self._section.prop_ha1) if self._section.prop_ha1 else None,
        )


def find_value(document: Mapping[str, Any], path: str) -> Any:
    """Return the value at a path in dot notation, or None."""
    value: Any = document
    for part in path.split("."):
        if not isinstance(value, Mapping):
            return None
        value = value.get(part)
    return value


def put_value(document: Document, path: str, value: Any) -> None:
    """Set a value at a path in dot notation, keeping its siblings."""
    *parents, last = path.split(".")
    for part in parents:
        document = document.setdefault(part, {})
    document[last] = value


REALM: Final = "dbRealmAuthenticator"
# Without these, passwords would be stored in plain text, or stay valid after a change.
_COMPANIONS: Final = ("userPasswordHasher", "userChangeTeller")
_LOOK_MS: Final = 15_000
_WATCH: Final = "users"
# Seconds that a verified password is remembered after its last use; each use compares it with the
# stored hash. Agents pause between two requests, and each check by bcrypt takes a quarter of one.
_REMEMBERED: Final = 300.0


class DatabaseRealm(Authenticator):
    """Looks up users in one collection and checks their passwords."""

    name: ClassVar[str] = REALM
    description: ClassVar[str] = "users in a collection of the database"
    Config = DbRealmAuthenticator

    def __init__(  # noqa: PLR0913 - the providers it needs
        self,
        config: DbRealmAuthenticator,
        *,
        store: Store,
        blocking: Blocking,
        instance: Instance,
        generations: Generations,
        tasks: Tasks,
        registry: PluginRegistry,
        token_revocations: Revocations | None = None,
    ) -> None:
        self.config: DbRealmAuthenticator = config
        self.passwords = _build_passwords(config, blocking, instance, generations)
        self._rehashing = Rehashing(config, store, self.passwords, token_revocations)
        self.strength = (
            Strength(blocking, config.minimum_password_strength)
            if config.enforce_minimum_password_strength
            else None
        )
        self.keys: tuple[RevealKey, ...] = ()
        self._store = store
        self._generations = generations
        self._tasks = tasks
        self._registry = registry
        self.reader = UserReader(config)
        policy = AFTER_READ if config.cache_expire_policy == "AFTER_READ" else AFTER_WRITE
        self._users: LoadingCache[str, User] = LoadingCache(
            config.cache_size, config.cache_ttl / 1000, policy
        )
        self._generation = 0
        self.follower = Follower(self._open_stream, catch_up=self._forget, take=self._forget)
        versions = Versions(store, config.users_db, config.users_collection)
        self.versions = VersionFollower(
            REALM, store, versions, instance, take=self._forget_everywhere
        )

    async def provision(self) -> None:
        """Hide the secrets from all reads; follow changes that others make."""
        self.keys = tuple(self._hide(name) for name in self.secret_properties)
        self._tasks.start("rehash", self._rehashing.run)
        if self.config.cache_enabled:
            self._generation = self._generations.read("users")
            self._tasks.start(_WATCH, self._watch)
            self._tasks.start(f"{_WATCH}-version", self._follow_version)

    async def close(self) -> None:
        await self.versions.close()
        await self._users.close()
        await self.passwords.close()

    def validate(self) -> None:
        """Check that the plugins which protect passwords are enabled."""
        self._registry.require(_COMPANIONS, REALM)

    @property
    def secret_properties(self) -> tuple[str, ...]:
        """The properties of a user that no request reads: the password, and HA1 if it is stored."""
        ha1 = self.config.prop_ha1
        return (self.config.prop_password, *([ha1] if ha1 else []))

    async def verify(self, user: str, password: str) -> Account | None:
        """Return the account, or None; an unknown user and a wrong password take the same time."""
        credentials = await self._find(user)
        stored = credentials.password if credentials is not None else None
        is_right = await self.passwords.verify(user, password, stored)
        if not is_right or credentials is None:
            return None
        self._rehashing.offer(credentials, password)
        return credentials.account

    async def find(self, user: str) -> Account | None:
        """Return the current account without checking a password, for renewing a token."""
        stored = await self._find(user)
        return stored.account if stored is not None else None

    async def find_owner(self, user: str) -> tuple[Account, str] | None:
        """Return the current account and its stored password, for API keys."""
        stored = await self._find(user)
        return (stored.account, stored.password or "") if stored is not None else None

    async def digest_secret(self, user: str, realm: str, algorithm: str) -> str | None:
        """Return HA1 in hex, if it is stored or can be computed from a plaintext password."""
        stored = await self._find(user)
        if stored is None:
            return None
        if stored.ha1 is not None:
            return stored.find_ha1(algorithm)
        if self.config.bcrypt_hashed_password or not stored.password:
            return None
        return build_ha1(algorithm, user, realm, stored.password)

    async def _find(self, name: str) -> User | None:
        if encode_text(name) is None:
            return None
        if not self.config.cache_enabled:
            return await self._find_user(name)
        generation = self._generations.read("users")
        if generation != self._generation:
            self._generation = generation
            self._users.clear()
        try:
            return await self._users.get(name, self._load)
        except _UnknownUserError:
            return None

    async def _load(self, name: str) -> User:
        # Raised, not returned, so that it is not cached: invented names must not evict users.
        stored = await self._find_user(name)
        if stored is None:
            raise _UnknownUserError
        return stored

    async def _find_user(self, name: str) -> User | None:
        """Return the one user of that name; two users of one name count as none (ambiguous)."""
        try:
            documents = await self._store.reads.find(
                self.config.users_db,
                self.config.users_collection,
                {self.config.prop_id: {"$eq": name}},
                limit=2,
                deadline=Deadline.after_ms(_LOOK_MS),
                reveal=self.keys,
            )
        except TimeLimitExceeded as error:
            # It is not the caller's query that took too long.
            raise StoreUnavailable("the users could not be read in time") from error
        stored = self.reader.read(name, documents[0]) if len(documents) == 1 else None
        self.passwords.record(stored.password if stored is not None else None)
        return stored

    async def _watch(self) -> None:
        """Evict users from the cache when other instances or programs write to the collection."""
        await self._store.available()
        await self.follower.run()  # returns for a server without change streams

    async def _follow_version(self) -> None:
        """Evict users within two seconds where there is no change stream."""
        await self._store.available()
        await self.versions.run()

    async def _forget_everywhere(self) -> None:
        self._generations.bump("users")

    def _open_stream(self, _: ResumeToken | None) -> ChangeEvents:
        return self._store.streams.watch(
            self.config.users_db, self.config.users_collection, full_document=None
        )

    async def _forget(self, _: Document | None = None) -> None:
        self._users.clear()

    def _hide(self, name: str) -> RevealKey:
        try:
            return self._store.guard.hide(self.config.users_db, self.config.users_collection, name)
        except (ValueError, DocgraphError) as error:
            problem = Problem(
                CONFIGURATION, f"/{REALM}", f"users cannot be kept there: {error}".rstrip(".")
            )
            raise ConfigError([problem]) from error


class _UnknownUserError(Exception):
    """Signals an unknown user, so that the cache stores nothing; not a fault."""


def _build_passwords(
    config: DbRealmAuthenticator, blocking: Blocking, instance: Instance, generations: Generations
) -> Passwords:
    if not config.bcrypt_hashed_password:
        return PlainPasswords()
    return BcryptPasswords(
        open_lane(blocking),
        instance.secret("passwords"),
        generations,
        cost=config.bcrypt_complexity,
        size=config.cache_size,
        ttl=max(config.cache_ttl / 1000, _REMEMBERED),
        results=instance.open_results(),
    )


_QUEUE: Final = 100
_TRIED: Final = 1000
_AGAIN_SECONDS: Final = 300.0  # until the same hash is tried again
_WRITE_MS: Final = 15_000


class _Login(NamedTuple):
    user: str
    password: str
    stored: str


class Rehashing:
    """Replaces a hash cheaper than new ones when its user logs in (decision 53).

    The password does not change: the write passes no interceptor, and is announced to watchers of
    the collection, so that tokens and `_etag` stay. It is made only while the old hash is still
    stored. A failed write has no effect on the user, who is already logged in; on a read-only
    database there is nothing to report. With a full queue, the next login replaces the hash.
    """

    def __init__(
        self,
        section: DbRealmAuthenticator,
        store: Store,
        passwords: Passwords,
        announcer: Revocations | None,
    ) -> None:
        self._announcer = announcer
        self._section = section
        self._store = store
        self._passwords = passwords
        self._queue: asyncio.Queue[_Login] = asyncio.Queue(_QUEUE)
        self._tried: LoadingCache[str, bool] = LoadingCache(_TRIED, _AGAIN_SECONDS)

    def offer(self, user: User, password: str) -> None:
        """Replace the hash after a successful login if it is cheaper than new ones."""
        stored = user.password
        if stored is None or not self._passwords.is_outdated(stored):
            return
        if self._tried.peek(stored) is None and not self._queue.full():
            self._tried.put(stored, True)
            self._queue.put_nowait(_Login(user.account.name, password, stored))

    async def run(self) -> None:
        """Run until the server stops."""
        while True:
            login = await self._queue.get()
            try:
                await self._replace(login)
            except DocgraphError:
                continue  # read-only, unavailable, or too busy: the old hash stays valid

    async def _replace(self, login: _Login) -> None:
        section = self._section
        fresh = await self._passwords.rehash(login.user, login.password)
        owner = Owner(Account(login.user, kind="database"), login.stored)
        await keep_through_rehash(self._store, section.users_db, owner, fresh)
        if self._announcer is not None:
            await self._announcer.announce_rehash(fresh)
        write = Write(
            WriteKind.UPDATE,
            filter={
                section.prop_id: {"$eq": login.user},
                section.prop_password: {"$eq": login.stored},
            },
            update={"$set": {section.prop_password: fresh}},
        )
        place = Resource(ResourceType.COLLECTION, section.users_db, section.users_collection)
        await self._store.writes.write_unnoticed(
            place, write, deadline=Deadline.after_ms(_WRITE_MS)
        )
        await keep_through_rehash(self._store, section.users_db, owner, fresh)  # made meanwhile
