"""Applications with users, tokens and cookies: one worker, several of them, two instances."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2

from docgraph.auth.mechanisms.jwt import JwtMechanism
from docgraph.auth.tokens.jwt import JwtTokens
from docgraph.auth.tokens.revocation_watch import RevocationsWatcher
from docgraph.exchange import Deadline, Resource, ResourceType, Write, WriteKind
from docgraph.plugins.kinds import Kind
from docgraph.server.app import Docgraph
from tests.http.harness import Document, Mongo, eventually, merge, starting, until
from tests.http.realms import COST, hashed

KEY = "a key of more than thirty-two bytes for tests"
RANDOM: Document = {"rndTokenManager": {"enabled": True}}
SIGNED: Document = {
    "rndTokenManager": {"enabled": False},
    "jwtTokenManager": {"enabled": True, "key": KEY},
}
JWT: Document = {"jwtAuthenticationMechanism": {"enabled": True, "key": KEY, "issuer": "docgraph"}}
COOKIES: Document = {
    "authCookieSetter": {"enabled": True, "secure": False},
    "authCookieHandler": {"enabled": True},
    "authCookieRemover": {"enabled": True},
}
OPTION_SETS = {1: merge(SIGNED, JWT, COOKIES), 2: merge(SIGNED, COOKIES), 3: merge(RANDOM, COOKIES)}
STRICT: Document = {
    "fullAuthorizer": {"enabled": True, "authentication-required": True},
    "bruteForceAttackGuard": {"enabled": False},
    "graphAppsInitializer": {"enabled": False},
    "graphAppsUpdater": {"enabled": False},
    "createIndexesOnGqlApps": {"enabled": False},
}
ADA = {"_id": "ada", "roles": ["user", "editor"], "team": "blue"}


@dataclass
class Worker:
    """One process of an instance, as far as that can be told from inside one."""

    app: Docgraph
    client: httpx2.AsyncClient
    db: str

    async def ask(
        self, path: str, *, method: str = "GET", login: str | None = None, **headers: str
    ) -> httpx2.Response:
        """A request; `login` is `user:password` or `user:token`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if login is not None:
            named["authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        self.client.cookies.clear()  # a test says itself which cookie is sent
        return await self.client.request(method, path, headers=named)

    async def token(self, user: str = "ada", password: str = "secret") -> str:
        """The token that a login by password gets."""
        reply = await self.ask("/whoami", login=f"{user}:{password}")
        assert reply.status_code == 200, reply.status_code
        return reply.headers["auth-token"]

    async def status(self, path: str = "/whoami", **options: Any) -> int:
        return (await self.ask(path, **options)).status_code

    async def write(self, kind: WriteKind, **parts: Any) -> None:
        """A write to the users, as REST and the command line make it."""
        await self.app.store.write(
            Resource(ResourceType.COLLECTION, self.db, "users"),
            Write(kind, **parts),
            deadline=Deadline.after_ms(30_000),
        )


@asynccontextmanager
async def open_workers(
    mongo: Mongo, uri: str, db: str, *settings: Mapping[str, Any], workers: int = 1
) -> AsyncIterator[Sequence[Worker]]:
    """An instance of that many workers, with `ada` among its users."""
    realm = {"users-db": db, "bcrypt-complexity": COST, "create-user": False}
    merged = merge(
        STRICT,
        {"graphql": {"db": db}, "mclient": {"connection-string": uri}},
        {"dbRealmAuthenticator": realm},
        *settings,
    )
    mongo[db]["users"].replace_one(
        {"_id": "ada"}, {**ADA, "password": hashed("secret")}, upsert=True
    )
    async with starting(uri, merged, workers=workers) as started:
        opened = [Worker(app, client, db) for app, client in started]
        await asyncio.gather(*(until_following(worker) for worker in opened))
        yield opened


async def until_following(worker: Worker) -> None:
    """Wait until the worker has begun its life, and hears of changes at once."""
    app = worker.app
    watcher = next(one for one in app.plugins.plugins if isinstance(one, RevocationsWatcher))
    names = [f"initialize {one.name}" for one in app.plugins.of_kind(Kind.INITIALIZER)]
    await eventually(
        lambda: watcher.follower.is_open and not any(app._tasks.is_running(name) for name in names)
    )


def set_clock(worker: Worker, clock: Callable[[], float]) -> None:
    """Let those who make and verify signed tokens in this worker live at that time."""
    plugins = worker.app.plugins.plugins
    manager = next(one for one in plugins if isinstance(one, JwtTokens))
    verifiers = [one._verifier for one in plugins if isinstance(one, JwtTokens | JwtMechanism)]
    for part in (manager, manager._issued, *verifiers):
        part._clock = clock


async def until_refused(worker: Worker, **credentials: str) -> None:
    """Wait until these credentials are not taken any more, of which only the stream can tell."""
    await worker.app._tasks.stop("token-revocations-round")
    await until(lambda: worker.status(**credentials), 401)


__all__ = [
    "ADA",
    "COOKIES",
    "JWT",
    "KEY",
    "OPTION_SETS",
    "RANDOM",
    "SIGNED",
    "Worker",
    "open_workers",
    "set_clock",
    "until_refused",
]
