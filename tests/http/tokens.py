"""Applications with users, tokens and cookies: one worker, several of them, two instances.

`open_workers` starts them for a test, `sharing_workers` for a module whose tests begin `anew`.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar
from uuid import uuid4

import httpx2

from docgraph.auth.mechanisms.jwt import JwtMechanism
from docgraph.auth.tokens.revocation_watch import RevocationsWatcher
from docgraph.auth.tokens.token_managers import JwtTokens
from docgraph.exchange import Deadline, Resource, ResourceType, Write, WriteKind
from docgraph.plugins.kinds import Kind
from docgraph.server.app import Docgraph
from tests.databases import drop, new_name
from tests.http.harness import Document, Mongo, eventually, merge, starting, until, work_there
from tests.http.hosts import hosted
from tests.http.realms import COST, hashed

T = TypeVar("T")
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
    users: Any  # their collection, behind the back of the server
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    async def there(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work in the loop that the application lives in."""
        return await work_there(self.loop, work)

    async def ask(
        self, path: str, *, method: str = "GET", login: str | None = None, **headers: str
    ) -> httpx2.Response:
        """A request; `login` is `user:password` or `user:token`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if login is not None:
            named["authorization"] = f"Basic {b64encode(login.encode()).decode()}"
        return await self.send(method, path, headers=named)

    async def send(self, method: str, path: str, **options: Any) -> httpx2.Response:
        """A request with just these headers and that body."""
        self.client.cookies.clear()  # a test says itself which cookie is sent
        return await self.there(self.client.request(method, path, **options))

    async def token(self, user: str = "ada", password: str = "secret") -> str:
        """The token that a login by password gets."""
        reply = await self.ask("/whoami", login=f"{user}:{password}")
        assert reply.status_code == 200, reply.status_code
        return reply.headers["auth-token"]

    async def status(self, path: str = "/whoami", **options: Any) -> int:
        return (await self.ask(path, **options)).status_code

    async def write(self, kind: WriteKind, **parts: Any) -> None:
        """A write to the users, as REST and the command line make it."""
        place = Resource(ResourceType.COLLECTION, self.db, "users")
        deadline = Deadline.after_ms(30_000)
        await self.there(self.app.store.write(place, Write(kind, **parts), deadline=deadline))


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
        opened = [Worker(app, client, db, mongo[db]["users"]) for app, client in started]
        await asyncio.gather(*(until_following(worker) for worker in opened))
        yield opened


@contextmanager
def sharing_workers(
    mongo: Mongo, uri: str, *settings: Mapping[str, Any], workers: int = 1, db: str = ""
) -> Iterator[Sequence[Worker]]:
    """The same for the tests of a module, in a loop and with a database of their own."""
    db = db or new_name()
    try:
        with hosted(open_workers(mongo, uri, db, *settings, workers=workers)) as opened:
            yield opened
    finally:
        drop(mongo, db)


async def anew(workers: Sequence[Worker]) -> Sequence[Worker]:
    """These workers with nobody but `ada` among the users, who has no token yet."""
    worker = workers[0]
    found = list(worker.users.find({}, {"password": 0, "_etag": 0}))
    reply = await worker.ask("/whoami", login="ada:secret")
    if found == [ADA] and reply.status_code == 200:
        place = reply.headers["auth-token-location"]
        assert await worker.status(place, method="DELETE", login="ada:secret") == 204
    else:
        await worker.write(WriteKind.DELETE, filter={}, many=True)
        await worker.write(WriteKind.INSERT, documents=({**ADA, "password": "secret"},))
    await _until_told(workers)
    return workers


async def _until_told(workers: Sequence[Worker]) -> None:
    """Wait until the change streams have told of all that was done to users.

    Of a user who was deleted, or changed and changed back by the test before, they tell some
    time later: the first token of the name would end at a worker that is told after it was made.
    """
    last = uuid4().hex
    workers[0].users.insert_one({"_id": last})
    workers[0].users.delete_one({"_id": last})
    revocations = [worker.app.plugins.values["token-revocations"] for worker in workers]
    await eventually(lambda: all(one._marks.find(last) for one in revocations))


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
    parts: list[Any] = [manager, manager._issued, *verifiers]
    for part in parts:
        part._clock = clock
    manager._issued._wall = clock  # signed tokens live by the time of day


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
    "anew",
    "open_workers",
    "set_clock",
    "sharing_workers",
    "until_refused",
]
