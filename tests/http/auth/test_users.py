"""Reads and writes of the users collection: decision 34 at the border of the store (drill A12)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, ClassVar

import bcrypt
import pytest

from docgraph.auth.authenticators.first_user import FirstUser
from docgraph.config.section import PluginConfig
from docgraph.exchange import Deadline, Read, Write, WriteKind
from docgraph.exchange.errors import (
    RequestError,
    SecurityViolation,
    StoreError,
)
from docgraph.plugins.kinds import DataInterceptor, Provider
from docgraph.server.app import Docgraph
from docgraph.server.builtin import BUILTIN
from tests.databases import drop, new_name
from tests.http.harness import Mongo, eventually
from tests.http.hosts import module_application
from tests.http.realms import Realm, hashed, open_realm

pytestmark = pytest.mark.anyio

Open = Callable[..., AbstractAsyncContextManager[Realm]]
ADA = {"_id": "ada", "password": hashed("secret"), "roles": ["user"], "plain": "x"}
SOON = Deadline.never()


class Ended(Provider):
    """Stands in for `token-revocations`: remembers whose tokens were ended."""

    name: ClassVar[str] = "ended"
    provides: ClassVar[str] = "token-revocations"
    users: ClassVar[list[str]] = []

    def __init__(self, config: PluginConfig) -> None:
        self.users.clear()

    def get(self) -> Any:
        return self

    async def stamp_many(self, users: Collection[str]) -> None:
        self.users.extend(users)

    async def keep_up(self) -> None:
        """Nothing to learn."""

    def is_revoked(self, *_: Any) -> bool:
        return False


# Our own provider in the place of the built-in one.
WITH_ENDED = (
    *(one for one in BUILTIN if getattr(one, "provides", "") != "token-revocations"),
    Ended,
)


@pytest.fixture
def open_(mongo_client: Mongo, mongo_uri: str, database: str) -> Open:
    def open_this(*settings: Any, **options: Any) -> AbstractAsyncContextManager[Realm]:
        return open_realm(mongo_client, mongo_uri, database, *settings, **options)

    return open_this


@asynccontextmanager
async def open_shared(mongo: Mongo, uri: str, **options: Any) -> AsyncIterator[Realm]:
    """A realm for many tests, with a database of its own."""
    db = new_name()
    try:
        async with open_realm(mongo, uri, db, **options) as realm:
            yield realm
    finally:
        drop(mongo, db)


@module_application
async def shared_realm(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Realm]:
    async with open_shared(mongo_client, mongo_uri) as realm:
        yield realm


@pytest.fixture
async def realm(shared_realm: Realm) -> Realm:
    """With Ada alone."""
    await shared_realm.write(WriteKind.DELETE, filter={}, many=True)
    shared_realm.users.insert_one(dict(ADA))
    return shared_realm


@module_application
async def shared_ending_realm(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Realm]:
    async with open_shared(mongo_client, mongo_uri, plugins=WITH_ENDED) as realm:
        yield realm


@pytest.fixture
async def ending_realm(shared_ending_realm: Realm) -> Realm:
    """With nobody, for whom nothing has ended."""
    await shared_ending_realm.write(WriteKind.DELETE, filter={}, many=True)
    Ended.users.clear()
    return shared_ending_realm


def is_hash_of(stored: Any, password: str) -> bool:
    return isinstance(stored, str) and bcrypt.checkpw(password.encode(), stored.encode())


# --- writing --------------------------------------------------------------------------------------

NEW = "brand new"
SHAPES: dict[str, Write] = {
    "insert": Write(WriteKind.INSERT, ({"_id": "new", "password": NEW},)),
    "insert of several": Write(
        WriteKind.INSERT, ({"_id": "none"}, {"_id": "new", "password": NEW}, {"_id": "nil"})
    ),
    "replace": Write(WriteKind.REPLACE, ({"_id": "ada", "password": NEW},)),
    "replace by filter": Write(WriteKind.REPLACE, ({"password": NEW},), filter={"_id": "ada"}),
    "replace that inserts": Write(
        WriteKind.REPLACE, ({"_id": "new", "password": NEW},), upsert=True
    ),
    "replace of several": Write(
        WriteKind.REPLACE, ({"_id": "ada"}, {"_id": "new", "password": NEW}), upsert=True
    ),
    "$set": Write(WriteKind.UPDATE, update={"$set": {"password": NEW}}, filter={"_id": "ada"}),
    "$set beside a dotted key": Write(
        WriteKind.UPDATE,
        update={"$set": {"password": NEW, "roles.0": "x"}},
        filter={"_id": "ada"},
    ),
    "$set that inserts": Write(
        WriteKind.UPDATE, update={"$set": {"password": NEW}}, filter={"_id": "new"}, upsert=True
    ),
    "$setOnInsert": Write(
        WriteKind.UPDATE,
        update={"$setOnInsert": {"password": NEW}},
        filter={"_id": "new"},
        upsert=True,
    ),
    "update of many": Write(
        WriteKind.UPDATE, update={"$set": {"password": NEW}}, filter={"roles": "user"}, many=True
    ),
    "looks hashed": Write(WriteKind.INSERT, ({"_id": "new", "password": hashed("x")},)),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_password_is_hashed_in_every_shape_of_a_write(realm: Realm, shape: str) -> None:
    write = SHAPES[shape]
    await realm.service.write("users", write)
    password = write.documents[0]["password"] if shape == "looks hashed" else NEW
    name = "new" if realm.users.count_documents({"_id": "new"}) else "ada"
    stored = realm.users.find_one({"_id": name})["password"]
    assert stored.startswith("$2a$04$")
    assert is_hash_of(stored, password)
    assert await realm.login(name, password) == 200
    for document in realm.users.find({"_id": {"$in": ["none", "nil"]}}):
        assert "password" not in document


@pytest.mark.parametrize(
    "update",
    [
        {"$rename": {"password": "shown"}},
        {"$rename": {"plain": "password"}},
        {"$max": {"password": "$2c"}},
        {"$push": {"password": "x"}},
        {"$currentDate": {"password": True}},
        {"$set": {"password.x": "y"}},
        {"$set": {"password": 7}},
    ],
)
async def test_other_ways_of_writing_it_are_refused_and_nothing_is_written(
    realm: Realm, update: dict[str, Any]
) -> None:
    with pytest.raises(RequestError) as refused:
        await realm.write(WriteKind.UPDATE, update=update, filter={"_id": "ada"})
    assert refused.value.status == 400
    assert realm.users.find_one() == ADA


async def test_pipelines_that_copy_or_set_it_are_refused(realm: Realm) -> None:
    for stage in (
        {"$set": {"shown": "$password"}},
        {"$set": {"password": "$plain"}},
        {"$replaceWith": {"_id": "ada", "password": "x"}},
        {"$set": {"all": "$$ROOT"}},
    ):
        with pytest.raises((RequestError, SecurityViolation)):
            await realm.write(WriteKind.UPDATE, pipeline=(stage,), filter={"_id": "ada"})
    assert realm.users.find_one() == ADA


async def test_a_password_can_be_taken_away(realm: Realm) -> None:
    await realm.update("ada", unset={"password": ""})
    assert "password" not in realm.users.find_one()
    await realm.update("ada", set={"password": None})
    assert realm.users.find_one()["password"] is None
    assert await realm.login("ada", "secret") == 401
    assert await realm.login("ada", "") == 401


async def test_too_long_is_refused_in_every_document_before_anything_is_written(
    realm: Realm,
) -> None:
    with pytest.raises(RequestError, match="72 bytes"):
        await realm.insert({"_id": "a", "password": "fine"}, {"_id": "b", "password": "é" * 37})
    assert realm.users.count_documents({}) == 1


async def test_passwords_that_other_interceptors_put_in_are_hashed_too(open_: Open) -> None:
    class Generous(DataInterceptor):
        name: ClassVar[str] = "generous"

        def resolve(self, resource: Any) -> bool:
            return bool(resource.collection == "users")

        async def before_write(self, exchange: Any, resource: Any, write: Write) -> Write:
            (document,) = write.documents
            return Write(WriteKind.INSERT, ({**document, "password": "given"},))

    async with open_(plugins=(*BUILTIN, Generous)) as realm:
        await realm.insert({"_id": "joe"})
        assert is_hash_of(realm.users.find_one()["password"], "given")


async def test_weak_passwords_are_refused_with_the_way_to_do_better(open_: Open) -> None:
    strict = {"enforce-minimum-password-strength": True, "minimum-password-strength": 3}
    async with open_(**strict) as realm:
        with pytest.raises(RequestError, match=r"^Password is too weak$") as refused:
            await realm.insert({"_id": "joe", "password": "monkey123"})
        assert refused.value.status == 400
        assert set(refused.value.fields) == {"warning", "suggestions"}
        index = r"^Password is too weak in user document at index 1$"
        with pytest.raises(RequestError, match=index):
            await realm.insert(
                {"_id": "a", "password": "correct horse battery"}, {"_id": "b", "password": "b"}
            )
        with pytest.raises(RequestError, match="too weak"):
            await realm.update("joe", set={"password": "monkey123"})
        with pytest.raises(RequestError, match="too weak"):
            await realm.insert({"_id": "zygomorphic", "password": "zygomorphic"})
        assert realm.users.count_documents({}) == 0
        await realm.insert({"_id": "joe", "password": "correct horse battery"})
        assert await realm.login("joe", "correct horse battery") == 200


async def test_strength_is_asked_for_without_hashing_as_well(open_: Open) -> None:
    options = {"enforce-minimum-password-strength": True, "bcrypt-hashed-password": False}
    async with open_(**options) as realm:
        with pytest.raises(RequestError, match="too weak"):
            await realm.insert({"_id": "joe", "password": "monkey123"})
        await realm.insert({"_id": "joe", "password": "correct horse battery" * 10})


async def test_digest_secrets_need_a_name(open_: Open) -> None:
    async with open_(**{"prop-ha1": "ha1"}) as realm:
        await realm.insert({"_id": "joe", "password": "x", "roles": ["user"]})
        with pytest.raises(RequestError, match="one user at a time"):
            await realm.write(
                WriteKind.UPDATE,
                update={"$set": {"password": "y"}},
                filter={"roles": "user"},
                many=True,
            )
        with pytest.raises((RequestError, SecurityViolation)):
            await realm.update("joe", set={"ha1": "0" * 32})


# --- what follows a write -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("write", "users"),
    [
        (
            Write(WriteKind.UPDATE, update={"$set": {"password": "n"}}, filter={"_id": "ada"}),
            ["ada"],
        ),
        (
            Write(WriteKind.UPDATE, update={"$unset": {"password": ""}}, filter={"_id": "ada"}),
            ["ada"],
        ),
        (Write(WriteKind.UPDATE, update={"$set": {"x": 1}}, filter={"_id": "ada"}), []),
        (Write(WriteKind.UPDATE, update={"$set": {"password": "n"}}, filter={"_id": "eve"}), []),
        (Write(WriteKind.REPLACE, ({"_id": "ada", "password": "n"},)), ["ada"]),
        (Write(WriteKind.DELETE, filter={"_id": "ada"}), ["ada"]),
        (Write(WriteKind.DELETE, filter={"roles": "user"}, many=True), ["ada", "bob"]),
        (Write(WriteKind.INSERT, ({"_id": "eve", "password": "n"},)), []),
    ],
)
async def test_tokens_end_with_the_user_and_with_the_password(
    ending_realm: Realm, write: Write, users: list[str]
) -> None:
    """Decision 32."""
    ending_realm.users.insert_many([dict(ADA), {**ADA, "_id": "bob"}])
    await ending_realm.service.write("users", write)
    assert sorted(Ended.users) == users


async def test_a_write_that_fails_ends_nothing(ending_realm: Realm) -> None:
    ending_realm.users.insert_one(dict(ADA))
    with pytest.raises(StoreError):
        await ending_realm.write(
            WriteKind.UPDATE,
            update={"$set": {"password": "n"}, "$inc": {"roles": 1}},
            filter={"_id": "ada"},
        )
    await ending_realm.insert({"_id": "joe"})
    assert Ended.users == []


async def test_each_write_moves_the_generation_of_users(realm: Realm) -> None:
    """The watcher of the collection moves it again, later."""
    generations = realm.service.app.plugins.values["generations"]
    before = generations.read("users")
    await realm.update("ada", set={"x": 1})
    assert generations.read("users") > before


# --- reading --------------------------------------------------------------------------------------


async def test_no_read_gives_the_password_back(realm: Realm) -> None:
    store, db = realm.service.app.store, realm.db
    posts = realm.service.mongo[db]["posts"]
    posts.insert_one({"_id": 1, "author": "ada"})
    join = {"from": "users", "localField": "author", "foreignField": "_id", "as": "who"}
    everything = (
        store.reads.read(realm.place(), Read(), deadline=SOON),
        store.find(db, "users", {}, limit=10, deadline=SOON),
        store.aggregate(db, "users", [], limit=10, deadline=SOON),
        store.aggregate(db, "users", [{"$project": {"x": "$password"}}], limit=10, deadline=SOON),
        store.aggregate(
            db, "users", [{"$project": {"x": {"$objectToArray": "$$ROOT"}}}], limit=9, deadline=SOON
        ),
        store.aggregate(db, "posts", [{"$lookup": join}], limit=10, deadline=SOON),
        store.aggregate(db, "posts", [{"$unionWith": "users"}], limit=10, deadline=SOON),
    )
    for read in everything:
        documents = await realm.service.there(read)
        assert documents
        assert "$2" not in repr(documents)
    posts.drop()


@pytest.mark.parametrize(
    "filter",
    [
        {"password": {"$regex": "^a"}},
        {"$or": [{"x": 1}, {"$and": [{"password": {"$exists": True}}]}]},
        {"$expr": {"$eq": [{"$substrCP": ["$password", 0, 1]}, "a"]}},
    ],
)
async def test_nobody_filters_or_sorts_by_the_password(
    realm: Realm, filter: dict[str, Any]
) -> None:
    store = realm.service.app.store
    for read in (Read(filter=filter), Read(sort=[("password", 1)])):
        with pytest.raises(SecurityViolation):
            await realm.service.there(store.reads.read(realm.place(), read, deadline=SOON))
    with pytest.raises(SecurityViolation):
        await realm.write(WriteKind.DELETE, filter=filter, many=True)
    assert realm.users.count_documents({}) == 1


async def test_change_streams_do_not_show_it_either(realm: Realm) -> None:
    async def watch() -> list[Any]:
        async with realm.service.app.store.streams.watch(realm.db, "users") as changes:
            await realm.update("ada", set={"password": "new", "x": 1})
            await realm.insert({"_id": "joe", "password": "y"})
            return [await anext(changes), await anext(changes)]

    events = await realm.service.there(watch())

    assert events[0]["fullDocument"]["x"] == 1
    assert "$2" not in repr(events)


# --- first start ----------------------------------------------------------------------------------


async def test_an_empty_collection_gets_an_admin_whose_password_is_told_once(
    open_: Open, capfd: pytest.CaptureFixture[str]
) -> None:
    """Decision 35."""
    async with open_(**{"create-user": True}) as realm:
        await eventually(lambda: realm.users.count_documents({}))
        told = await eventually(lambda: capfd.readouterr().err)
        password = told.split("password  ")[1].split("\n")[0]
        assert len(password) >= 20
        reply = await realm.get("admin", password)
        assert (reply.status, reply.json["roles"]) == (200, ["admin"])
        assert is_hash_of(realm.users.find_one()["password"], password)
    async with open_(**{"create-user": True}) as realm:
        assert await realm.login("admin", password) == 200
    assert "password  " not in capfd.readouterr().err


async def test_somebody_at_a_terminal_is_told_when_the_server_has_said_that_it_is_ready(
    open_: Open, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docgraph.auth.authenticators.first_user.is_terminal", lambda: True)
    async with open_(**{"create-user": True}) as realm:
        await eventually(lambda: realm.users.count_documents({}))
        assert "password  " not in capfd.readouterr().err
        realm.service.app.plugins.values["generations"].bump("ready")
        assert "password  " in await eventually(lambda: capfd.readouterr().err)
    assert "password  " not in capfd.readouterr().err


async def test_a_server_that_is_stopped_before_it_is_ready_still_tells_the_password(
    open_: Open, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docgraph.auth.authenticators.first_user.is_terminal", lambda: True)
    async with open_(**{"create-user": True}) as realm:
        await eventually(lambda: realm.users.count_documents({}))
        assert "password  " not in capfd.readouterr().err
    assert "password  " in capfd.readouterr().err


async def test_the_configured_user_is_stored_as_it_is(
    open_: Open, capfd: pytest.CaptureFixture[str]
) -> None:
    first = hashed("secret", 5)
    text = f'{{"_id": "root", "password": "{first}", "roles": ["admin"], "since": {{"$date": 0}}}}'
    async with open_(**{"create-user": True, "create-user-document": text}) as realm:
        stored = await eventually(lambda: realm.users.find_one({"_id": "root"}))
        assert stored["password"] == first
        assert stored["since"].year == 1970
        assert await realm.login("root", "secret") == 200
    assert "root" not in capfd.readouterr().err


@pytest.fixture
def initialized(monkeypatch: pytest.MonkeyPatch) -> list[FirstUser]:
    """The initializers that have come to their end."""
    done: list[FirstUser] = []
    original = FirstUser.initialize

    async def note(self: FirstUser) -> None:
        await original(self)
        done.append(self)

    monkeypatch.setattr(FirstUser, "initialize", note)
    return done


@pytest.mark.parametrize("create", [True, False])
async def test_where_there_are_users_or_nobody_is_wanted_nobody_is_made(
    open_: Open, mongo_client: Mongo, database: str, initialized: list[FirstUser], create: bool
) -> None:
    if create:
        mongo_client[database]["users"].insert_one(dict(ADA))
    async with open_(**{"create-user": create}) as realm:
        await eventually(lambda: initialized)
        assert [one["_id"] for one in realm.users.find()] == (["ada"] if create else [])


async def test_two_who_race_make_one_user_and_one_of_them_says_so(
    open_: Open,
    mongo_uri: str,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    initialized: list[FirstUser],
) -> None:
    """Decision 35, two workers at the same moment."""
    waiting = asyncio.Barrier(2)
    original = FirstUser._is_empty

    async def both_see_nobody(self: FirstUser, realm: Any) -> bool:
        empty = await original(self, realm)
        await waiting.wait()
        return empty

    monkeypatch.setattr(FirstUser, "_is_empty", both_see_nobody)
    async with open_(ready=False, **{"create-user": True}) as realm:
        app = realm.service.app
        other = Docgraph(app._prepared, app._instance.for_worker(2), mongo_uri)
        await other.startup()
        try:
            await eventually(lambda: len(initialized) == 2)
            assert realm.users.count_documents({}) == 1
            told = capfd.readouterr().err
            assert told.count("password  ") == 1
            password = told.split("password  ")[1].split("\n")[0]
            assert await realm.login("admin", password) == 200
        finally:
            await other.shutdown()


async def test_the_first_user_has_the_shape_of_the_section(
    open_: Open, capfd: pytest.CaptureFixture[str]
) -> None:
    options = {"prop-id": "profile.mail", "json-path-roles": "$.profile.roles", "create-user": True}
    async with open_(**options) as realm:
        stored = await eventually(realm.users.find_one)
        assert stored["_id"] == "admin"
        assert stored["profile"] == {"mail": "admin", "roles": ["admin"]}
