"""The first contact with somebody's own database: what is told, and what callers get (25, 45)."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
import yaml

from docgraph.observe import Event
from docgraph.observe.engine_events import QueryFailed
from docgraph.observe.events import (
    BackgroundFailed,
    DatabaseFound,
    DatabaseLost,
    DatabaseRefused,
    PluginFailed,
    RightsGranted,
    RightsMissing,
)
from tests.databases import new_name
from tests.guarded_mongo import GuardedMongo
from tests.http.harness import Document, Service, eventually, listening, running, until
from tests.http.proxy import Proxy, proxying
from tests.http.realms import hashed, render_basic

pytestmark = pytest.mark.anyio

E = TypeVar("E", bound=Event)

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "use-your-own-mongodb.md"
TOLD = (
    BackgroundFailed,
    DatabaseFound,
    DatabaseLost,
    DatabaseRefused,
    RightsMissing,
    RightsGranted,
)
ANN = {"authorization": render_basic("ann", "secret")}


@pytest.fixture
def seen() -> Iterator[list[Event]]:
    """Everything that is told while the test runs."""
    with listening(Event) as events:
        yield events


@pytest.fixture
def own_db(guarded_mongo: GuardedMongo) -> Iterator[str]:
    """A database of the guarded server."""
    name = new_name()
    yield name
    guarded_mongo.admin.drop_database(name)


@pytest.fixture
def proxy(mongo_uri: str) -> Iterator[Proxy]:
    """A way to a database without authentication, which is closed at first."""
    with proxying(mongo_uri) as proxy:
        yield proxy


def names(events: Sequence[Event]) -> list[str]:
    """What whoever runs the server is told of the database."""
    return [one.name for one in events if isinstance(one, TOLD)]


def only(events: Sequence[Event], kind: type[E]) -> E:
    """The one event of that kind."""
    (found,) = [one for one in events if isinstance(one, kind)]
    return found


def sections(db: str) -> Document:
    """Rules, users and apps in one database; the first user is ann, an administrator."""
    ann = {"_id": "ann", "password": hashed("secret"), "roles": ["admin"]}
    return {
        "fullAuthorizer": {"enabled": False},
        "metrics": {"secured": False},
        "dbRealmAuthenticator": {
            "users-db": db,
            "bcrypt-hashed-password": True,
            "create-user-document": json.dumps(ann),
        },
        "dbAclAuthorizer": {"acl-db": db},
        "mongo": {"mongo-mounts": [{"what": f"/{db}", "where": "/"}]},
    }


@asynccontextmanager
async def contacting(mongo: GuardedMongo, uri: str, db: str) -> AsyncIterator[Service]:
    """A server on that database, whatever comes of it."""
    options: Document = {"db": db, "drop": False, "ready": False}
    async with running(mongo.admin, uri, sections(db), **options) as service:
        yield service


async def ask_all(service: Service) -> list[int]:
    """The statuses of GraphQL and REST, for a caller with credentials and for one without."""
    replies = [
        await service.request("GET", path, headers=headers)
        for path, headers in (
            ("/graphql/app", ANN),
            ("/graphql/app", {}),
            ("/users", ANN),
            ("/users", {}),
            ("/tokens/ann", ANN),
        )
    ]
    for one in replies:
        assert not re.search(r"127\.0\.0\.1|user-|not authorized|mongod", one.response.text)
    return [one.status for one in replies]


async def probe(service: Service) -> tuple[int, str]:
    """What `/health/db` says, whoever asks; what else is for everybody is there."""
    told = set()
    for headers in ({}, ANN):
        reply = await service.request("GET", "/health/db", headers=headers)
        told.add((reply.status, reply.json["description"]))
        for path in ("/ping", "/metrics"):
            assert (await service.request("GET", path, headers=headers)).status == 200
    (only_one,) = told
    return only_one


async def test_a_wrong_password_is_told_once_and_callers_get_500(
    guarded_mongo: GuardedMongo, own_db: str, seen: list[Event]
) -> None:
    """Decision 25. The right password, set later, needs no restart."""
    with guarded_mongo.user(["root"]) as user:
        uri = guarded_mongo.render_uri(user, "wr0ng%40")
        async with contacting(guarded_mongo, uri, own_db) as service:
            summary = await service.app.contact_database()

            assert summary == "the database refuses the login of docgraph"
            assert set(await ask_all(service)) == {500}
            assert await probe(service) == (503, summary)
            assert names(seen) == ["database-refused"]
            refused = only(seen, DatabaseRefused)
            assert (refused.user, refused.address) == (user, guarded_mongo.host)
            assert refused.origin == "--set"
            assert "mclient.connection-string" in refused.hint
            assert "wr0ng" not in repr(refused)

            guarded_mongo.admin.admin.command("updateUser", user, pwd="wr0ng@")
            await eventually(lambda: names(seen) == ["database-refused", "database-found"])
            assert await service.app.contact_database() == ""
            assert (await service.request("GET", "/tokens/ann", headers=ANN)).status == 200
            assert (await probe(service))[0] == 200


async def test_a_user_that_is_dropped_and_made_again_needs_no_restart(
    guarded_mongo: GuardedMongo, own_db: str, seen: list[Event]
) -> None:
    """The database takes the login away from connections that are open."""
    commands = guarded_mongo.admin.admin
    with guarded_mongo.user(["root"]) as user:
        uri = guarded_mongo.render_uri(user, "secret")
        async with contacting(guarded_mongo, uri, own_db) as service:
            assert await service.app.contact_database() == ""
            commands.command("dropUser", user)
            assert (await service.request("GET", "/tokens/ann", headers=ANN)).status == 500
            await eventually(lambda: "database-refused" in names(seen))
            assert set(await ask_all(service)) == {500}

            commands.command("createUser", user, pwd="secret", roles=["root"])
            await eventually(lambda: names(seen).count("database-found") == 2)
            assert (await service.request("GET", "/tokens/ann", headers=ANN)).status == 200
            assert names(seen) == ["database-found", "database-refused", "database-found"]

            commands.command("dropUser", user)
            commands.command("createUser", user, pwd="secret", roles=["root"])

            async def ask() -> int:
                return (await service.request("GET", "/tokens/ann", headers=ANN)).status

            await until(ask, 200)
            assert [await ask() for _ in range(5)] == 5 * [200]
            async with service.app.store.streams.watch(own_db, "notes") as changes:
                assert changes.alive


async def test_a_server_that_wants_a_login_says_that_there_is_none(
    guarded_mongo: GuardedMongo, own_db: str, seen: list[Event]
) -> None:
    uri = f"mongodb://{guarded_mongo.host}/?directConnection=true"
    async with contacting(guarded_mongo, uri, own_db) as service:
        await service.app.contact_database()

        assert set(await ask_all(service)) == {500}
    assert names(seen) == ["database-refused"]
    assert only(seen, DatabaseRefused).reason == "it wants a login, and none is configured"
    assert "db.createUser" in only(seen, DatabaseRefused).hint


async def test_missing_rights_are_told_once_with_the_command_that_grants_them(
    guarded_mongo: GuardedMongo, own_db: str, seen: list[Event]
) -> None:
    """Decision 25. What was granted needs no restart."""
    with guarded_mongo.user([{"role": "read", "db": "elsewhere"}]) as user:
        uri = guarded_mongo.render_uri(user, "secret")
        async with contacting(guarded_mongo, uri, own_db) as service:
            summary = await service.app.contact_database()

            assert summary == "docgraph lacks rights at the database"
            assert set(await ask_all(service)) == {500}
            assert await probe(service) == (503, summary)
            await eventually(lambda: any(isinstance(one, PluginFailed) for one in seen))
            denied = {str(one) for one in service.app.store.waits.denied}
            assert not any("createCollection" in one for one in denied)  # reported by its plugin
            assert names(seen) == ["database-found", "rights-missing"]
            missing = only(seen, RightsMissing)
            assert (missing.user, missing.address) == (user, guarded_mongo.host)
            listed = {place.partition(":")[0] for place in missing.missing}
            places = {"*", "users", "acl", "gql-apps", "_revocations", "_versions", "_appHistory"}
            places.add("_cursorKeys")
            assert listed == {f"{own_db}.{one}" for one in places}

            granted = re.search(r"grantRolesToUser\(('.*?'), (\[.*?\])\)", missing.hint)
            assert granted is not None
            name, roles = map(yaml.safe_load, granted.groups())  # which reads JavaScript so far
            guarded_mongo.admin.admin.command("grantRolesToUser", name, roles=roles)
            await eventually(lambda: "rights-granted" in names(seen))
            await eventually(lambda: guarded_mongo.admin[own_db]["users"].count_documents({}) == 1)
            assert (await service.request("GET", "/tokens/ann", headers=ANN)).status == 200
            assert (await probe(service))[0] == 200
            assert names(seen) == ["database-found", "rights-missing", "rights-granted"]


async def test_a_right_that_a_request_lacks_is_told_when_it_fails(
    guarded_mongo: GuardedMongo, own_db: str, seen: list[Event]
) -> None:
    with guarded_mongo.user([{"role": "readWrite", "db": own_db}]) as user:
        uri = guarded_mongo.render_uri(user, "secret")
        async with contacting(guarded_mongo, uri, own_db) as service:
            assert await service.app.contact_database() == ""
            mapping = {"db": "shop", "collection": "items", "find": {}}
            definition = {
                "_id": "app",
                "schema": "type Query { items: [Item] needed: [Item!]! } type Item { n: Int }",
                "mappings": {"Query": {"items": mapping, "needed": mapping}},
            }
            guarded_mongo.admin[own_db]["gql-apps"].insert_one(definition)
            await eventually_known(service)
            for query in ("{ items { n } }", "{ needed { n } }"):  # `data` is nullable or not
                await expect_denied(service, "POST", "/graphql/app", {"query": query})

            await eventually(lambda: "rights-missing" in names(seen))
            missing = only(seen, RightsMissing).missing
            assert "shop.items: find (asked for by a request)" in missing
            assert (await probe(service))[0] == 200  # everything else works


async def eventually_known(service: Service) -> None:
    """Return when the app that was just written answers."""

    async def is_known() -> bool:
        query = {"query": "{ __typename }"}
        reply = await service.request("POST", "/graphql/app", json=query, headers=ANN)
        return reply.status == 200

    await until(is_known, expected=True)


async def expect_denied(service: Service, method: str, path: str, body: Any = None) -> None:
    """500 without a word about the reason: that docgraph lacks a right is not the caller's."""
    reply = await service.request(method, path, json=body, headers=ANN)
    assert (reply.status, "not authorized" in reply.response.text) == (500, False)
    assert "docgraph lacks a right at the database" in reply.response.text


