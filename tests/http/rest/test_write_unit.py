"""A committed write and what has to follow it are one: no client that goes away cuts it in half.

The server is told that there are no change streams, as on a standalone: what ends tokens, and what
other workers hear of, comes from the interceptors behind the write alone.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from docgraph.auth.tokens.revocation import COLLECTION as REVOCATIONS
from docgraph.auth.tokens.token_managers import JwtTokens, RandomTokens
from docgraph.exchange import Resource, Write, WriteResult
from docgraph.exchange.errors import Conflict
from docgraph.observe.events import UnattendedFailed
from docgraph.plugins.kinds import DataInterceptor
from docgraph.runtime import Generations
from tests.http.harness import Mongo, Service, failing, listening, running
from tests.http.realms import COST, hashed, render_basic
from tests.http.tokens import COOKIES, RANDOM, SIGNED

pytestmark = pytest.mark.anyio

NO_STREAMS = 40573  # the code of a standalone server
MANAGERS = {"random": RANDOM, "signed": SIGNED}
STRICT = {"fullAuthorizer": {"enabled": True, "authentication-required": True}}
CALM = {"bruteForceAttackGuard": {"enabled": False}}
ADA = {"authorization": render_basic("ada", "secret")}
ROOT = {"authorization": render_basic("root", "secret")}


class Gate(DataInterceptor):
    """Stands between a committed write and everybody else who hears of it."""

    name: ClassVar[str] = "gate"
    priority: ClassVar[int] = -1000

    def __init__(self, db: str, collection: str, error: Exception | None = None) -> None:
        self._place = (db, collection)
        self._error = error
        self.reached, self.open = asyncio.Event(), asyncio.Event()

    def resolve(self, resource: Resource) -> bool:
        return resource.is_in(*self._place) and not self.reached.is_set()

    async def after_write(
        self, exchange: Any, resource: Resource, write: Write, result: WriteResult
    ) -> WriteResult:
        self.reached.set()
        await self.open.wait()
        if self._error is not None:
            raise self._error
        return result


@pytest.fixture
def standalone(mongo_client: Mongo) -> Iterator[None]:
    """Every stream is refused; nothing here aggregates for another reason."""
    with failing(mongo_client, "aggregate", errorCode=NO_STREAMS):
        yield


@asynccontextmanager
async def serving_users(
    mongo: Mongo, uri: str, db: str, *settings: dict[str, Any]
) -> AsyncIterator[Service]:
    mongo[db]["users"].insert_many(
        [
            {"_id": "ada", "password": hashed("secret"), "roles": ["user"]},
            {"_id": "root", "password": hashed("secret"), "roles": ["admin"]},
        ]
    )
    mongo[db].create_collection("things")
    realm = {"users-db": db, "bcrypt-complexity": COST, "create-user": False}
    own = {
        "dbRealmAuthenticator": realm,
        "dbAclAuthorizer": {"acl-db": db},
        "mongo": {"mongo-mounts": [{"what": f"/{db}", "where": "/"}]},
    }
    async with running(mongo, uri, STRICT, CALM, own, *settings, db=db) as service:
        await service.app.store.available()
        yield service


@pytest.fixture
async def service(
    request: pytest.FixtureRequest,
    mongo_client: Mongo,
    mongo_uri: str,
    database: str,
    standalone: None,
) -> AsyncIterator[Service]:
    """With random tokens, unless the test asks for others."""
    manager = MANAGERS[getattr(request, "param", "random")]
    async with serving_users(mongo_client, mongo_uri, database, manager, COOKIES) as opened:
        yield opened


async def token_of(service: Service, login: dict[str, str]) -> dict[str, str]:
    """The header of the caller's token, which is good."""
    reply = await service.request("GET", "/things", headers=login)
    assert reply.status == 200, reply.text
    user = "ada" if login is ADA else "root"
    header = {"authorization": render_basic(user, reply.headers["auth-token"])}
    assert (await service.request("GET", "/things", headers=header)).status == 200
    return header


async def leave_after_commit(
    service: Service, gate: Gate, method: str, path: str, **options: Any
) -> None:
    """Send the request, and go away when the write is stored and nobody has heard of it yet."""
    service.app.store.interceptors.install([gate])
    client = asyncio.create_task(service.request(method, path, **options))
    async with asyncio.timeout(60):
        await gate.reached.wait()
    client.cancel()
    with pytest.raises(asyncio.CancelledError):
        await client


