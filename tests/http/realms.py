"""An application whose users are in a database of the test."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import bcrypt

from docgraph.auth.authenticators.db_users import DatabaseRealm
from docgraph.exchange import Resource, ResourceType, Write, WriteKind, WriteResult
from docgraph.plugins.kinds import Plugin
from docgraph.server.builtin import BUILTIN
from tests.http.harness import Document, Mongo, Reply, running, until
from tests.http.harness import Service as Application

COST = 4


@dataclass
class Realm:
    """The application with its users."""

    service: Application

    @property
    def db(self) -> str:
        return self.service.db

    @property
    def users(self) -> Any:
        """The users collection, behind the back of the server."""
        return self.service.mongo[self.db]["users"]

    @property
    def plugin(self) -> DatabaseRealm:
        return next(
            one for one in self.service.app.plugins.plugins if isinstance(one, DatabaseRealm)
        )

    def place(self, id: Any = None) -> Resource:
        kind = ResourceType.COLLECTION if id is None else ResourceType.DOCUMENT
        return Resource(kind, self.db, "users", id)

    async def write(self, kind: WriteKind, *documents: Document, **options: Any) -> WriteResult:
        """A write as REST and the command line make it."""
        return await self.service.write("users", Write(kind, documents, **options))

    async def insert(self, *documents: Document) -> WriteResult:
        return await self.write(WriteKind.INSERT, *documents)

    async def update(self, id: str, **operators: Document) -> WriteResult:
        update = {f"${name}": fields for name, fields in operators.items()}
        return await self.write(WriteKind.UPDATE, update=update, filter={"_id": id})

    async def get(self, user: str, password: str, path: str = "/whoami", **headers: str) -> Reply:
        credentials = render_basic(user, password)
        return await self.service.request(
            "GET", path, headers={"authorization": credentials, **headers}
        )

    async def login(self, user: str, password: str) -> int:
        return (await self.get(user, password)).status

    async def until(self, user: str, password: str, status: int) -> None:
        """Try to log in until the answer is that one."""
        await until(lambda: self.login(user, password), status)


def render_basic(user: str, password: str) -> str:
    """The header of a Basic login."""
    return f"Basic {b64encode(f'{user}:{password}'.encode()).decode()}"


def hashed(password: str, cost: int = COST) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost)).decode()


@asynccontextmanager
async def open_realm(
    mongo: Mongo,
    uri: str,
    db: str,
    *settings: Mapping[str, Any],
    plugins: Sequence[type[Plugin]] = BUILTIN,
    ready: bool = True,
    **options: Any,
) -> AsyncIterator[Realm]:
    """A started application with its users in that database and with cheap hashes."""
    section = {"users-db": db, "bcrypt-complexity": COST, "create-user": False, **options}
    strict = {"fullAuthorizer": {"enabled": True, "authentication-required": True}}
    # Closed in the middle of filling its pool, the driver would leave a socket behind.
    calm = {"mclient": {"min-pool-size": 0}}
    layers: tuple[Mapping[str, Any], ...] = (
        strict,
        calm,
        {"dbRealmAuthenticator": section},
        *settings,
    )
    starting = running(mongo, uri, *layers, db=db, drop=False, plugins=plugins, ready=ready)
    async with starting as service:
        yield Realm(service)