async def test_a_right_that_rest_lacks_is_no_fault_of_the_caller(
    guarded_mongo: GuardedMongo, own_db: str
) -> None:
    """Decision 25: neither of an aggregation nor of the options of an index."""
    database = guarded_mongo.admin[own_db]
    database["users"].insert_one({"_id": "ann", "password": hashed("secret"), "roles": ["admin"]})
    properties = {"_id": "_properties.items", "aggrs": [{"uri": "all", "stages": []}]}
    database["_properties"].insert_one(properties)
    database.create_collection("items")
    readable = ("users", "acl", "gql-apps", "_revocations", "_properties")
    rights = [privilege(own_db, "", "listCollections")]
    rights += [privilege(own_db, one, "find") for one in readable]
    database.command("createRole", "careful", privileges=rights, roles=[])
    with guarded_mongo.user([{"role": "careful", "db": own_db}]) as user:
        uri = guarded_mongo.render_uri(user, "secret")
        async with contacting(guarded_mongo, uri, own_db) as service:
            await service.app.contact_database()
            await expect_denied(service, "GET", "/items/_aggrs/all")
            await expect_denied(service, "PUT", "/items/_indexes/by-n", {"keys": {"n": 1}})
    database.command("dropRole", "careful")


def privilege(db: str, collection: str, action: str) -> Document:
    """One right of a role."""
    return {"resource": {"db": db, "collection": collection}, "actions": [action]}


