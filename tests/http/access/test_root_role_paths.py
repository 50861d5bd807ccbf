"""Users with the root role, wherever `json-path-roles` says that roles stand."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pymongo import DeleteMany, ReplaceOne

from docgraph.access import role_escalation
from docgraph.observe.events import AccessDenied
from docgraph.store.reads import StoreReads
from tests.http.access_harness import ADA, ADMIN, allow, guarded
from tests.http.harness import Document, Mongo, Service, listening

pytestmark = pytest.mark.anyio

ALL = {"allowManagementRequests": True, "allowBulkPatch": True, "allowBulkDelete": True,
       "allowWriteMode": True}  # fmt: skip
SECRET = "p" * 12

# A path, what makes an administrator there, and what makes anybody else.
PLACES: dict[str, tuple[Document, Document]] = {
    "$.roles": ({"roles": ["user", "admin"]}, {"roles": ["user"]}),
    "$.profile.roles": ({"profile": {"roles": ["admin"]}}, {"profile": {"roles": []}}),
    "$['roles']": ({"roles": ["admin"]}, {"roles": ["user"]}),
    "$.roles[*]": ({"roles": {"main": "admin"}}, {"roles": ["user"]}),
    "$.grants[*].role": (
        {"grants": [{"role": "user"}, {"role": "admin"}]},
        {"grants": [{"role": "user"}]},
    ),
    "$.grants[?@.on == true].role": (
        {"grants": [{"role": "admin", "on": True}]},
        {"grants": [{"role": "admin", "on": False}]},
    ),
    "$.grants[?@.team == $.team].role": (
        {"team": "a", "grants": [{"role": "admin", "team": "a"}]},
        {"team": "b", "grants": [{"role": "admin", "team": "a"}]},
    ),
    "$.lists[0]": ({"lists": [["admin"]]}, {"lists": [["user"], ["admin"]]}),
    "$..role": ({"deep": {"er": [{"role": "admin"}]}}, {"deep": {"er": [{"role": "user"}]}}),
    "$.*": ({"any": ["admin"]}, {"any": ["user"]}),
}
PATHS = list(PLACES)


Start = Callable[..., Any]


def seed(service: Service, path: str, key: str = "_id") -> None:
    """Nobody but an administrator and somebody else; who is as before is not written.

    Of each user who is, the server hears, and ends his tokens.
    """
    users = []
    for name, place in zip(("boss", "eve"), PLACES[path], strict=True):
        own = {"_id": name} if key == "_id" else {"_id": name, key: f"{name}@x"}
        users.append({**own, **place, "password": "hash", "kind": "x"})
    replaced = [ReplaceOne({"_id": user["_id"]}, user, upsert=True) for user in users]
    others = DeleteMany({"_id": {"$nin": [user["_id"] for user in users]}})
    service.mongo[service.db]["users"].bulk_write([others, *replaced])


@pytest.fixture
def start(mongo_client: Mongo, mongo_uri: str) -> Start:
    """Starts a server with a path of roles, an administrator, a user, and Ada who manages users."""

    @asynccontextmanager
    async def run(path: str, **realm: Any) -> AsyncIterator[Service]:
        settings = {"dbRealmAuthenticator": {"json-path-roles": path, **realm}}
        async with guarded(mongo_client, mongo_uri, settings) as service:
            await allow(service, "path-prefix('/users')", "user", mongo=ALL)
            seed(service, path, realm.get("prop-id", "_id"))
            yield service

    return run


def stored(service: Service, id: str) -> Any:
    return service.mongo[service.db]["users"].find_one({"_id": id})


# Whether the write is of one user at a path, of an array, or of all that match.
WRITES: list[tuple[str, str, Any]] = [
    ("PATCH", "/users/{id}", {"password": SECRET}),
    ("PATCH", "/users/{id}?wm=upsert", {"password": SECRET}),
    ("PATCH", '/users/{id}?filter={{"kind":"x"}}', {"password": SECRET}),
    ("PUT", "/users/{id}", {"password": SECRET, "kind": "x"}),
    ("PUT", "/users/{id}?wm=upsert", {"password": SECRET, "kind": "x"}),
    ("POST", "/users?wm=upsert", {"_id": "{id}", "password": SECRET, "kind": "x"}),
    ("POST", "/users?wm=update", {"_id": "{id}", "password": SECRET, "kind": "x"}),
    ("POST", "/users?wm=upsert", [{"_id": "{id}", "password": SECRET, "kind": "x"}]),
    ("POST", "/users?wm=upsert", [{"_id": "{id}", "kind": "x"}, {"_id": "new", "kind": "y"}]),
    ("PATCH", '/users/*?filter={{"_id":"{id}"}}', {"password": SECRET}),
    ("PATCH", '/users/*?filter={{"kind":"x"}}', {"password": SECRET}),
    ("PATCH", '/users/*?filter={{"$or":[{{"_id":"{id}"}},{{"q":1}}]}}', {"password": SECRET}),
    ("DELETE", "/users/{id}", None),
    ("DELETE", '/users/*?filter={{"kind":"x"}}', None),
    ("DELETE", '/users/*?filter={{"_id":{{"$gte":"{id}"}}}}', None),
]  # fmt: skip


def fill(value: Any, id: str) -> Any:
    if isinstance(value, list):
        return [fill(one, id) for one in value]
    if isinstance(value, dict):
        return {key: fill(one, id) for key, one in value.items()}
    return value.replace("{id}", id) if isinstance(value, str) else value


async def send(service: Service, method: str, path: str, body: Any, id: str, who: Any) -> int:
    arguments = {} if body is None else {"json": fill(body, id)}
    reply = await service.request(method, path.format(id=id), headers=who, **arguments)
    return reply.status


@pytest.mark.parametrize("path", PATHS)
async def test_writes_of_others_find_everybody_but_those_with_the_root_role(
    start: Start, path: str
) -> None:
    """Else whoever may manage users sets the administrator's password, and has the role."""
    async with start(path) as service:
        before = stored(service, "boss")
        for method, place, body in WRITES:
            status = await send(service, method, place, body, "boss", ADA)
            assert stored(service, "boss") == before, (method, place, body)
            assert status in (200, 207, 404, 409), (status, method, place, body)
        reply = await service.request("DELETE", "/users", headers=ADA)
        assert (reply.status, stored(service, "boss")) == (403, before)
        # Every write finds others by some of the paths, and each path is that of some writes.
        for method, place, body in WRITES[PATHS.index(path) % 3 :: 3]:
            seed(service, path)
            before = stored(service, "eve")
            status = await send(service, method, place, body, "eve", ADA)
            assert status in (200, 201, 204), (status, method, place, body)
            assert stored(service, "eve") != before, (method, place, body)
        seed(service, path)
        assert await send(service, *WRITES[0], "boss", ADMIN) == 200


