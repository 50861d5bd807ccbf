"""What another instance, or a command, writes is live within two seconds without change streams.

The server is told that there are none, as on a standalone, and the rounds are far apart, so that
only the versions can tell. See `store/versions.py`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from docgraph.exchange import Write, WriteKind
from docgraph.observe.events import BackgroundFailed
from docgraph.runtime import Instance
from docgraph.store.versions import Versions
from tests.http.harness import (
    Document,
    Mongo,
    Service,
    build_definition,
    eventually,
    failing,
    listening,
    running,
    until,
)
from tests.http.realms import COST, render_basic

pytestmark = pytest.mark.anyio

NO_STREAMS = 40573  # the code of a standalone server
SLOW = {"graphql": {"app-cache-ttr": 86_400_000}, "dbAclAuthorizer": {"cache-ttl": 86_400_000}}
RULES = {"fullAuthorizer": {"enabled": False}}
NOT_ALLOWED = 13  # the code for a missing right


@pytest.fixture
def standalone(mongo_client: Mongo) -> Iterator[None]:
    """Every stream is refused; these tests aggregate for no other reason."""
    with failing(mongo_client, "aggregate", errorCode=NO_STREAMS):
        yield


@pytest.fixture
def start(
    mongo_client: Mongo, mongo_uri: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> Any:
    """`async with start(*settings)`: an instance; all of a test share one database."""
    monkeypatch.setattr("docgraph.store.versions._POLL_EVERY", 0.05)

    @asynccontextmanager
    async def open_with(*settings: Document) -> AsyncIterator[Service]:
        own = {"dbAclAuthorizer": {"acl-db": database}}
        async with running(
            mongo_client, mongo_uri, SLOW, own, *settings, db=database, drop=False
        ) as service:
            yield service

    return open_with


def notes(service: Service, collection: str) -> list[Document]:
    """What the instances have said that they serve."""
    found: Any = service.mongo[service.db]["_versions"].find_one({"_id": collection})
    return [] if found is None else list(found.get("instances", []))


def app_of(id: str, field: str = "a") -> Document:
    return build_definition(id, f"type Query {{ {field}: Int }}")


async def ask(service: Service, app: str, field: str = "a") -> int:
    return (await service.query(app, f"{{ {field}: __typename }}")).status


# --- definitions and rules ------------------------------------------------------------------------


async def test_a_definition_of_another_instance_is_served_without_change_streams(
    start: Any, standalone: None
) -> None:
    async with start() as one, start() as other:
        assert [await ask(other, "a"), await ask(other, "b")] == [404, 404]
        await one.store(app_of("a"), app_of("b"))
        await until(lambda: ask(other, "a"), 200)

        await one.remove("a")
        await until(lambda: ask(other, "a"), 404)
        assert await ask(other, "b") == 200


async def test_a_rule_of_another_instance_is_in_force_without_change_streams(
    start: Any, standalone: None
) -> None:
    rule = {"_id": "r", "roles": ["$unauthenticated"], "predicate": "path-prefix('/graphql')"}
    async with start(RULES) as one, start(RULES) as other:
        await one.store(app_of("a"))
        assert await ask(other, "a") == 401
        await one.write("acl", Write(WriteKind.INSERT, (rule,)))
        await until(lambda: ask(other, "a"), 200)

        await one.write("acl", Write(WriteKind.DELETE, filter={"_id": "r"}))
        await until(lambda: ask(other, "a"), 401)


async def test_a_user_of_another_instance_has_his_new_roles_without_change_streams(
    start: Any, standalone: None, database: str
) -> None:
    realm = {"users-db": database, "create-user": False, "bcrypt-complexity": COST}
    kept = {"dbRealmAuthenticator": {**realm, "cache-enabled": True, "cache-ttl": 86_400_000}}
    login = {"authorization": render_basic("ada", "secret")}

    async def roles(service: Service) -> list[str]:
        reply = await service.request("GET", "/whoami", headers=login)
        return list(reply.json["roles"])

    async with start(kept) as one, start(kept) as other:
        ada = {"_id": "ada", "password": "secret", "roles": ["user"]}
        await one.write("users", Write(WriteKind.INSERT, (ada,)))
        await until(lambda: roles(other), ["user"])
        change = Write(WriteKind.UPDATE, update={"$set": {"roles": ["editor"]}}, filter={})
        await one.write("users", change)
        await until(lambda: roles(other), ["editor"])


# --- collections and schemas ----------------------------------------------------------------------


def kept_collections(db: str) -> Document:
    """The REST API over the database of the test; what it remembers it keeps."""
    ttls = {"local-cache-ttl": 86_400_000, "schema-cache-ttl": 86_400_000}
    return {"mongo": {"mongo-mounts": [{"what": f"/{db}", "where": "/"}], **ttls}}


def make(mongo: Mongo, database: str) -> None:
    """Have the database be there before an instance first writes to it, whenever that is."""
    mongo[database].create_collection("others")


async def put(service: Service, path: str, body: Document) -> None:
    """Make it, or replace it."""
    reply = await service.request("PUT", f"{path}?wm=upsert", json=body)
    assert reply.status in (200, 201), reply.text


async def test_metadata_and_schemas_of_another_instance_hold_without_change_streams(
    start: Any, standalone: None, mongo_client: Mongo, database: str
) -> None:
    make(mongo_client, database)
    kept = kept_collections(database)

    async def write(n: Any) -> int:
        return int((await other.request("POST", "/things", json={"n": n})).status)

    async with start(kept) as one, start(kept) as other:
        await put(one, "/_schemas", {})
        await put(one, "/_schemas/number", {"properties": {"n": {"type": "integer"}}})
        await put(one, "/things", {})
        assert await write("text") == 201
        await put(one, "/things", {"jsonSchema": {"schemaId": "number"}})
        await until(lambda: write("text"), 400)
        assert await write(1) == 201

        await put(one, "/_schemas/number", {"properties": {"n": {"type": "string"}}})
        await until(lambda: write(1), 400)
        assert await write("text") == 201


async def test_a_database_that_is_dropped_is_not_brought_back_by_its_version(
    start: Any, mongo_client: Mongo, database: str
) -> None:
    make(mongo_client, database)
    everything = {"mongo": {"mongo-mounts": [{"what": "*", "where": "/"}]}}
    version = {"_id": "_properties"}
    async with start(everything) as service:
        await put(service, f"/{database}/things", {})
        assert mongo_client[database]["_versions"].count_documents(version) == 1
        reply = await service.request("DELETE", f"/{database}", headers={"If-Match": "*"})
        assert reply.status == 204, reply.text
        assert mongo_client[database]["_versions"].count_documents(version) == 0


# --- who serves what, without a cache -------------------------------------------------------------


async def test_an_instance_without_cache_says_what_it_serves_too(start: Any) -> None:
    async with start({"graphql": {"app-cache-enabled": False}}) as service:
        await service.store(app_of("a"))
        await eventually(lambda: [one["version"] for one in notes(service, "gql-apps")] == [1])


# --- who serves what ------------------------------------------------------------------------------


async def test_each_instance_has_one_entry_as_long_as_it_runs(start: Any) -> None:
    async with start() as one:
        async with start():
            for collection in ("gql-apps", "acl"):
                await eventually(lambda: len(notes(one, collection)) == 2)  # noqa: B023 - awaited here
            await one.store(app_of("a"))
            await eventually(lambda: [x["version"] for x in notes(one, "gql-apps")] == [1, 1])
        assert len(notes(one, "gql-apps")) == len(notes(one, "acl")) == 1
        assert all(note["process"] and note["host"] for note in notes(one, "acl"))


async def test_old_entries_go_and_there_are_never_more_than_200(start: Any) -> None:
    def build_note(number: int, age: float) -> Document:
        seen = datetime.now(UTC) - timedelta(seconds=age)
        return {"instance": f"i{number}", "host": "h", "process": 1, "version": 0, "seen": seen}

    async with start() as service:
        versions = Versions(service.app.store, service.db, "things")
        instance: Instance = service.app._instance
        collection = service.mongo[service.db]["_versions"]
        crowd = [build_note(number, 5) for number in range(300)]
        old = [build_note(number, 3600) for number in range(300, 310)]
        collection.insert_one({"_id": "things", "instances": [*crowd, *old]})
        await versions.record(instance, 7)

        found = notes(service, "things")
        assert len(found) == 200
        assert (found[-1]["instance"], found[-1]["version"]) == (instance.id, 7)
        assert {one["instance"] for one in old}.isdisjoint(one["instance"] for one in found)


async def test_an_instance_that_may_not_write_follows_and_says_so_once(
    start: Any, mongo_client: Mongo
) -> None:
    async with start() as service:
        follower = service.app.plugins.find("graphAppsUpdater").versions
        await service.app._tasks.stop("graphAppsUpdater-version")
        place = f"{service.db}._versions"
        collection = service.mongo[service.db]["_versions"]
        with (
            failing(mongo_client, "update", errorCode=NOT_ALLOWED, namespace=place),
            listening(BackgroundFailed) as failures,
        ):
            for number in (1, 2, 3):
                collection.update_one({"_id": "gql-apps"}, {"$set": {"version": number}}, True)
                service.definitions.insert_one(app_of(f"app{number}"))
                await follower.poll()
                assert await ask(service, f"app{number}") == 200

        mine = [one for one in failures if one.task.startswith("graphAppsUpdater-")]
        assert [one.task for one in mine] == ["graphAppsUpdater-note"]


async def test_a_write_whose_announcement_fails_is_done(start: Any, mongo_client: Mongo) -> None:
    async with start() as service:
        place = f"{service.db}._versions"
        with (
            failing(mongo_client, "update", errorCode=NOT_ALLOWED, namespace=place),
            listening(BackgroundFailed) as failures,
        ):
            await service.store(app_of("a"))
        assert await ask(service, "a") == 200
        assert "announce gql-apps" in [one.task for one in failures]


async def test_what_another_program_has_put_there_counts_as_nothing_and_does_not_stay(
    start: Any,
) -> None:
    junk: list[Document] = [
        {"version": float("nan")},
        {"version": float("-inf"), "instances": {"a": 1}},
        {"version": "new", "instances": "none"},
        {"version": None, "instances": [1, {"seen": datetime.now(UTC)}, {"instance": 5}]},
    ]
    async with start() as service:
        instance: Instance = service.app._instance
        collection = service.mongo[service.db]["_versions"]
        for number, one in enumerate(junk):
            name = f"things{number}"
            versions = Versions(service.app.store, service.db, name)
            collection.insert_one({"_id": name, **one})
            assert (await versions.read(), await versions.find_served()) == (0, [])

            await versions.announce()
            await versions.record(instance, 1)

            assert await versions.read() == 1
            assert [one.instance for one in await versions.find_served()] == [instance.id]


# --- waiting for them -----------------------------------------------------------------------------


class Clock:
    """A clock that only waiting moves on; `turn` is called whenever it does."""

    def __init__(self, turn: Any = lambda: None) -> None:
        self.now = 0.0
        self._turn = turn

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.now += seconds
        await asyncio.to_thread(self._turn)


@pytest.fixture
async def waiting(start: Any) -> AsyncIterator[tuple[Versions, Any]]:
    """The versions of a collection, in which an instance has an older one than the present."""
    async with start() as service:
        late = {"host": "web1", "process": 12, "version": 1, "instance": "x"}
        seen = service.mongo.admin.command("hello")["localTime"]
        collection = service.mongo[service.db]["_versions"]
        entry = {"_id": "things", "version": 2, "instances": [{**late, "seen": seen}]}
        collection.insert_one(entry)
        yield Versions(service.app.store, service.db, "things"), collection


async def test_who_has_not_taken_up_a_change_within_five_seconds_is_named(
    waiting: Any,
) -> None:
    versions, collection = waiting
    old = {"$set": {"instances.0.seen": datetime.now(UTC) - timedelta(seconds=20)}}
    clock = Clock(lambda: collection.update_one({"_id": "things"}, old))  # it hangs
    spread = await versions.await_served(clock=clock, sleep=clock.sleep)
    assert 5 <= clock.now < 6
    assert (list(map(str, spread.late)), spread.live) == (["web1 (process 12)"], [])


async def test_waiting_ends_when_all_have_taken_it_up(
    waiting: Any,
) -> None:
    versions, collection = waiting
    taken = {"$set": {"instances.0.version": 2}}
    clock = Clock(lambda: collection.update_one({"_id": "things"}, taken))
    spread = await versions.await_served(clock=clock, sleep=clock.sleep)
    assert clock.now < 1
    assert (list(map(str, spread.live)), spread.late) == (["web1 (process 12)"], [])


async def test_nobody_waits_for_an_instance_that_was_not_seen_of_late(
    waiting: Any,
) -> None:
    versions, collection = waiting
    old = datetime.now(UTC) - timedelta(seconds=30)
    collection.update_one({"_id": "things"}, {"$set": {"instances.0.seen": old}})
    clock = Clock()
    spread = await versions.await_served(clock=clock, sleep=clock.sleep)
    assert clock.now == 0
    assert (spread.live, spread.late) == ([], [])