async def test_a_database_that_appears_later_is_told_and_used(
    proxy: Proxy, guarded_mongo: GuardedMongo, database: str, seen: list[Event]
) -> None:
    """Decision 45."""
    await proxy.close()
    async with contacting(guarded_mongo, proxy.uri, database) as service:
        summary = await service.app.contact_database()

        assert summary == "the database cannot be reached"
        assert set(await ask_all(service)) == {500}
        assert await probe(service) == (503, summary)
        assert names(seen) == ["database-lost"]
        lost = only(seen, DatabaseLost)
        assert lost.address == f"127.0.0.1:{proxy.port}"
        assert lost.origin == "--set"
        assert "mclient.connection-string" in lost.hint

        await proxy.open()
        await eventually(lambda: "database-found" in names(seen))
        assert await service.app.contact_database() == ""
        assert (await service.request("GET", "/tokens/ann", headers=ANN)).status == 200
        await proxy.close()
        await eventually(lambda: names(seen).count("database-lost") == 2)
        await proxy.open()
        await eventually(lambda: names(seen).count("database-found") == 2)
    assert names(seen) == 2 * ["database-lost", "database-found"]


def read_role() -> Document:
    """The role of the page, as the command of the database wants it."""
    found = re.search(r"createRole\((\{.*?\n\})\)", PAGE.read_text(), re.S)
    assert found is not None
    role: Document = json.loads(found[1])
    return role


