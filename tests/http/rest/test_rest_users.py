"""Users written and read by the REST API (decisions 34 and 38; rest-behaviour 5.9)."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from typing import Any

import bcrypt
import pytest

from docgraph.exchange import Write, WriteKind
from tests.http.access_harness import (
    ADA,
    ADMIN,
    BOB,
    allow,
    caller,
    guarded,
    remove_rules,
)
from tests.http.harness import Document, Mongo, Reply, Service
from tests.http.hosts import module_application
from tests.http.rest_harness import Api

pytestmark = [pytest.mark.anyio, pytest.mark.json]

STRONG = {
    "dbRealmAuthenticator": {
        "enforce-minimum-password-strength": True,
        "minimum-password-strength": 3,
    }
}


class Users(Api):
    """The API as the root role uses it, unless it says otherwise."""

    async def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: Mapping[str, str] | None = None,
        **parameters: Any,
    ) -> Reply:
        own = {**ADMIN, **(headers or {})}
        return await super().send(method, path, body, headers=own, **parameters)

    def stored(self, id: str) -> Document:
        found: Document | None = self.mongo[self.db]["users"].find_one({"_id": id})
        assert found is not None
        return found

    def knows(self, id: str, password: str) -> bool:
        """Whether the stored hash is that of the password."""
        return bcrypt.checkpw(password.encode(), self.stored(id)["password"].encode())


async def open_users(service: Service) -> Users:
    users = Users(service, service.mongo, service.db)
    assert (await users.put("/users")).status in (200, 201)
    assert (await users.post("/users", {"_id": "carl", "password": "first"})).status == 201
    return users


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as service:
        yield service


@pytest.fixture
async def users(server: Service) -> Users:
    """The users with Carl, and nothing of what a test before has made."""
    await remove_rules(server)
    await server.write("users", Write(WriteKind.DELETE, many=True, filter={}))
    for name in server.mongo[server.db].list_collection_names():
        if name in {"_properties", "_revocations", "_versions"}:
            server.mongo[server.db][name].delete_many({})  # at once, they would be there again
        elif name not in {"acl", "users"}:
            server.mongo[server.db][name].drop()
    return await open_users(server)


# --- hashing --------------------------------------------------------------------------------------


async def test_a_posted_password_is_hashed(users: Users) -> None:
    """Decision 34."""
    assert users.stored("carl")["password"].startswith("$2")
    assert users.knows("carl", "first")


@pytest.mark.parametrize(
    ("method", "path", "body", "parameters"),
    [
        ("PUT", "/users/carl", {"password": "second"}, {}),
        ("PUT", "/users/carl", {"password": "second"}, {"wm": "upsert"}),
        ("POST", "/users", {"_id": "carl", "password": "second"}, {"wm": "upsert"}),
        ("POST", "/users", [{"_id": "carl", "password": "second"}], {"wm": "upsert"}),
        ("PATCH", "/users/carl", {"password": "second"}, {}),
        ("PATCH", "/users/carl", {"$set": {"password": "second"}}, {}),
        ("PATCH", "/users/*", {"password": "second"}, {"filter": {"_id": "carl"}}),
        ("PATCH", "/users/*", {"$set": {"password": "second"}}, {"filter": {"_id": "carl"}}),
    ],
)
async def test_every_kind_of_write_hashes(
    users: Users, method: str, path: str, body: Any, parameters: Any
) -> None:
    """Decision 34: POST, PUT, PATCH, operators, arrays and bulk."""
    reply = await users.send(method, path, body, **parameters)

    assert reply.status == 200, reply.text
    assert users.knows("carl", "second")


async def test_forms_hash_too(users: Users) -> None:
    reply = await users.send(
        "POST",
        "/users",
        "_id=dora&password=second",
        headers={"content-type": "application/x-www-form-urlencoded"},
    )

    assert reply.status == 201, reply.text
    assert users.knows("dora", "second")


async def test_what_looks_hashed_is_hashed_like_any_other(users: Users) -> None:
    """Decision 34."""
    fake = bcrypt.hashpw(b"known", bcrypt.gensalt(4)).decode()
    await users.post("/users", {"_id": "eve", "password": fake})

    assert not users.knows("eve", "known")
    assert users.knows("eve", fake)


@pytest.mark.parametrize(
    "body",
    [
        {"$rename": {"nick": "password"}},
        {"$rename": {"password": "shown"}},
        {"$push": {"password": "x"}},
        [{"$set": {"password": "$nick"}}],
        [{"$set": {"shown": "$password"}}],
        {"password": 3},
        {"password.x": "y"},
    ],
)
async def test_ways_around_the_hash_are_refused(users: Users, body: Any) -> None:
    before = users.stored("carl")
    reply = await users.patch("/users/carl", body)

    assert reply.status in (400, 403), reply.text
    assert users.stored("carl") == before


async def test_too_long_a_password_is_refused(users: Users) -> None:
    """Decision 34: bcrypt sees 72 bytes."""
    reply = await users.post("/users", {"_id": "long", "password": "x" * 73})

    assert reply.status == 400


async def test_a_written_user_can_log_in(mongo_client: Mongo, mongo_uri: str) -> None:
    basic = {"basicAuthMechanism": {"enabled": True}}
    async with guarded(mongo_client, mongo_uri, basic) as service:
        users = await open_users(service)
        await allow(service, "path('/things')", "reader")
        service.mongo[service.db].create_collection("things")
        await users.patch("/users/carl", {"roles": ["reader"]})

        statuses = []
        for password in ("wrong", "first"):
            token = b64encode(f"carl:{password}".encode()).decode()
            headers = {"authorization": f"Basic {token}"}
            statuses.append((await service.request("GET", "/things", headers=headers)).status)

    assert statuses == [401, 200]


# --- strength -------------------------------------------------------------------------------------


async def test_weak_passwords_are_refused_in_every_kind_of_write(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    strong = "correct horse battery staple"
    async with guarded(mongo_client, mongo_uri, STRONG) as service:
        users = Users(service, service.mongo, service.db)
        await users.put("/users")
        good = await users.post("/users", {"_id": "carl", "password": strong})
        replies = [
            await users.post("/users", {"_id": "x", "password": "123456"}),
            await users.post("/users", [{"_id": "y", "password": strong}, {"password": "abc"}]),
            await users.put("/users/carl", {"password": "123456"}),
            await users.patch("/users/carl", {"$set": {"password": "123456"}}),
            await users.patch("/users/*", {"password": "123456"}, filter={"_id": "carl"}),
        ]
        assert good.status == 201, good.text
        assert users.knows("carl", strong)

    for reply in replies:
        assert 400 <= reply.status < 500, reply.text
        assert "123456" not in reply.text


# --- reading --------------------------------------------------------------------------------------


async def test_no_read_gives_a_password_back(users: Users) -> None:
    """Decision 34."""
    one = await users.get("/users/carl")
    many = await users.get("/users")
    kept = await users.get("/users/carl", keys={"roles": 1})
    shown = await users.put(
        "/users/carl", {"password": "x2"}, headers={"Prefer": "return=representation"}
    )

    for reply in (one, many, kept, shown):
        assert reply.status == 200, reply.text
        assert "password" not in reply.text
        assert not re.search(r"\$2[aby]\$", reply.text)


@pytest.mark.parametrize(
    ("path", "parameters"),
    [
        ("/users", {"filter": {"password": {"$regex": "^"}}}),
        ("/users", {"filter": {"$or": [{"password": {"$gt": ""}}]}}),
        ("/users", {"filter": {"$expr": {"$gt": ["$password", ""]}}}),
        ("/users", {"sort": "password"}),
        ("/users", {"sort": "-password", "after": ""}),
        ("/users", {"keys": {"p": "$password"}}),
        ("/users/_size", {"filter": {"password": {"$gt": ""}}}),
        ("/users/carl", {"filter": {"password": {"$gt": ""}}}),
    ],
)
async def test_a_password_is_no_condition(users: Users, path: str, parameters: Any) -> None:
    """Decision 34: filter and sort on the password are 403."""
    reply = await users.get(path, **parameters)

    assert reply.status == 403, reply.text
    assert not re.search(r"\$2[aby]\$", reply.text)


async def test_aggregations_do_not_see_passwords(users: Users) -> None:
    """Decision 34: also not by $lookup."""
    users.mongo[users.db]["things"].insert_one({"_id": 1, "owner": "carl"})
    own = {"uri": "own", "stages": [{"$project": {"p": "$password"}}]}
    lookup = {"from": "users", "localField": "owner", "foreignField": "_id", "as": "who"}
    join = {"uri": "join", "stages": [{"$lookup": lookup}]}
    assert (await users.put("/users", {"aggrs": [own]})).status == 200
    assert (await users.put("/things", {"aggrs": [join]})).status == 200

    assert (await users.get("/users/_aggrs/own")).json == [{"_id": "carl"}]
    joined = await users.get("/things/_aggrs/join")
    assert joined.json[0]["who"][0]["_id"] == "carl"
    assert "password" not in joined.text


# --- roles and rules ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "path", "body", "parameters"),
    [
        ("POST", "/users", {"_id": "eve", "roles": ["admin"]}, {}),
        ("POST", "/users", [{"_id": "x"}, {"_id": "eve", "roles": ["user", "admin"]}], {}),
        ("PUT", "/users/carl", {"roles": ["admin"]}, {}),
        ("PATCH", "/users/carl", {"roles": ["admin"]}, {}),
        ("PATCH", "/users/carl", {"$push": {"roles": "admin"}}, {}),
        ("PATCH", "/users/carl", {"roles.0": "admin"}, {}),
        ("PATCH", "/users/*", {"roles": ["admin"]}, {"filter": {"_id": "carl"}}),
    ],
)
async def test_nobody_is_made_root_over_the_network(
    users: Users, method: str, path: str, body: Any, parameters: Any
) -> None:
    reply = await users.send(method, path, body, **parameters)

    assert reply.status == 403, reply.text
    assert reply.json["message"] == "Forbidden. The request has been logged."
    assert users.mongo[users.db]["users"].count_documents({"roles": "admin"}) == 0
    assert users.mongo[users.db]["users"].count_documents({}) == 1


async def test_a_users_own_document_by_rule(users: Users) -> None:
    """Decision 38: a rule with filters lets people see and change their own document only."""
    own = {"_id": "@user._id"}
    await users.post("/users", {"_id": "ada", "nick": "A"})
    await users.post("/users", {"_id": "bob", "nick": "B"})
    await allow(
        users.service,
        "path-prefix('/users')",
        "user",
        mongo={"readFilter": own, "writeFilter": own, "mergeRequest": {"by": "@user._id"}},
    )

    seen = await users.service.request("GET", "/users", headers=ADA)
    mine = await users.service.request("PATCH", "/users/ada", json={"nick": "x"}, headers=ADA)
    other = await users.service.request("PATCH", "/users/ada", json={"nick": "y"}, headers=BOB)

    assert [one["_id"] for one in seen.json] == ["ada"]
    assert mine.status == 200
    assert other.status == 404
    assert (users.stored("ada")["nick"], users.stored("ada")["by"]) == ("x", "ada")


async def test_management_needs_its_flag(users: Users) -> None:
    """rest-behaviour 5.1: collections, indexes, schemas and `_meta`."""
    users.mongo[users.db].create_collection("things")
    users.mongo[users.db]["things"].insert_many([{"_id": n, "own": n == 1} for n in range(3)])
    rule = {"_id": "things", "mongo": {"readFilter": {"own": True}}}
    await allow(users.service, "path-prefix('/things')", "user", **rule)
    await users.put("/things", {"aggrs": [{"uri": "all", "stages": [{"$match": {}}]}]})

    async def ask(method: str, path: str) -> int:
        reply = await users.service.request(method, path, headers=ADA)
        return int(reply.status)

    for method, path in (
        ("PUT", "/things"),
        ("PATCH", "/things"),
        ("DELETE", "/things"),
        ("GET", "/things/_meta"),
        ("GET", "/things/_indexes"),
        ("PUT", "/things/_indexes/x"),
    ):
        assert await ask(method, path) == 403, (method, path)
    rows = await users.service.request("GET", "/things/_aggrs/all", headers=ADA)
    assert [row["_id"] for row in rows.json] == [1]

    rule["mongo"] = {"allowManagementRequests": True}
    await allow(users.service, "path-prefix('/things')", "user", **rule)
    assert await ask("GET", "/things/_meta") == 200
    assert await ask("PUT", "/things") == 200


async def test_who_may_write_some_documents_cannot_drop_them_all(users: Users) -> None:
    users.mongo[users.db]["things"].insert_one({"_id": 1})
    mongo = {"allowManagementRequests": True, "writeFilter": {"own": True}}
    await allow(users.service, "path-prefix('/things')", "user", mongo=mongo)
    reply = await users.service.request("DELETE", "/things", headers=ADA)

    assert reply.status == 403
    assert users.mongo[users.db]["things"].count_documents({}) == 1


async def test_who_may_not_drop_the_users_removes_nothing_of_their_database(users: Users) -> None:
    for name in ("aaa", "zzz"):
        users.mongo[users.db][name].insert_one({"_id": 1})
    mongo = {"allowManagementRequests": True}
    await allow(users.service, "path-prefix('/')", "user", mongo=mongo)
    etag = (await users.put("/", {"about": "all"})).headers["etag"]

    refused = await users.service.request("DELETE", "/", headers={**ADA, "If-Match": etag})
    left = sorted(users.mongo[users.db].list_collection_names())
    dropped = await users.send("DELETE", "/", headers={"If-Match": etag})

    assert refused.status == 403
    assert {"aaa", "users", "zzz"} <= set(left)
    assert dropped.status == 204


async def test_who_may_edit_himself_cannot_promote_himself(users: Users) -> None:
    """W14: also by a rule that does not think of roles."""
    own = "path-template('/users/{id}') and equals(@user._id, ${id})"
    mongo = {"allowBulkPatch": True, "allowWriteMode": True}
    await allow(users.service, own, "user", mongo=mongo)
    await allow(users.service, "path-prefix('/users')", "manager", mongo=mongo)
    document = {"password": "secret", "roles": ["user"]}
    await users.post("/users", [{"_id": "ada", **document}, {"_id": "carla", **document}])
    manager = caller("ada", "manager")

    async def ask(method: str, path: str, body: Any, who: dict[str, str] = ADA) -> int:
        reply = await users.service.request(method, path, json=body, headers=who)
        return int(reply.status)

    assert await ask("PATCH", "/users/ada", {"name": "Ada", "password": "better"}) == 200
    assert await ask("PUT", "/users/ada", {"name": "Ada", "roles": ["user"]}) == 200
    for update in ({"roles": ["x"]}, {"$push": {"roles": "x"}}, {"roles.1": "x"}):
        assert await ask("PATCH", "/users/ada", update) == 404
    assert await ask("PUT", "/users/ada", {"roles": ["x"]}) == 404
    assert await ask("PUT", "/users/ada?wm=upsert", {"roles": ["x"]}) == 409
    several = [{"_id": "carla", "roles": ["x"]}, {"_id": "ada", "roles": ["x"]}]
    assert await ask("POST", "/users?wm=upsert", several, manager) == 403
    everybody = '/users/*?filter={"roles": "user"}'
    assert await ask("PATCH", everybody, {"roles": ["x"]}, manager) == 200
    assert users.stored("carla")["roles"] == ["x"]
    assert await ask("PATCH", "/users/carla", {"roles": ["y"]}, manager) == 200
    assert users.stored("ada")["roles"] == ["user"]
    assert users.stored("carla")["roles"] == ["y"]
    assert await ask("PATCH", "/users/ada", {"roles": ["x"]}, caller("ada", "admin")) == 200


async def test_a_checked_patch_respects_the_write_filter(users: Users) -> None:
    """Decision 38: what a rule keeps from being written is not there, however it is written."""
    await users.put("/_schemas")
    await users.put("/_schemas/any", {"type": "object"}, wm="upsert")
    await users.put("/things", {"jsonSchema": {"schemaId": "any"}})
    await users.post("/things", [{"_id": "a", "own": True}, {"_id": "b", "own": False}])
    mongo = {"writeFilter": {"own": True}}
    await allow(users.service, "path-prefix('/things')", "user", mongo=mongo)
    body = {"x": 1}
    mine = await users.service.request("PATCH", "/things/a", json=body, headers=ADA)
    other = await users.service.request("PATCH", "/things/b", json=body, headers=ADA)

    assert (mine.status, other.status) == (200, 404)
    assert "x" not in (users.mongo[users.db]["things"].find_one({"_id": "b"}) or {})


async def test_what_a_rule_hides_is_hidden_from_aggregations(users: Users) -> None:
    users.mongo[users.db]["things"].insert_one({"_id": 1, "open": 1, "secret": 2})
    entry = {"uri": "x", "stages": [{"$project": {"open": 1, "s": "$secret"}}]}
    await users.put("/things", {"aggrs": [entry]})
    mongo = {"projectResponse": {"secret": 0}}
    await allow(users.service, "path-prefix('/things')", "user", mongo=mongo)
    reply = await users.service.request("GET", "/things/_aggrs/x", headers=ADA)

    assert reply.json == [{"_id": 1, "open": 1}]
