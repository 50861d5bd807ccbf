"""docgraph in this process, on a real MongoDB: a test is *definition, query, expected JSON*.

`running` starts the whole application with some settings and a database of its own; a `Service`
talks to it in HTTP (without a socket) and stores definitions as they would be written.
Only `starting` knows how an application is made and reached. The other harnesses stand on it: rules
and callers (`access_harness`), REST (`rest_harness`), users (`realms`), several workers (`tokens`).
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import httpx2
from pymongo import MongoClient

from docgraph.codec import decode
from docgraph.config import ConfigSources
from docgraph.exchange import (
    Answer,
    Body,
    Deadline,
    Exchange,
    Resource,
    ResourceType,
    Write,
    WriteKind,
    WriteResult,
)
from docgraph.graphql.apps.apps import Apps
from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.engine_events import CommandFinished
from docgraph.observe.events import BackgroundFailed
from docgraph.plugins.kinds import Kind, Plugin
from docgraph.plugins.kinds import Service as PluginService
from docgraph.runtime import create_instance
from docgraph.server.app import Docgraph
from docgraph.server.builtin import BUILTIN
from docgraph.server.http.state import build_state
from docgraph.server.prepare import load_tree, prepare
from docgraph.server.settings import ServerSettings
from tests.connections import PathClient
from tests.databases import drop as drop_database
from tests.databases import find_memory, new_name
from tests.http.driver import is_away, settle

Document = dict[str, Any]
Mongo = MongoClient[Document]
T = TypeVar("T")
E = TypeVar("E", bound=Event)

MEDIA_TYPE = "application/graphql-response+json; charset=utf-8"
OPEN = {"fullAuthorizer": {"enabled": True, "authentication-required": False}}
# Else every password that is hashed, and every login of nobody, takes a quarter of a second.
CHEAP = {"dbRealmAuthenticator": {"bcrypt-complexity": 4}}
# Else a total is null where the machine is busy for half a second.
PATIENT_COUNTS = {"graphql": {"count-time-limit": 60_000}}


def identity(*roles: str, name: str = "ada") -> Document:
    """The section that makes every caller this account."""
    return {"identityAuthMechanism": {"enabled": True, "username": name, "roles": list(roles)}}


@dataclass
class Reply:
    """What came back, read the way a GraphQL client reads it."""

    response: httpx2.Response

    @property
    def status(self) -> int:
        return self.response.status_code

    @property
    def headers(self) -> httpx2.Headers:
        return self.response.headers

    @property
    def text(self) -> str:
        return self.response.text

    @cached_property
    def json(self) -> Any:
        return self.response.json()

    @property
    def data(self) -> Any:
        """The data of an answer without errors."""
        assert self.status == 200, (self.status, self.text)
        assert "errors" not in self.json, self.text
        return self.json["data"]

    @property
    def errors(self) -> list[Document]:
        errors: list[Document] = self.json["errors"]
        return errors

    @property
    def error(self) -> Document:
        """The one error of an answer."""
        assert len(self.errors) == 1, self.text
        return self.errors[0]

    @property
    def code(self) -> str:
        """The stable code of the one error."""
        code: str = self.error["extensions"]["code"]
        return code

    @property
    def messages(self) -> list[str]:
        return [error["message"] for error in self.errors]


async def work_there(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T]) -> T:
    """The result of work in that loop, be it this one or that of another thread."""
    if asyncio.get_running_loop() is loop:
        return await work
    return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, loop))


@dataclass
class Service:
    """A running application and its database."""

    app: Docgraph
    client: httpx2.AsyncClient
    mongo: Mongo
    db: str
    base: str = "/graphql"
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)

    async def there(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of work in the loop that the application lives in."""
        return await work_there(self.loop, work)

    # --- asking -----------------------------------------------------------------------------------

    async def request(self, method: str, path: str, **options: Any) -> Reply:
        return Reply(await self.there(self.client.request(method, path, **options)))

    async def query(
        self,
        app: str,
        query: str | None,
        variables: Any = None,
        *,
        operation: Any = None,
        parameters: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> Reply:
        """POST an operation to an app, as JSON."""
        body: Document = {"query": query}
        if variables is not None:
            body["variables"] = variables
        if operation is not None:
            body["operationName"] = operation
        return await self.request(
            "POST", f"{self.base}/{app}{parameters}", json=body, headers=headers
        )

    async def send(self, app: str, body: bytes | str, content_type: str | None) -> Reply:
        """POST these very bytes."""
        headers = {} if content_type is None else {"content-type": content_type}
        return await self.request("POST", f"{self.base}/{app}", content=body, headers=headers)

    # --- definitions ------------------------------------------------------------------------------

    @property
    def definitions(self) -> Any:
        """The definitions collection, behind the back of the server."""
        return self.mongo[self.db]["gql-apps"]

    @property
    def apps(self) -> Apps:
        """The provider `gql-app-definition-cache`."""
        apps: Apps = self.app.plugins.values["gql-app-definition-cache"]
        return apps

    def find(self, collection: str, find: Any = None, **others: Any) -> Document:
        """A field-to-query mapping on the database of this service."""
        mapping: Document = {"db": self.db, "collection": collection, **others}
        return mapping if find is None else {**mapping, "find": find}

    def stages(self, collection: str, *stages: Any, **others: Any) -> Document:
        """A field-to-aggregation mapping on the database of this service."""
        return {"db": self.db, "collection": collection, "stages": list(stages), **others}

    async def define(
        self, id: Any, schema: str, mappings: Document | None = None, **descriptor: Any
    ) -> WriteResult:
        """Write a definition through the interceptors, as REST and the command line do."""
        return await self.store(build_definition(id, schema, mappings, **descriptor))

    async def store(self, *documents: Document) -> WriteResult:
        return await self.write("gql-apps", Write(WriteKind.REPLACE, documents, upsert=True))

    async def remove(self, id: Any) -> None:
        await self.write("gql-apps", Write(WriteKind.DELETE, filter={"_id": id}))

    async def write(self, collection: str, write: Write, **options: Any) -> WriteResult:
        """A write that passes the interceptors, as those of REST and the command line do."""
        place = Resource(ResourceType.COLLECTION, self.db, collection)
        deadline = Deadline.after_ms(30_000)
        return await self.there(self.app.store.write(place, write, deadline=deadline, **options))

    async def smuggle(self, *documents: Document) -> None:
        """Put documents straight into the collection, and have them noticed."""
        for document in documents:
            self.definitions.replace_one({"_id": document["_id"]}, document, upsert=True)
        await self.there(self.apps.revalidate())

    def insert(self, collection: str, *documents: Document) -> None:
        self.mongo[self.db][collection].insert_many(documents)


def build_definition(
    id: Any, schema: str, mappings: Document | None = None, **descriptor: Any
) -> Document:
    """A definition document; without mappings, the first field of Query finds nothing."""
    if mappings is None:
        first = re.search(r"type Query[^{]*\{\s*(\w+)", schema)
        nothing = {"db": "nothing", "collection": "nothing", "find": {"_id": {"$in": []}}}
        mappings = {"Query": {first[1]: nothing} if first else {}}
    document: Document = {"_id": id, "schema": schema, "mappings": mappings}
    return {**document, "descriptor": descriptor} if descriptor else document


def flatten(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Sections as the arguments of `--set`."""
    return tuple(
        f"/{section}/{option}={json.dumps(value)}"
        for section, options in settings.items()
        for option, value in options.items()
    )


class WhoAmI(PluginService):
    """`GET /whoami`: the caller as the pipeline sees him."""

    name: ClassVar[str] = "whoami"
    uri: ClassVar[str] = "/whoami"
    methods: ClassVar[tuple[str, ...]] = ("GET", "POST")

    async def handle(self, exchange: Exchange) -> Answer:
        account = exchange.account
        told = account and {
            "name": account.name,
            "roles": account.roles,
            "kind": account.kind,
            "properties": account.properties,
        }
        return Body(200, json.dumps(told, default=str).encode(), "application/json")


@asynccontextmanager
async def running(
    mongo: Mongo,
    uri: str,
    *settings: Mapping[str, Any],
    db: str | None = None,
    drop: bool = True,
    directory: Path = Path("/nonexistent"),
    plugins: Sequence[type[Plugin]] = BUILTIN,
    ready: bool = True,
) -> AsyncIterator[Service]:
    """A started application, open to everybody unless the settings say otherwise.

    `ready`: its initializers are over.
    """
    db = db or new_name()
    merged = merge(
        OPEN,
        CHEAP,
        PATIENT_COUNTS,
        {"graphql": {"db": db}, "mclient": {"connection-string": uri, "min-pool-size": 0}},
        *settings,
    )
    base = merged["graphql"].get("uri", "/graphql")
    try:
        options: dict[str, Any] = {"directory": directory, "plugins": plugins, "ready": ready}
        async with starting(uri, merged, **options) as ((app, client),):
            yield Service(app, client, mongo, db, base)
    finally:
        if drop:
            drop_database(mongo, db)


@asynccontextmanager
async def starting(
    uri: str,
    settings: Mapping[str, Any],
    *,
    workers: int = 1,
    directory: Path = Path("/nonexistent"),
    plugins: Sequence[type[Plugin]] = BUILTIN,
    ready: bool = True,
) -> AsyncIterator[Sequence[tuple[Docgraph, httpx2.AsyncClient]]]:
    """The workers of one instance, as far as they can be had in one process, each with a client."""
    sources = ConfigSources(settings=flatten(settings), environ={}, directory=directory)
    # A server reads its files before there is a loop, and removes them when it is over.
    prepared = await asyncio.to_thread(lambda: prepare(load_tree(sources), (*plugins, WhoAmI)))
    instance = create_instance(find_memory())
    shared = await asyncio.to_thread(instance.__enter__)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, instance.__exit__, None, None, None)
        await stack.enter_async_context(_leaving_no_tasks())
        opened = []
        failed = stack.enter_context(listening(BackgroundFailed))
        for number in range(workers):
            app = Docgraph(prepared, shared.for_worker(number + 1) if workers > 1 else shared, uri)
            stack.push_async_callback(app.shutdown)
            await app.startup()
            stack.push_async_callback(settle, app.store.client)
            stack.push_async_callback(settle, app.store.stream_client)
            state = build_state(app, ServerSettings.from_sections(prepared.config.sections))
            opened.append((app, await stack.enter_async_context(PathClient(state))))
        for app, _ in opened if ready else ():
            await _initialize(app, failed)
        yield opened


async def _initialize(app: Docgraph, failed: Sequence[BackgroundFailed]) -> None:
    """Wait for the initializers, so that no test counts or cuts what they do.

    One that failed is not waited for, and none of them where the database is away.
    """
    names = {f"initialize {one.name}" for one in app.plugins.of_kind(Kind.INITIALIZER)}

    def is_over() -> bool:
        running = {name for name in names if app._tasks.is_running(name)}
        return running <= {event.task for event in failed} or is_away(app.store.client)

    await eventually(is_over)


_loops: set[asyncio.AbstractEventLoop] = set()  # that have an instance


@asynccontextmanager
async def _leaving_no_tasks() -> AsyncIterator[None]:
    """An instance takes its tasks along when it ends; of several, the first one is asked."""
    loop, before = asyncio.get_running_loop(), asyncio.all_tasks()
    is_first = loop not in _loops
    _loops.add(loop)
    try:
        yield
    finally:
        if is_first:
            _loops.discard(loop)
    if is_first:
        known = before | {asyncio.current_task()}
        left = [one for one in asyncio.all_tasks() - known if "TestRunner" not in repr(one)]
        assert not left, f"tasks that the application left behind: {left}"


def merge(*layers: Mapping[str, Any]) -> Document:
    """Sections over sections, option by option."""
    merged: Document = {}
    for layer in layers:
        for section, options in layer.items():
            merged[section] = {**merged.get(section, {}), **options}
    return merged


def read_json(path: Path) -> Any:
    """A file of extended JSON."""
    return decode(path.read_bytes())


@contextmanager
def listening_to_fields() -> Iterator[list[CommandFinished]]:
    """The commands of fields, as they end; others are sent in the background at any time."""
    seen: list[CommandFinished] = []

    def hear(event: Event) -> None:
        if isinstance(event, CommandFinished) and event.field:
            seen.append(event)

    subscribe(hear)
    try:
        yield seen
    finally:
        unsubscribe(hear)


@contextmanager
def listening(kind: type[E]) -> Iterator[list[E]]:
    """The events of a kind, as they are emitted."""
    seen: list[E] = []

    def hear(event: Event) -> None:
        if isinstance(event, kind):
            seen.append(event)

    subscribe(hear)
    try:
        yield seen
    finally:
        unsubscribe(hear)


async def eventually(check: Callable[[], T], seconds: float = 30.0) -> T:
    """The first true value of `check`; fails when there is none in time."""
    async with asyncio.timeout(seconds):
        while not (value := check()):  # noqa: ASYNC110 - what is awaited tells nobody
            await asyncio.sleep(0.01)
    return value


async def until(ask: Callable[[], Awaitable[T]], expected: T, seconds: float = 30.0) -> None:
    """Ask until the answer is the expected one; fails when it is not in time."""
    async with asyncio.timeout(seconds):
        while await ask() != expected:  # noqa: ASYNC110 - what is awaited tells nobody
            await asyncio.sleep(0.01)


def idle_cursors(mongo: Mongo, namespace: str) -> list[Any]:
    """The cursors on a collection that somebody left open."""
    stages: list[dict[str, Any]] = [
        {"$currentOp": {"idleCursors": True}},
        {"$match": {"type": "idleCursor", "ns": namespace}},
    ]
    return list(mongo.admin.aggregate(stages))


@contextmanager
def profiled(mongo: Mongo, db: str, collection: str) -> Iterator[list[Document]]:
    """What docgraph asks a server about a collection meanwhile."""
    seen: list[Document] = []
    begun = mongo.admin.command("hello")["localTime"]
    mongo[db].command({"profile": 2})
    try:
        yield seen
    finally:
        mongo[db].command({"profile": 0})
        own = {"ns": f"{db}.{collection}", "appName": "docgraph", "ts": {"$gte": begun}}
        seen += mongo[db]["system.profile"].find(own)


# HostUnreachable: as bad as a server that goes away (91), but the driver goes on using the server,
# and no test waits until its monitor looks again.
UNREACHABLE = 6


@contextmanager
def failing(mongo: Mongo, *commands: str, mode: Any = "alwaysOn", **data: Any) -> Iterator[None]:
    """A failpoint on these commands: `blockConnection`, `errorCode`, `closeConnection`."""
    point = {"failCommands": list(commands), "appName": "docgraph", **data}
    mongo.admin.command({"configureFailPoint": "failCommand", "mode": mode, "data": point})
    try:
        yield
    finally:
        mongo.admin.command({"configureFailPoint": "failCommand", "mode": "off"})


def operations(mongo: Mongo, db: str) -> list[Document]:
    """What the database does for queries of this test; keeping definitions up to date is none."""
    own = [f"{db}.gql-apps", f"{db}._versions", f"{db}._appHistory"]
    mine = {"ns": {"$regex": f"^{db}\\.", "$nin": own}, "active": True}
    return list(mongo.admin.aggregate([{"$currentOp": {}}, {"$match": mine}]))


def names_of(rows: Sequence[Mapping[str, Any]], key: str = "name") -> list[Any]:
    """One column of a list of objects."""
    return [row[key] for row in rows]