async def test_the_rights_of_the_page_are_enough(
    guarded_mongo: GuardedMongo, seen: list[Event]
) -> None:
    """To serve, to log in and out, and to manage users, rules and apps."""
    role = read_role()
    databases = guarded_mongo.admin
    databases.admin.command("createRole", role.pop("role"), **role)
    databases["shop"]["items"].insert_many([{"n": n} for n in range(3)])
    try:
        with guarded_mongo.user(["docgraph"]) as user:
            uri = guarded_mongo.render_uri(user, "secret")
            async with contacting(guarded_mongo, uri, "docgraph") as service:
                assert await service.app.contact_database() == ""
                await use_everything(service)
        assert [one for one in seen if isinstance(one, (*TOLD, QueryFailed))] == [
            only(seen, DatabaseFound)
        ]
    finally:
        databases.drop_database("docgraph")
        databases.drop_database("shop")
        databases.admin.command("dropRole", "docgraph")


async def test_without_rights_to_former_versions_apps_are_written_and_served(
    guarded_mongo: GuardedMongo, seen: list[Event]
) -> None:
    role = read_role()
    rights = role["privileges"]
    role["privileges"] = [one for one in rights if one["resource"]["collection"] != "_appHistory"]
    assert len(role["privileges"]) < len(rights)
    databases = guarded_mongo.admin
    databases.admin.command("createRole", role.pop("role"), **role)
    databases["shop"]["items"].insert_many([{"n": n} for n in range(3)])
    try:
        with guarded_mongo.user(["docgraph"]) as user:
            uri = guarded_mongo.render_uri(user, "secret")
            async with contacting(guarded_mongo, uri, "docgraph") as service:
                await service.app.contact_database()
                await use_everything(service)
        told = [one for one in seen if isinstance(one, RightsMissing | BackgroundFailed)]
        assert "_appHistory" in str(only(seen, RightsMissing).missing)
        assert len(told) <= 3  # the rights, and once each for who writes and who looks
        assert databases["docgraph"]["_appHistory"].count_documents({}) == 0
    finally:
        databases.drop_database("docgraph")
        databases.drop_database("shop")
        databases.admin.command("dropRole", "docgraph")


async def test_without_the_right_to_create_the_collection_of_rules_it_is_reported_once(
    guarded_mongo: GuardedMongo, seen: list[Event]
) -> None:
    role = read_role()
    for one in role["privileges"]:
        if one["resource"]["collection"] == "acl":
            one["actions"] = ["update", "remove"]  # who may insert may create, too
    databases = guarded_mongo.admin
    databases.admin.command("createRole", role.pop("role"), **role)
    try:
        with guarded_mongo.user(["docgraph"]) as user:
            uri = guarded_mongo.render_uri(user, "secret")
            async with contacting(guarded_mongo, uri, "docgraph") as service:
                assert await service.app.contact_database() == ""
                assert not [one for one in seen if isinstance(one, BackgroundFailed)]
                failed = only(seen, PluginFailed)
        assert (failed.plugin, failed.stage) == (
            "createAclCollection",
            "create the collection of the rules",
        )
        assert "acl" not in databases["docgraph"].list_collection_names()
    finally:
        databases.drop_database("docgraph")
        databases.admin.command("dropRole", "docgraph")


async def use_everything(service: Service) -> None:
    """As an administrator would on the first day."""

    async def send(method: str, path: str, body: Any = None, expected: int = 200) -> Any:
        reply = await service.request(method, path, json=body, headers=ANN)
        assert reply.status == expected, (method, path, reply.response.text)
        return reply

    mapping = {"db": "shop", "collection": "items", "find": {}, "sort": {"n": 1}}
    definition = {
        "schema": "type Query { items: [Item] } type Item { n: Int }",
        "mappings": {"Query": {"items": mapping}},
    }
    await send("PUT", "/gql-apps", {}, 201)
    await send("PUT", "/gql-apps/app?wm=upsert", definition, 201)
    answer = await send("POST", "/graphql/app", {"query": "{ items { n } }"})
    assert answer.json["data"] == {"items": [{"n": 0}, {"n": 1}, {"n": 2}]}
    rule = {"roles": ["reader"], "predicate": "path-prefix('/graphql')", "priority": 1}
    await send("POST", "/acl", rule, 201)
    bob = {"password": "a longer secret", "roles": ["reader"]}
    await send("PUT", "/users/bob?wm=upsert", bob, 201)
    reader = {"authorization": render_basic("bob", "a longer secret")}
    query = {"query": "{ items { n } }"}
    reply = await service.request("POST", "/graphql/app", json=query, headers=reader)
    assert reply.status == 200
    await send("PATCH", "/users/bob", {"password": "another secret"})
    reply = await service.request("POST", "/graphql/app", json=query, headers=reader)
    assert reply.status == 401
    await send("DELETE", "/tokens/ann", expected=204)
    await send("DELETE", "/users/bob", expected=204)
