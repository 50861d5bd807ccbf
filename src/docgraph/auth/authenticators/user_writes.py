"""Interceptors for reads and writes of the users collection: hash, hide and revoke.

They apply to the REST API, commands and plugins. Passwords are checked and hashed in every form of
a write. A committed write is announced to all workers and revokes the tokens of affected users. No
read returns a password (the guard of the store rejects it for every kind of read; the interceptor
here is a second check). All of them belong to `dbRealmAuthenticator` and are inactive without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any, ClassVar, Final, cast

from docgraph.auth.authenticators.db_users import REALM, DatabaseRealm, find_value
from docgraph.auth.authenticators.password_paths import (
    NewPassword,
    Properties,
    affected_users,
    ends_sessions,
    find_passwords,
    put_passwords,
)
from docgraph.auth.mechanisms.sections import DigestAuthMechanism
from docgraph.auth.passwords import Hashed, build_ha1
from docgraph.auth.tokens.revocation import Revocations
from docgraph.config.section import PluginConfig
from docgraph.exchange import Deadline, Document, Exchange, Resource, Write, WriteKind, WriteResult
from docgraph.exchange.errors import RequestError
from docgraph.exchange.exchange import transaction_of
from docgraph.plugins.kinds import DataInterceptor
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Generations
from docgraph.runtime.after_commit import gather
from docgraph.store import Store
from docgraph.store.versions import Versions

_LOOK_MS: Final = 30_000
_MAX_AFFECTED: Final = 100_000

# The affected users are known only before the write; this variable passes them to the code after
# it, which runs in the same context; None: too many to name, so that it affects everyone.
_affected: ContextVar[tuple[str, ...] | None] = ContextVar("affected users", default=())


class _OnUsers(DataInterceptor):
    """An interceptor of the users collection."""

    security: ClassVar[bool] = True

    def __init__(self, config: PluginConfig, registry: PluginRegistry) -> None:
        self.config = config
        self._registry = registry
        self._realm: DatabaseRealm | None = None

    async def provision(self) -> None:
        """Find the realm; without it there are no users."""
        self._realm = cast("DatabaseRealm | None", self._registry.find(REALM))

    def resolve(self, resource: Resource) -> bool:
        """Return whether the resource is the users collection or one of its documents."""
        if self._realm is None:
            return False
        section = self._realm.config
        return resource.is_in(section.users_db, section.users_collection)

    @property
    def realm(self) -> DatabaseRealm:
        """The realm, when `resolve` was true."""
        assert self._realm is not None  # noqa: S101 - see `resolve`
        return self._realm

    @property
    def names(self) -> Properties:
        section = self.realm.config
        return Properties(section.prop_id, section.prop_password, section.prop_ha1)


class PasswordHasher(_OnUsers):
    """Checks and hashes passwords; runs last, so that it sees values that others have added."""

    name: ClassVar[str] = "userPasswordHasher"
    description: ClassVar[str] = "checks and hashes the passwords of users that are written"
    priority: ClassVar[int] = 1000

    def __init__(
        self, config: PluginConfig, registry: PluginRegistry, digest: DigestAuthMechanism
    ) -> None:
        super().__init__(config, registry)
        self._digest = digest

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        """Check all passwords before the first one is hashed."""
        names = self.names
        passwords = find_passwords(write, resource, names)
        several = len(write.documents) > 1
        for password in passwords:
            if self.realm.strength is not None and password.text is not None:
                place = f" in user document at index {password.index}" if several else ""
                words = [password.user] if password.user else []
                await self.realm.strength.check(password.text, words=words, place=place)
        # One by one: a write of many users must not block the lane for logins.
        # Each write has its own salts, and reuses them in a retry of its transaction.
        transaction = transaction_of(exchange)
        kept = {} if transaction is None else transaction.kept
        stored = [await self._prepare(password, kept, id(exchange)) for password in passwords]
        for document in write.documents:
            given = document.get(names.password)
            self.realm.passwords.record(given if isinstance(given, Hashed) else None)
        return put_passwords(write, passwords, stored, names)

    async def _prepare(self, password: NewPassword, kept: dict[Any, Any], origin: int) -> Document:
        """Return the properties that are stored in place of a password."""
        names = self.names
        stored: Document = {names.password: None}
        if password.text is not None:
            key = (self.name, origin, password.index, password.text)
            if key not in kept:
                kept[key] = await self.realm.passwords.prepare(password.text)
            stored[names.password] = kept[key]
        if names.ha1 is not None:
            stored[names.ha1] = self._build_ha1(password)
        return stored

    def _build_ha1(self, password: NewPassword) -> dict[str, str] | None:
        if password.text is None:
            return None
        if password.user is None:
            raise RequestError(
                "a password for Digest authentication can be set for one user at a time only",
                hint=f"select the user by {self.names.id}: the stored hash contains the user name",
            )
        return {
            algorithm: build_ha1(algorithm, password.user, self._digest.realm, password.text)
            for algorithm in self._digest.algorithms
        }


class AffectedUsers(_OnUsers):
    """Records the users whom a write affects, while they can still be found."""

    name: ClassVar[str] = "affectedUsers"
    description: ClassVar[str] = "finds the users whose tokens end with a write"
    priority: ClassVar[int] = 1001

    def __init__(
        self,
        config: PluginConfig,
        registry: PluginRegistry,
        store: Store,
        token_revocations: Revocations | None = None,
    ) -> None:
        super().__init__(config, registry)
        self._store = store
        self._wanted = token_revocations is not None

    async def before_write(
        self, exchange: Exchange | None, resource: Resource, write: Write
    ) -> Write:
        _affected.set(())
        if self._wanted and ends_sessions(write, self.names):
            _affected.set(await self._find_names(affected_users(write), exchange))
        return write

    async def _find_names(
        self, filter: Mapping[str, Any], exchange: Exchange | None
    ) -> tuple[str, ...] | None:
        section = self.realm.config
        documents = await self._store.reads.find(
            section.users_db,
            section.users_collection,
            filter,
            projection={section.prop_id: 1},
            limit=_MAX_AFFECTED + 1,
            deadline=Deadline.after_ms(_LOOK_MS),
            transaction=transaction_of(exchange),
        )
        if len(documents) > _MAX_AFFECTED:
            return None
        names = [find_value(document, section.prop_id) for document in documents]
        return tuple(name for name in names if isinstance(name, str))


class UserChangeNotifier(_OnUsers):
    """Announces a committed write to caches of users, and revokes tokens of old passwords."""

    name: ClassVar[str] = "userChangeTeller"
    description: ClassVar[str] = "makes written users known to all workers"
    hears_uncertain: ClassVar[bool] = True

    def __init__(
        self,
        config: PluginConfig,
        registry: PluginRegistry,
        store: Store,
        generations: Generations,
        token_revocations: Revocations | None = None,
    ) -> None:
        super().__init__(config, registry)
        self._store = store
        self._generations = generations
        self._revocations = token_revocations

    async def after_write(
        self, exchange: Exchange | None, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        self._generations.bump("users")
        users = _affected.get()
        _affected.set(())
        section = self.realm.config
        await Versions(self._store, section.users_db, section.users_collection).announce()
        if self._revocations is None:
            return result
        if write.kind is WriteKind.DROP or (users is None and _has_effect(result)):
            await self._revocations.stamp_everyone()
        elif users and _has_effect(result):
            await gather(self, users, self._revocations.stamp_many)
        return result


class PasswordStripper(_OnUsers):
    """Removes the secrets from documents that are read."""

    name: ClassVar[str] = "userPasswordStripper"
    description: ClassVar[str] = "takes passwords out of users that are read"
    takes_portions: ClassVar[bool] = True
    priority: ClassVar[int] = 1000

    async def after_read(
        self, exchange: Exchange | None, resource: Resource, documents: list[Document]
    ) -> list[Document]:
        """Return the documents without the password, and without HA1."""
        secret = self.names.secret
        return [
            {key: value for key, value in document.items() if key not in secret}
            for document in documents
        ]


def _has_effect(result: WriteResult) -> bool:
    changed = result.matched or result.modified or result.deleted or result.upserted
    return bool(changed) or result.uncertain
