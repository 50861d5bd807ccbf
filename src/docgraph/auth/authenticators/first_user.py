"""The first user, created at start (decision 35)."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final, cast

from docgraph.auth.authenticators.db_users import REALM, DatabaseRealm, find_value, put_value
from docgraph.auth.authenticators.first_password import is_terminal, print_password
from docgraph.auth.passwords import Hashed
from docgraph.codec import decode
from docgraph.config.section import PluginConfig
from docgraph.config.sources import CONFIGURATION
from docgraph.exchange import (
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
from docgraph.exchange.errors import Conflict, RequestError
from docgraph.plugins.kinds import Initializer
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Blocking, Generations, Tasks, run_blocking
from docgraph.store import Store

ADMIN: Final = "admin"
_PASSWORD_BYTES: Final = 18
_WRITE_MS: Final = 30_000
_POLL_SECONDS: Final = 0.05  # between two checks whether the server is ready
_QUIET_SECONDS: Final = 0.3  # in which the last lines of the start are written


class FirstUser(Initializer):
    """Makes a login possible while there are no users, when the database first responds.

    When the collection is missing or empty, the user of `create-user-document` is stored, or else
    an `admin` with a random password, printed once on stderr and nowhere else. Workers and
    instances may race: the fixed `_id` lets one of them win, and only the winner prints a password.
    On a terminal it is printed after the server has reported that it is ready, so that other lines
    do not hide it.
    """

    name: ClassVar[str] = "firstUserInitializer"
    description: ClassVar[str] = "stores the first user when there is none"
    security: ClassVar[bool] = True

    def __init__(
        self,
        config: PluginConfig,
        registry: PluginRegistry,
        store: Store,
        blocking: Blocking,
        generations: Generations,
        tasks: Tasks,
    ) -> None:
        self.config = config
        self._registry = registry
        self._store = store
        self._lane = blocking.lane("terminal", 1)
        self._generations = generations
        self._tasks = tasks
        self._unprinted: str | None = None  # a password that is not printed yet
        self._realm: DatabaseRealm | None = None
        self._configured: Document | None = None

    async def provision(self) -> None:
        realm = cast("DatabaseRealm | None", self._registry.find(REALM))
        if realm is None or not realm.config.create_user:
            return
        self._realm = realm
        if realm.config.create_user_document is not None:
            self._configured = _read_document(realm, realm.config.create_user_document)

    async def initialize(self) -> None:
        """Create the user, once per process; does nothing when there is a user already."""
        if self._realm is None or not await self._is_empty(self._realm):
            return
        if self._configured is not None:
            await self._insert(self._realm, self._configured)
            return
        # A password that is stored is also printed, even if the server is stopped in between.
        await self._store.writes.finish("first user", partial(self._make_admin, self._realm))

    async def _make_admin(self, realm: DatabaseRealm) -> None:
        password = secrets.token_urlsafe(_PASSWORD_BYTES)
        roles = [ADMIN] if realm.reader.roles.place is not None else []
        user = {"_id": ADMIN, **build_user(realm, ADMIN, password, roles)}
        if not await self._insert(realm, user):
            return
        self._unprinted = password
        if is_terminal():
            self._tasks.start("first user", self._print_when_ready)
        else:
            await self._print()

    async def close(self) -> None:
        """Print a password that is still waiting."""
        await self._print()

    async def _print_when_ready(self) -> None:
        while not self._generations.read("ready"):  # noqa: ASYNC110 - another process reports it
            await asyncio.sleep(_POLL_SECONDS)
        await asyncio.sleep(_QUIET_SECONDS)
        await self._print()

    async def _print(self) -> None:
        password, self._unprinted = self._unprinted, None
        if password is not None:
            await run_blocking(self._lane, print_password, ADMIN, password)

    async def _is_empty(self, realm: DatabaseRealm) -> bool:
        section = realm.config
        deadline = Deadline.after_ms(_WRITE_MS)
        count = await self._store.reads.count(
            section.users_db, section.users_collection, {}, limit=1, deadline=deadline
        )
        return count == 0

    async def _insert(self, realm: DatabaseRealm, user: Document) -> bool:
        """Return whether this process has stored it."""
        section = realm.config
        resource = Resource(ResourceType.COLLECTION, section.users_db, section.users_collection)
        write = Write(WriteKind.INSERT, documents=(user,))
        try:
            await self._store.writes.write(
                resource, write, deadline=Deadline.after_ms(_WRITE_MS), majority=True
            )
        except Conflict:
            return False
        return True


def build_user(realm: DatabaseRealm, name: str, password: str, roles: Sequence[str]) -> Document:
    """Build a user document as the section of the realm configures it."""
    section = realm.config
    user: Document = {}
    put_value(user, section.prop_id, name)
    user[section.prop_password] = password
    place = realm.reader.roles.place
    if place is not None:
        put_value(user, place, list(roles))
    elif roles:
        raise RequestError(
            f"roles cannot be written to the path {section.json_path_roles}",
            hint="write the user document itself",
        )
    return user


def _read_document(realm: DatabaseRealm, text: str) -> Document:
    """Return the configured user, whose hash is accepted and whose `_id` is fixed."""
    section = realm.config
    try:
        document = decode(text)
    except DocgraphError as error:
        raise _mistake(error.message) from None
    if not isinstance(document, dict):
        raise _mistake("not the JSON text of an object")
    name = find_value(document, section.prop_id)
    if not isinstance(name, str) or not name:
        raise _mistake(f"the user has no text '{section.prop_id}'")
    document.setdefault("_id", name)
    if section.bcrypt_hashed_password:
        document[section.prop_password] = Hashed(document[section.prop_password])
    return document


def _mistake(message: str) -> ConfigError:
    return ConfigError([Problem(CONFIGURATION, f"/{REALM}/create-user-document", message)])