FILTER = {"filter": '{"_id": "ada"}'}
WRITES = [
    pytest.param("PATCH", "/users/ada", {"password": "other"}, {}, id="PATCH password"),
    pytest.param("DELETE", "/users/ada", None, {}, id="DELETE user"),
    pytest.param("PUT", "/users/ada", {"password": "other"}, {"wm": "upsert"}, id="PUT user"),
    pytest.param("PATCH", "/users/*", {"password": "other"}, FILTER, id="bulk PATCH"),
    pytest.param("DELETE", "/users/*", None, FILTER, id="bulk DELETE"),
    pytest.param("DELETE", "/users", None, {}, id="drop of the users"),
]


@pytest.mark.parametrize("service", list(MANAGERS), indirect=True)
@pytest.mark.parametrize(("method", "path", "body", "parameters"), WRITES)
async def test_tokens_end_with_a_write_whose_client_went_away_after_the_commit(
    service: Service, method: str, path: str, body: Any, parameters: dict[str, str]
) -> None:
    """Decision 32."""
    token = await token_of(service, ADA)
    gate = Gate(service.db, "users")
    await leave_after_commit(
        service, gate, method, path, json=body, params=parameters, headers=ROOT
    )
    gate.open.set()
    await service.app.store.drain()

    assert (await service.request("GET", "/things", headers=token)).status == 401


@pytest.mark.parametrize("manager", MANAGERS.values(), ids=MANAGERS)
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_tokens_end_after_the_client_has_left_where_the_user_id_is_another_property(
    mongo_client: Mongo,
    mongo_uri: str,
    database: str,
    standalone: None,
    manager: dict[str, Any],
    method: str,
) -> None:
    by_mail = {"dbRealmAuthenticator": {"prop-id": "mail"}}
    async with serving_users(mongo_client, mongo_uri, database, manager, by_mail) as service:
        users = mongo_client[database]["users"]
        for id, name in (("u1", "ada"), ("u2", "root")):
            users.delete_one({"_id": name})
            users.insert_one({"_id": id, "mail": name, "password": hashed("secret"), "roles": []})
        token = await token_of(service, ADA)
        gate = Gate(service.db, "users")
        body = {"password": "other"} if method == "PATCH" else None
        await leave_after_commit(service, gate, method, "/users/u1", json=body, headers=ROOT)
        gate.open.set()
        await service.app.store.drain()

        assert (await service.request("GET", "/things", headers=token)).status == 401


async def test_shutdown_waits_for_what_follows_a_write(
    mongo_client: Mongo, mongo_uri: str, database: str, standalone: None
) -> None:
    with listening(UnattendedFailed) as failures:
        async with serving_users(mongo_client, mongo_uri, database, RANDOM) as service:
            gate = Gate(service.db, "users")
            await leave_after_commit(service, gate, "DELETE", "/users/ada", headers=ROOT)
            asyncio.get_running_loop().call_soon(gate.open.set)
            await service.app.shutdown()
            stamp = mongo_client[database][REVOCATIONS].find_one({"_id": "user:ada"})

    assert stamp is not None
    assert failures == []


async def test_an_interceptor_that_fails_keeps_no_other_from_hearing_of_the_write(
    service: Service,
) -> None:
    token = await token_of(service, ADA)
    gate = Gate(service.db, "users", Conflict("not after this"))
    gate.open.set()
    service.app.store.interceptors.install([gate])

    reply = await service.request("DELETE", "/users/ada", headers=ROOT)

    assert reply.status == 409
    assert (await service.request("GET", "/things", headers=token)).status == 401


@pytest.mark.own_protocol("an ASGI server reports a disconnect when it is asked: a sweep later")
async def test_what_fails_after_the_client_has_gone_is_told_to_the_log(service: Service) -> None:
    gate = Gate(service.db, "things", Conflict("not after this"))
    with listening(UnattendedFailed) as failures:
        await leave_after_commit(service, gate, "POST", "/things", json={"a": 1}, headers=ROOT)
        gate.open.set()
        await service.app.store.drain()

    assert [str(one.error) for one in failures] == ["not after this"]