async def test_a_property_of_its_own_for_names_changes_nothing(start: Start) -> None:
    async with start("$.grants[*].role", **{"prop-id": "mail"}) as service:
        before = stored(service, "boss")
        for change in ({"mail": "eve@x"}, {"password": SECRET}, {"$rename": {"mail": "old"}}):
            status = await send(service, "PATCH", "/users/boss", change, "boss", ADA)
            assert (status, stored(service, "boss")) == (404, before)
        by_name = '/users/*?filter={{"mail":"boss@x"}}'
        assert await send(service, "DELETE", by_name, None, "", ADA) == 200
        assert stored(service, "boss") == before


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("$.grants[?@.on == true].role", {"grants.0.on": True}),
        ("$.grants[?@.on == true].role", [{"$set": {"grants.on": True}}]),
        ("$.grants[?@.team == $.team].role", {"team": "a"}),
        ("$.lists[0]", {"$pop": {"lists": -1}}),
        ("$.lists[0]", {"$pull": {"lists": ["user"]}}),
    ],
)
async def test_a_role_that_is_stored_already_is_not_switched_on(
    start: Start, path: str, change: Any
) -> None:
    async with start(path) as service:
        before = stored(service, "eve")
        with listening(AccessDenied) as denied:
            assert await send(service, "PATCH", "/users/eve", change, "eve", ADA) == 403
        assert [one.authorizer for one in denied] == ["rootRoleGuard"]
        assert stored(service, "eve") == before


def promoting(service: Service, change: Document) -> Callable[..., Awaitable[list[Document]]]:
    """A `find` of the store after which somebody gets the role."""
    find = service.app.store.reads.find

    async def find_and_promote(db: str, collection: str, *rest: Any, **more: Any) -> Any:
        found = await find(db, collection, *rest, **more)
        if collection == "users":
            users = service.mongo[service.db]["users"]
            await asyncio.to_thread(users.update_one, {"_id": "eve"}, change)
        return found

    return find_and_promote


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("$.grants[*].role", {"$push": {"grants": {"role": "admin"}}}),
        ("$..role", {"$set": {"deep.er.0.role": "admin"}}),
    ],
)
async def test_whoever_gets_the_role_while_a_write_is_under_way_is_not_found_by_it(
    start: Start, monkeypatch: pytest.MonkeyPatch, path: str, change: Document
) -> None:
    async with start(path) as service:
        for write in WRITES:
            seed(service, path)
            with monkeypatch.context() as patch:
                patch.setattr(service.app.store.reads, "find", promoting(service, change))
                await send(service, *write, "eve", ADA)
            user = stored(service, "eve")
            assert user is not None, write
            assert (user["password"], "admin" in str(user)) == ("hash", True), write


