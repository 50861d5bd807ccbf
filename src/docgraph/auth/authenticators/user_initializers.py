"""Initializers of the users: the first user (decision 35), and the costs of password hashes."""

from __future__ import annotations

import asyncio
import secrets
import sys
from collections.abc import Sequence
from functools import partial
from typing import ClassVar, Final, cast

from docgraph.auth.authenticators.db_users import REALM, DatabaseRealm, find_value, put_value
from docgraph.auth.authenticators.sections import MAX_COST
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
from docgraph.exchange.program import own_command, repeat_options
from docgraph.plugins.kinds import Initializer
from docgraph.plugins.registry import PluginRegistry
from docgraph.runtime import Blocking, Generations, Instance, Tasks, run_blocking
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
        """Read `create-user-document`."""
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


_WIDTH: Final = 58  # minimum width of the text in the frame


# The characters of a frame: lines along and down, and the corners above and below.
_LINES: Final = ("─", "│", "┌┐", "└┘")
_ASCII: Final = ("-", "|", "++", "++")


def is_terminal() -> bool:
    """Return whether stderr is a terminal."""
    return sys.stderr.isatty()


def print_password(user: str, password: str) -> None:
    """Print it in one write, so that no line of another process gets in between.

    On a terminal it is in a frame; otherwise in lines that a program can parse.
    """
    text = _render_frame(user, password) if is_terminal() else _render_lines(user, password)
    sys.stderr.write(text)
    sys.stderr.flush()


def _render_lines(user: str, password: str) -> str:
    return (
        "docgraph: there were no users, and now there is one\n"
        f"  user      {user}\n"
        f"  password  {password}\n"
        f"  this is shown only once; '{_render_command(user)}' sets another password\n"
    )


def _render_frame(user: str, password: str) -> str:
    lines = (
        "There were no users, and now there is one:",
        "",
        f"  user      {user}",
        f"  password  {password}",
        "",
        "This is shown only once. To set another password:",
        f"  {_render_command(user)}",
    )
    along, down, above, below = _LINES if _can_print("".join(_LINES)) else _ASCII
    width = max(_WIDTH, *map(len, lines))
    edge = along * (width + 4)
    inner = (f"{down}  {line:<{width}}  {down}" for line in lines)
    return "\n".join(("", edge.join(above), *inner, edge.join(below), "", ""))


def _render_command(user: str) -> str:
    return f"{own_command()} users passwd {user}{repeat_options(sys.argv[2:])}"


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stderr.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


_SCAN_MS: Final = 120_000
_COSTS: Final = 100  # two digits
_HASH: Final = r"^\$2[aby]\$"


class PasswordCosts(Initializer):
    """Finds the highest cost of a hash once; the realm records later reads and writes.

    A failed login takes as long as the most expensive hash (decision 53). Hashes above the maximum
    are ignored: they would make every failed login take that long.
    """

    name: ClassVar[str] = "passwordCostScanner"
    description: ClassVar[str] = "finds the most expensive password hash"
    security: ClassVar[bool] = True

    def __init__(
        self, config: PluginConfig, registry: PluginRegistry, store: Store, instance: Instance
    ) -> None:
        self.config = config
        self._registry = registry
        self._store = store
        # The result is shared: one worker of an instance suffices.
        self._is_needed = instance.worker <= 1
        self._realm: DatabaseRealm | None = None

    async def provision(self) -> None:
        """Find the realm; without it there are no hashes."""
        self._realm = cast("DatabaseRealm | None", self._registry.find(REALM))

    async def initialize(self) -> None:
        """Scan the users once."""
        realm = self._realm
        if realm is None or not self._is_needed or not realm.config.bcrypt_hashed_password:
            return
        password = f"${realm.config.prop_password}"
        is_text = {"$eq": [{"$type": password}, "string"]}  # an array of texts matches, too
        found = await self._store.reads.aggregate(
            realm.config.users_db,
            realm.config.users_collection,
            [
                {"$match": {realm.config.prop_password: {"$regex": _HASH}}},
                {"$match": {"$expr": is_text}},
                {"$group": {"_id": {"$substrCP": [password, 4, 2]}, "one": {"$first": password}}},
            ],
            limit=_COSTS,
            deadline=Deadline.after_ms(_SCAN_MS),
            reveal=realm.keys,
        )
        for group in found:
            realm.passwords.record(group["one"])


async def find_too_expensive(store: Store, realm: DatabaseRealm, limit: int) -> list[str]:
    """Return users whose hash is above the maximum, who cannot log in with a password."""
    section = realm.config
    if not section.bcrypt_hashed_password:
        return []
    above = "|".join(f"{cost:02}" for cost in range(MAX_COST + 1, _COSTS))
    found = await store.reads.find(
        section.users_db,
        section.users_collection,
        {section.prop_password: {"$regex": rf"{_HASH}({above})\$"}},
        projection={section.prop_id: 1},
        limit=limit,
        deadline=Deadline.after_ms(_SCAN_MS),
        reveal=realm.keys,
    )
    return [str(find_value(document, section.prop_id)) for document in found]
