"""The entries of a batch are judged, changed and shown as requests that came alone."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import bcrypt
import pytest

from docgraph.auth.passwords import BcryptPasswords
from docgraph.exchange import Answer, Body, Exchange, Resource, Write, WriteKind, WriteResult
from docgraph.observe.engine_events import CommandFinished
from docgraph.observe.events import AccessDenied
from docgraph.plugins.kinds import DataInterceptor, Interceptor, Point
from docgraph.store import writes
from docgraph.store.transaction import commit
from tests.expect import present
from tests.http.access_harness import (
    ADA,
    ADMIN,
    BOB,
    NOBODY,
    allow,
    caller,
    forget_rules,
    guarded,
    restore,
)
from tests.http.batches import answers_of, entry, failed_entry
from tests.http.harness import Mongo, Reply, Service, build_definition, failing, listening
from tests.http.hosts import module_application

pytestmark = pytest.mark.anyio

LAST = 5
WRITING = {"allowWriteMode": True}
SCHEMA = "type Query { things: [Thing] } type Thing { _id: String }"


class Censor(Interceptor):
    """A plugin that forbids some requests by their path, and answers others itself."""

    name: ClassVar[str] = "censor"
    point: ClassVar[Point] = Point.AFTER_AUTH

    def resolve(self, exchange: Exchange) -> bool:
        return exchange.request.path.startswith("/things/censored-")

    async def handle(self, exchange: Exchange) -> Answer | None:
        if exchange.request.path.endswith("-kindly"):
            return Body(200, b'{"by": "censor"}', "application/json")
        return Body(451)


class Stamper(Interceptor):
    """A plugin that sees answers."""

    name: ClassVar[str] = "stamper"
    point: ClassVar[Point] = Point.RESPONSE

    def resolve(self, exchange: Exchange) -> bool:
        return exchange.request.path.startswith("/things")

    async def handle(self, exchange: Exchange) -> Answer | None:
        assert exchange.answer is not None
        exchange.answer.headers.append(("X-Stamp", exchange.request.method))
        return None


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri, plugins=(Censor, Stamper)) as one:
        for name in ("things", "users", "gql-apps", "other"):
            assert (await one.request("PUT", f"/{name}", headers=ADMIN)).status == 201
        yield one


@pytest.fixture
def service(server: Service) -> Service:
    forget_rules(server)
    for name in ("things", "users", "other"):
        restore(server, name)
    return server


async def send(service: Service, who: dict[str, str], *entries: Any, **headers: str) -> Reply:
    return await service.request("POST", "/_batch", json=list(entries), headers={**who, **headers})


def stored(service: Service, collection: str = "things") -> dict[Any, Any]:
    found = service.mongo[service.db][collection].find({}, {"_etag": 0})
    return {one.pop("_id"): one for one in found}


@contextmanager
def installed(service: Service, interceptor: DataInterceptor) -> Iterator[None]:
    """An interceptor beside those of the application, for a while."""
    interceptors = service.app.store.interceptors
    interceptors.install([interceptor])
    try:
        yield
    finally:
        interceptors._installed.remove(interceptor)
        interceptors.install([])


async def open_batch(service: Service) -> None:
    await allow(service, "path('/_batch') and method('POST')", "user")


# --- who may --------------------------------------------------------------------------------------


async def test_the_caller_needs_a_rule_for_the_batch_and_for_every_entry(service: Service) -> None:
    put = entry("PUT", "/things/a?wm=upsert", {"n": 1})
    await allow(service, "path-prefix('/things')", "user", mongo=WRITING)

    assert (await send(service, ADA, put)).status == 403
    assert (await send(service, NOBODY, put)).status == 401
    await open_batch(service)
    assert (await send(service, NOBODY, put)).status == 401
    answers_of(await send(service, ADA, put))
    with listening(AccessDenied) as denied:
        reply = await send(service, ADA, entry("DELETE", "/things/a"), entry("GET", "/other/a"))

    assert (reply.status, failed_entry(reply)) == (403, 1)
    assert reply.json["message"] == "entry 1 (GET /other/a): permission denied"
    assert denied
    assert stored(service) == {"a": {"n": 1}}


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/metrics"),
        ("GET", "/openapi.json"),
        ("POST", "/graphql/x"),
        ("POST", "/_tools/check"),
    ],
)
async def test_who_may_not_reach_a_service_is_told_what_he_is_told_of_documents(
    service: Service, method: str, path: str
) -> None:
    await open_batch(service)

    there = await send(service, ADA, entry(method, path))
    document = await send(service, ADA, entry(method, "/nothing/x"))

    assert there.status == document.status == 403
    assert there.text.replace(path, "/nothing/x") == document.text
    await allow(service, f"path-prefix('{path}')", "user")
    assert (await send(service, ADA, entry(method, path))).status == 400


async def test_nothing_is_written_before_every_entry_was_judged(service: Service) -> None:
    await open_batch(service)
    await allow(service, "path('/things') and method('POST')", "user")

    with listening(CommandFinished) as commands:
        reply = await send(
            service, ADA, entry("POST", "/things", {"_id": "a"}), entry("DELETE", "/things/a")
        )

    assert (reply.status, failed_entry(reply)) == (403, 1)
    assert not [one for one in commands if one.command == "insert"]


async def test_an_open_batch_still_asks_for_every_entry(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    unsecured = {"batch": {"secured": False}}
    async with guarded(mongo_client, mongo_uri, unsecured) as opened:
        assert (await opened.request("PUT", "/things", headers=ADMIN)).status == 201
        await allow(opened, "path-prefix('/things') and method('GET')", "$unauthenticated")
        opened.insert("things", {"_id": "a"})

        answers_of(await send(opened, NOBODY, entry("GET", "/things/a")))
        reply = await send(opened, NOBODY, entry("DELETE", "/things/a"))

        assert (reply.status, failed_entry(reply)) == (401, 0)
        assert reply.headers["www-authenticate"] == "Test"
        assert (await send(opened, ADMIN, entry("DELETE", "/things/a"))).status == 200


async def test_rules_see_method_path_and_body_of_the_entry(service: Service) -> None:
    await open_batch(service)
    await allow(
        service,
        "path-template('/things/{id}') and method('PUT') and equals(@user._id, ${id})"
        " and bson-request-whitelist(n)",
        "user",
        mongo=WRITING,
    )

    own = entry("PUT", "/things/ada?wm=upsert", {"n": 1})
    assert (await send(service, ADA, own)).status == 200
    for bad in (
        entry("PUT", "/things/bob?wm=upsert", {"n": 1}),
        entry("PUT", "/things/ada?wm=upsert", {"n": 1, "m": 2}),
        entry("PATCH", "/things/ada", {"n": 1}),
        entry("PUT", "/things/ada%2F..%2Fbob?wm=upsert", {"n": 1}),
        entry("PUT", "/things/ada/../bob?wm=upsert", {"n": 1}),
        entry("PUT", "/things/ada?wm=upsert&id_type=NULL", {"n": 1}),
    ):
        reply = await send(service, ADA, own, bad)
        assert (reply.status, failed_entry(reply)) == (403, 1), (bad, reply.text)
    assert stored(service) == {"ada": {"n": 1}}


async def test_filters_merged_values_and_projections_hold_in_entries(service: Service) -> None:
    await open_batch(service)
    mine = {"team": "@user.team"}
    await allow(
        service,
        "path-prefix('/things')",
        "user",
        mongo={
            **WRITING,
            "allowBulkPatch": True,
            "allowBulkDelete": True,
            "readFilter": mine,
            "writeFilter": mine,
            "mergeRequest": mine,
            "projectResponse": {"secret": 0},
        },
    )
    service.insert("things", {"_id": "blue", "team": "blue", "secret": 1})
    service.insert("things", {"_id": "red", "team": "red", "secret": 2})

    answers = answers_of(
        await send(
            service,
            ADA,
            entry("POST", "/things", {"_id": "new", "team": "red"}),
            entry("GET", "/things/new"),
            entry("GET", "/things/blue"),
            entry("PATCH", "/things/blue", {"n": 1}, prefer="return=representation"),
            entry("PATCH", '/things/*?filter={"_id":{"$exists":true}}', {"m": 1}),
        )
    )
    assert answers[1]["body"]["team"] == "blue"
    assert "secret" not in answers[2]["body"]
    assert answers[3]["body"]["n"] == 1
    assert "secret" not in answers[3]["body"]
    assert answers[4]["body"]["modified"] == 2
    for foreign in (
        entry("GET", "/things/red"),
        entry("PATCH", "/things/red", {"n": 1}),
        entry("DELETE", "/things/red"),
    ):
        reply = await send(service, ADA, entry("DELETE", "/things/new"), foreign)
        assert (reply.status, failed_entry(reply)) == (404, 1), reply.text
    hidden = entry("GET", '/things/blue?filter={"secret":1}')
    assert (await send(service, ADA, hidden)).status == 403
    assert stored(service)["red"] == {"team": "red", "secret": 2}
    assert "new" in stored(service)


async def test_rows_that_the_rule_of_the_batch_hides_are_hidden(service: Service) -> None:
    ours = {f"{service.db}.things": {"team": "blue"}}
    await allow(service, "path('/_batch')", "user", mongo={"readFilters": ours})
    await allow(service, "path-prefix('/things')", "user")
    service.insert("things", {"_id": "red", "team": "red"})

    alone = await service.request("GET", "/things/red", headers=ADA)

    assert alone.status == 200
    assert (await send(service, ADA, entry("GET", "/things/red"))).status == 404


async def test_the_caller_of_an_entry_is_that_of_the_batch(service: Service) -> None:
    """Also where a rule or a plugin believes a header."""
    await open_batch(service)
    await allow(service, "path-prefix('/things')", "user", mongo={"readFilter": {"o": "@user._id"}})
    service.insert("things", {"_id": "a", "o": "ada"})

    smuggled = {**entry("GET", "/things/a"), "headers": {"X-Caller": ADA["X-Caller"]}}
    assert (await send(service, BOB, smuggled)).status == 400
    assert (await send(service, BOB, entry("GET", "/things/a"))).status == 404
    assert (await send(service, ADA, entry("GET", "/things/a"))).status == 200


async def test_pages_of_others_cannot_send_entries_as_their_own(service: Service) -> None:
    """What vetoers know of the batch they know of its entries."""
    await open_batch(service)
    await allow(service, "path-prefix('/things')", "user", mongo=WRITING)
    seen: list[str | None] = []

    class Watching(DataInterceptor):
        name: ClassVar[str] = "watching"

        def resolve(self, resource: Resource) -> bool:
            return resource.collection == "things"

        async def before_write(
            self, exchange: Exchange | None, resource: Resource, write: Write
        ) -> Write:
            assert exchange is not None
            headers = exchange.request.headers
            seen.extend(headers.get(one) for one in ("origin", "cookie", "host", "if-match"))
            return write

    with installed(service, Watching(None)):
        put = entry("PUT", "/things/a?wm=upsert", {})
        await send(service, ADA, put, origin="http://page", cookie="a=b", **{"if-match": "x"})

    assert seen == ["http://page", None, "test", None]


# --- plugins --------------------------------------------------------------------------------------


async def test_plugins_see_every_entry_as_a_request(service: Service) -> None:
    reply = await send(
        service,
        ADMIN,
        entry("PUT", "/things/a?wm=upsert", {}),
        entry("GET", "/things/censored-kindly"),
    )
    answers = answers_of(reply)
    assert answers[0]["headers"]["X-Stamp"] == "PUT"
    assert answers[1]["body"] == {"by": "censor"}

    reply = await send(
        service,
        ADMIN,
        entry("PUT", "/things/b?wm=upsert", {}),
        entry("PUT", "/things/censored-a?wm=upsert", {}),
    )
    assert (reply.status, failed_entry(reply)) == (400, 1)
    assert list(stored(service)) == ["a"]


# --- users ----------------------------------------------------------------------------------------


async def test_passwords_are_hashed_and_never_shown(service: Service) -> None:
    answers = answers_of(
        await send(
            service,
            ADMIN,
            entry("POST", "/users", {"_id": "eve", "password": "first", "roles": ["user"]}),
            entry("PATCH", "/users/eve", {"password": "second"}),
            entry("GET", "/users/eve"),
        )
    )

    assert "password" not in answers[2]["body"]
    password = stored(service, "users")["eve"]["password"]
    assert bcrypt.checkpw(b"second", password.encode())


async def test_a_password_is_hashed_once_however_often_the_batch_is_tried(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    hashed: list[str] = []
    prepare = BcryptPasswords.prepare

    async def count(self: BcryptPasswords, text: str) -> Any:
        hashed.append(text)
        return await prepare(self, text)

    monkeypatch.setattr(BcryptPasswords, "prepare", count)
    failure = {"errorCode": 112, "errorLabels": ["TransientTransactionError"]}
    with failing(service.mongo, "commitTransaction", mode={"times": 2}, **failure):
        answers_of(
            await send(service, ADMIN, entry("POST", "/users", {"_id": "eve", "password": "long"}))
        )

    assert hashed == ["long"]


async def test_users_who_get_the_same_password_in_a_batch_share_no_hash(service: Service) -> None:
    """Equal hashes would tell whoever sees them that the passwords are equal."""
    for name in ("eve", "fay"):
        service.insert("users", {"_id": name, "team": name})

    entries = [
        entry("PATCH", f'/users/*?filter={{"team":"{name}"}}', {"password": "long"})
        for name in ("eve", "fay")
    ]
    answers_of(await send(service, ADMIN, *entries))

    first, second = (one["password"] for one in stored(service, "users").values())
    assert first != second
    assert all(bcrypt.checkpw(b"long", one.encode()) for one in (first, second))


async def test_nobody_gives_roles_away_in_a_batch(service: Service) -> None:
    await open_batch(service)
    await allow(service, "path-prefix('/users')", "user", mongo=WRITING)
    service.insert("users", {"_id": "root", "roles": ["admin"]})
    service.insert("users", {"_id": "ada", "roles": ["user"]})

    for gift in (
        entry("PUT", "/users/eve?wm=upsert", {"roles": ["admin"]}),
        entry("PATCH", "/users/ada", {"roles": ["boss"]}),
        entry("PATCH", "/users/root", {"password": "mine"}),
    ):
        reply = await send(service, ADA, entry("PUT", "/users/x?wm=upsert", {"roles": []}), gift)
        assert failed_entry(reply) == 1, reply.text
    assert sorted(stored(service, "users")) == ["ada", "root"]


# --- rules and apps -------------------------------------------------------------------------------


async def test_rules_are_in_force_when_the_batch_is_committed_and_only_then(
    service: Service,
) -> None:
    rule = {"predicate": "path-prefix('/things')", "roles": ["user"]}
    service.insert("things", {"_id": "a"})

    async def status() -> int:
        return (await service.request("GET", "/things/a", headers=ADA)).status

    reply = await send(
        service,
        ADMIN,
        entry("PUT", "/acl/open?wm=upsert", rule),
        entry("PUT", "/acl/wrong?wm=upsert", {"predicate": "nonsense(", "roles": []}),
    )
    assert (reply.status, failed_entry(reply)) == (400, 1)
    assert await status() == 403
    before = present(service.mongo[service.db]["_versions"].find_one({"_id": "acl"}))["version"]
    answers_of(
        await send(
            service,
            ADMIN,
            entry("PUT", "/acl/open?wm=upsert", rule),
            entry("PUT", "/acl/open", {**rule, "priority": 7}),
            entry("PATCH", "/acl/open", {"priority": 8}),
        )
    )
    assert await status() == 200
    after = present(service.mongo[service.db]["_versions"].find_one({"_id": "acl"}))["version"]
    assert after == before + 1  # once for all of them


async def test_apps_are_live_when_the_batch_is_committed(service: Service) -> None:
    mapped = {"db": service.db, "collection": "things", "find": {}}
    app = build_definition("batched", SCHEMA, {"Query": {"things": mapped}})
    broken = {**app, "_id": "broken", "schema": "nonsense"}
    other = {**app, "_id": "other", "descriptor": {"uri": "batched"}}

    reply = await send(
        service,
        ADMIN,
        entry("PUT", "/gql-apps/batched?wm=upsert", app),
        entry("PUT", "/gql-apps/broken?wm=upsert", broken),
    )
    assert (reply.status, failed_entry(reply)) == (400, 1), reply.text
    assert (await service.query("batched", "{things{_id}}", headers=ADMIN)).status == 404
    reply = await send(
        service,
        ADMIN,
        entry("PUT", "/gql-apps/batched?wm=upsert", app),
        entry("PUT", "/gql-apps/other?wm=upsert", other),
    )
    assert (reply.status, failed_entry(reply)) == (409, 1), reply.text
    answers_of(await send(service, ADMIN, entry("PUT", "/gql-apps/batched?wm=upsert", app)))
    assert (await service.query("batched", "{things{_id}}", headers=ADMIN)).data == {"things": []}
    answers_of(await send(service, ADMIN, entry("DELETE", "/gql-apps/batched")))
    assert (await service.query("batched", "{things{_id}}", headers=ADMIN)).status == 404


async def test_an_app_of_an_author_shows_no_more_in_a_batch(service: Service) -> None:
    author = caller("mia", "manager")
    for predicate in ("path('/_batch')", "path-prefix('/gql-apps')"):
        await allow(
            service, predicate, "manager", mongo={**WRITING, "allowManagementRequests": True}
        )
    mapped = {"db": service.db, "collection": "things", "find": {}}
    app = build_definition("sly", SCHEMA, {"Query": {"things": mapped}})

    reply = await send(service, author, entry("PUT", "/gql-apps/sly?wm=upsert", app))

    assert (reply.status, reply.json["code"]) == (403, "security-violation")


# --- what follows ---------------------------------------------------------------------------------


class Following(DataInterceptor):
    """Notes the writes that it hears of."""

    name: ClassVar[str] = "following"
    priority: ClassVar[int] = -1000

    def __init__(self, service: Service) -> None:
        self._things = service.mongo[service.db]["things"]
        self.heard: list[tuple[str, int]] = []
        self.reached, self.open = asyncio.Event(), asyncio.Event()
        self.open.set()

    def resolve(self, resource: Resource) -> bool:
        return resource.collection == "things"

    async def after_write(
        self, exchange: Exchange | None, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        assert exchange is not None
        assert exchange.transaction is None
        self.reached.set()
        await self.open.wait()
        stored = await asyncio.to_thread(self._things.count_documents, {})
        self.heard.append((write.kind, stored))
        return result


@pytest.fixture
async def following(service: Service) -> AsyncIterator[Following]:
    async def build() -> Following:
        return Following(service)

    one = await service.there(build())
    with installed(service, one):
        yield one


async def test_what_follows_writes_follows_the_commit(
    service: Service, following: Following
) -> None:
    entries = [
        entry("POST", "/things", {"_id": "a"}),
        entry("POST", "/things", {"_id": "b"}),
        entry("DELETE", "/things/a"),
    ]
    assert (await send(service, ADMIN, *entries, entry("GET", "/things/none"))).status == 404
    assert following.heard == []
    answers_of(await send(service, ADMIN, *entries))

    assert following.heard == [(WriteKind.INSERT, 1), (WriteKind.INSERT, 1), (WriteKind.DELETE, 1)]


async def test_a_client_that_goes_away_after_the_commit_cuts_nothing_off(
    service: Service, following: Following
) -> None:
    async def leave() -> None:
        following.open.clear()
        entries = [entry("POST", "/things", {"_id": number}) for number in range(3)]
        options: dict[str, Any] = {"json": entries, "headers": ADMIN}
        client = asyncio.create_task(service.client.post("/_batch", **options))
        async with asyncio.timeout(60):
            await following.reached.wait()
        client.cancel()
        with pytest.raises(asyncio.CancelledError):
            await client
        following.open.set()
        await service.app.store.drain()

    await service.there(leave())

    assert len(following.heard) == 3
    assert sorted(stored(service)) == [0, 1, 2]


async def test_a_client_that_goes_away_during_the_commit_cuts_nothing_off(
    service: Service, following: Following, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = asyncio.Event()

    async def begin(*arguments: Any) -> None:
        begun.set()
        await commit(*arguments)

    async def leave() -> None:
        entries = [entry("POST", "/things", {"_id": number}) for number in range(3)]
        options: dict[str, Any] = {"json": entries, "headers": ADMIN}
        client = asyncio.create_task(service.client.post("/_batch", **options))
        async with asyncio.timeout(60):
            await begun.wait()
        client.cancel()
        with pytest.raises(asyncio.CancelledError):
            await client
        await service.app.store.drain()

    monkeypatch.setattr(writes, "commit", begin)
    slow = {"blockConnection": True, "blockTimeMS": 300}
    with failing(service.mongo, "commitTransaction", **slow):
        await service.there(leave())

    assert len(following.heard) == 3
    assert sorted(stored(service)) == [0, 1, 2]


async def test_a_client_that_goes_away_before_the_commit_leaves_nothing(
    service: Service,
) -> None:
    begun = asyncio.Event()

    class Beginning(DataInterceptor):
        name: ClassVar[str] = "beginning"

        def resolve(self, resource: Resource) -> bool:
            return resource.collection == "things"

        async def before_write(
            self, exchange: Exchange | None, resource: Resource, write: Write
        ) -> Write:
            if write.documents[0]["_id"] == LAST:
                begun.set()
                await asyncio.Event().wait()
            return write

    async def leave() -> None:
        entries = [entry("POST", "/things", {"_id": number}) for number in range(LAST + 1)]
        options: dict[str, Any] = {"json": entries, "headers": ADMIN}
        client = asyncio.create_task(service.client.post("/_batch", **options))
        async with asyncio.timeout(60):
            await begun.wait()
        client.cancel()
        with pytest.raises(asyncio.CancelledError):
            await client
        await service.app.store.drain()

    with installed(service, Beginning(None)):
        await service.there(leave())

    assert stored(service) == {}
    answers_of(await send(service, ADMIN, entry("POST", "/things", {"_id": 0})))