@pytest.mark.parametrize(
    "failure",
    [
        pytest.param(
            {"writeConcernError": {"code": 64, "errmsg": "waiting for replication timed out"}},
            id="not confirmed in time",
        ),
        pytest.param({"closeConnection": True}, id="connection lost"),
    ],
)
async def test_tokens_end_with_a_write_whose_outcome_is_not_known(
    mongo_client: Mongo, mongo_uri: str, database: str, failure: dict[str, Any]
) -> None:
    """The password may be another one by now; the caller is told that nobody can say."""
    once = f"{mongo_uri}&retryWrites=false"
    async with serving_users(mongo_client, once, database, RANDOM) as service:
        token = await token_of(service, ADA)
        place = f"{database}.users"
        with failing(mongo_client, "update", mode={"times": 1}, namespace=place, **failure):
            reply = await service.request(
                "PATCH", "/users/ada", json={"password": "other"}, headers=ROOT
            )

        assert reply.status >= 400
        assert (await service.request("GET", "/things", headers=token)).status == 401


async def test_a_write_that_is_refused_ends_no_tokens(service: Service) -> None:
    token = await token_of(service, ADA)
    body = {"$set": {"password": "other"}, "$inc": {"roles": 1}}  # roles are no number

    reply = await service.request("PATCH", "/users/ada", json=body, headers=ROOT)

    assert reply.status in (400, 500), reply.text
    assert (await service.request("GET", "/things", headers=token)).status == 200


@pytest.mark.parametrize(
    ("method", "path", "body", "collection", "generation"),
    [
        ("PUT", "/gql-apps/hello", None, "gql-apps", "apps"),
        ("PUT", "/acl/one", {"predicate": "path('/x')", "roles": ["x"]}, "acl", "rules"),
        ("PUT", "/others", None, "others", "collections"),
        ("PATCH", "/things", {"a": 1}, "_properties", "collections"),
        ("DELETE", "/things", None, "things", "collections"),
    ],
)
async def test_other_workers_hear_of_a_write_whose_client_went_away(
    service: Service,
    method: str,
    path: str,
    body: Any,
    collection: str,
    generation: Any,
) -> None:
    """Decision 44."""
    for name in ("gql-apps", "acl"):
        reply = await service.request("PUT", f"/{name}", headers=ROOT)
        assert reply.status in (200, 201), reply.text
    if collection == "gql-apps":
        mappings = {"Query": {"hi": {"db": service.db, "collection": "things", "find": {}}}}
        body = {"schema": "type Query { hi: [Int] }", "mappings": mappings}
    generations: Generations = service.app._instance.open_generations()
    gate = Gate(service.db, collection)
    await leave_after_commit(
        service, gate, method, path, json=body, params={"wm": "upsert"}, headers=ROOT
    )
    before = generations.read(generation)
    gate.open.set()
    await service.app.store.drain()

    assert generations.read(generation) > before
    generations.close()


async def test_metadata_goes_with_its_collection_even_without_the_client(
    service: Service, mongo_client: Mongo
) -> None:
    assert (await service.request("PUT", "/others", json={"a": 1}, headers=ROOT)).status == 201
    etag = (await service.request("GET", "/others/_meta", headers=ROOT)).headers["etag"]
    gate = Gate(service.db, "others")
    await leave_after_commit(service, gate, "DELETE", "/others", headers={**ROOT, "if-match": etag})
    gate.open.set()
    await service.app.store.drain()

    left = mongo_client[service.db]["_properties"].find_one({"_id": "_properties.others"})
    assert left is None


@pytest.mark.parametrize("service", list(MANAGERS), indirect=True)
@pytest.mark.parametrize(("method", "path"), [("DELETE", "/tokens/ada"), ("POST", "/logout")])
async def test_a_logout_ends_the_token_although_the_client_does_not_wait(
    service: Service, monkeypatch: pytest.MonkeyPatch, method: str, path: str
) -> None:
    token = await token_of(service, ADA)
    manager = next(
        one for one in service.app.plugins.plugins if isinstance(one, RandomTokens | JwtTokens)
    )
    reached, open_ = asyncio.Event(), asyncio.Event()
    revoke = manager.revoke

    async def revoke_late(account: Any) -> None:
        reached.set()
        await open_.wait()
        await revoke(account)

    monkeypatch.setattr(manager, "revoke", revoke_late)
    client = asyncio.create_task(service.request(method, path, headers=token))
    await reached.wait()
    client.cancel()
    with pytest.raises(asyncio.CancelledError):
        await client
    open_.set()
    await service.app.store.drain()

    assert (await service.request("GET", "/things", headers=token)).status == 401