async def test_more_users_than_can_be_looked_at_are_refused(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(role_escalation, "MAX_USERS", 3)
    async with start("$.grants[*].role") as service:
        service.insert("users", *({"_id": f"u{n}", "kind": "x"} for n in range(3)))
        before = list(service.mongo[service.db]["users"].find())
        filter: Mapping[str, str] = {"filter": '{"kind":"x"}'}
        reply = await service.request("DELETE", "/users/*", params=filter, headers=ADA)
        assert (reply.status, "more than 3 users" in reply.text) == (400, True)
        assert list(service.mongo[service.db]["users"].find()) == before


async def test_a_thousand_users_are_written_at_once(start: Start) -> None:
    async with start("$.grants[*].role") as service:
        many = ({"_id": f"u{n}", "kind": "y", "grants": [{"role": "user"}]} for n in range(1000))
        service.insert("users", *many)
        filter = {"filter": '{"kind":"y"}'}
        reply = await service.request(
            "PATCH", "/users/*", params=filter, json={"team": "b"}, headers=ADA
        )
        assert (reply.status, reply.json["modified"]) == (200, 1000), reply.text


async def test_plain_paths_need_no_read(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    find = StoreReads.find

    async def watched(self: StoreReads, db: str, collection: str, *rest: Any, **more: Any) -> Any:
        read.append(collection)
        return await find(self, db, collection, *rest, **more)

    async with start("$.profile.roles") as service:
        monkeypatch.setattr(StoreReads, "find", watched)
        assert await send(service, "PATCH", "/users/eve", {"team": "b"}, "eve", ADA) == 200
    assert "users" not in read


NAMES: list[tuple[str, str, Any]] = [
    ("POST", "/users", {"_id": "new", "email": "boss@x", "password": SECRET}),
    ("POST", "/users", [{"_id": "new", "email": ["new@x", "boss@x"], "password": SECRET}]),
    ("PUT", "/users/new?wm=upsert", {"email": "boss@x", "password": SECRET}),
    ("PATCH", "/users/eve", {"email": "boss@x"}),
    ("PATCH", "/users/eve", {"$push": {"email": "boss@x"}}),
    ("PATCH", "/users/eve", {"$rename": {"nick": "email"}}),
    ("PATCH", "/users/eve", [{"$set": {"email": {"$concat": ["boss", "@x"]}}}]),
    ("PATCH", '/users/new?wm=upsert&filter={"email":"boss@x"}', {"password": SECRET}),
    ("PATCH", '/users/*?filter={"_id":"eve"}', {"$set": {"email": "boss@x"}}),
]


@pytest.mark.parametrize("path", ["$.roles", "$.grants[*].role"])
async def test_nobody_else_gets_the_name_of_an_administrator(start: Start, path: str) -> None:
    async with start(path, **{"prop-id": "email"}) as service:
        users = service.mongo[service.db]["users"]
        users.update_one({"_id": "eve"}, {"$set": {"nick": "boss@x"}})
        for method, url, body in NAMES:
            reply = await service.request(method, url, headers=ADA, json=body)

            assert reply.status == 403, (method, url, body, reply.text)
            assert [one["_id"] for one in users.find({"email": "boss@x"})] == ["boss"]

        for method, url, body in (
            ("POST", "/users", {"_id": "new", "email": "new@x", "password": SECRET}),
            ("PATCH", "/users/eve", {"email": "other@x", "password": SECRET}),
            ("PATCH", "/users/eve", [{"$set": {"kind": "y"}}]),
        ):
            assert (await service.request(method, url, headers=ADA, json=body)).status in (200, 201)


@pytest.mark.parametrize(("path", "status"), [("$.roles", 403), ("$.grants[*].role", 400)])
async def test_the_name_of_an_administrator_is_found_among_many(
    start: Start, monkeypatch: pytest.MonkeyPatch, path: str, status: int
) -> None:
    """A write with more names than users are read does not hide one of them."""
    monkeypatch.setattr(role_escalation, "MAX_USERS", 3)
    async with start(path, **{"prop-id": "email"}) as service:
        users = service.mongo[service.db]["users"]
        boss = users.find_one_and_delete({"_id": "boss"})  # the last one that the database finds
        assert boss is not None
        service.insert("users", *({"_id": f"u{n}", "email": f"u{n}@x"} for n in range(5)), boss)
        names = [f"u{n}@x" for n in range(5)]
        body = [{"_id": f"of {name}", "email": name} for name in (*names, "boss@x")]

        reply = await service.request("POST", "/users", headers=ADA, json=body)
        assert reply.status == status, reply.text
        assert [one["_id"] for one in users.find({"email": "boss@x"})] == ["boss"]

        reply = await service.request("POST", "/users", headers=ADA, json=body[:3])
        assert reply.status == 200, reply.text
