"""Logging in against `dbRealmAuthenticator`, option by option."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import pytest

from docgraph.auth import passwords as passwords_module
from docgraph.auth.authenticators.db_users import DatabaseRealm
from docgraph.auth.passwords import build_ha1
from docgraph.exchange import ConfigError, StartupError, WriteKind
from docgraph.exchange.errors import StoreUnavailable
from docgraph.observe.engine_events import CommandFinished
from docgraph.observe.events import DatabaseFound
from docgraph.server.app import Docgraph
from tests.http.harness import Mongo, failing, listening
from tests.http.realms import COST, Realm, hashed, open_realm

pytestmark = pytest.mark.anyio

Open = Callable[..., AbstractAsyncContextManager[Realm]]
ADA = {"_id": "ada", "password": hashed("secret"), "roles": ["admin", "user"], "team": "x"}


@pytest.fixture
def open_(mongo_client: Mongo, mongo_uri: str, database: str) -> Open:
    mongo_client[database]["users"].insert_one(dict(ADA))

    def open_this(*settings: Any, **options: Any) -> AbstractAsyncContextManager[Realm]:
        return open_realm(mongo_client, mongo_uri, database, *settings, **options)

    return open_this


@pytest.fixture
def hashes(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hashes that passwords were compared with."""
    seen: list[str] = []
    original = passwords_module._matches

    def count(given: bytes, expected: str, cost: int) -> bool:
        seen.append(expected)
        return original(given, expected, cost)

    monkeypatch.setattr(passwords_module, "_matches", count)
    return seen


async def test_the_right_password_gives_the_account_of_the_user_document(open_: Open) -> None:
    """Decision 19: `@user` is the user document without the password."""
    async with open_() as realm:
        reply = await realm.get("ada", "secret")
    assert reply.status == 200
    assert reply.json == {
        "name": "ada",
        "roles": ["admin", "user"],
        "kind": "database",
        "properties": {"_id": "ada", "roles": ["admin", "user"], "team": "x"},
    }


@pytest.mark.parametrize(
    ("user", "password"),
    [("ada", "wrong"), ("ada", ""), ("Ada", "secret"), ("eve", "secret"), ("", ""), ("$ne", "x")],
)
async def test_anything_else_is_401(open_: Open, user: str, password: str) -> None:
    async with open_() as realm:
        assert await realm.login(user, password) == 401


async def test_an_unknown_user_and_a_wrong_password_get_the_same_answer(open_: Open) -> None:
    """Drill A09."""
    async with open_() as realm:
        known, unknown = await realm.get("ada", "wrong"), await realm.get("eve", "wrong")
    ignored = {"date", "x-request-id"}
    assert known.status == unknown.status == 401
    assert known.text == unknown.text
    assert {k: v for k, v in known.headers.items() if k not in ignored} == {
        k: v for k, v in unknown.headers.items() if k not in ignored
    }


async def test_an_unknown_user_takes_as_much_work_as_a_wrong_password(
    open_: Open, hashes: list[str]
) -> None:
    """Drill A08, through the whole of the server: hashes of the same cost, the same commands."""
    work: dict[str, Any] = {}
    async with open_({"rndTokenManager": {"enabled": False}}) as realm:
        await realm.login("eve", "wrong")  # who comes first may find more to do
        for user in ("ada", "joe"):
            hashes.clear()
            with listening(CommandFinished) as commands:
                assert await realm.login(user, "wrong") == 401
            costs = [one[:7] for one in hashes]
            work[user] = costs, [one.command for one in commands if one.collection == "users"]
    assert work["ada"] == work["joe"] == ([f"$2b$0{COST}$"], ["find"])


@pytest.mark.parametrize(
    "user",
    [
        {"_id": 7, "password": hashed("x")},
        {"_id": ["joe"], "password": hashed("x")},
        {"_id": "joe"},
        {"_id": "joe", "password": None},
        {"_id": "joe", "password": 7},
        {"_id": "joe", "password": "x"},
        {"_id": "joe", "password": hashed("x"), "roles": "admin"},
    ],
)
async def test_a_document_without_the_shape_of_a_user_never_logs_in(
    open_: Open, user: dict[str, Any]
) -> None:
    async with open_() as realm:
        if isinstance(user["_id"], list):
            user = {**user, "_id": {"name": user["_id"]}}
        realm.users.insert_one(dict(user))
        assert await realm.login("joe", "x") == 401
        assert await realm.login("7", "x") == 401


async def test_the_id_may_be_a_nested_property_and_two_of_a_name_are_nobody(open_: Open) -> None:
    async with open_(**{"prop-id": "profile.mail"}) as realm:
        joe = {"profile": {"mail": "joe@x"}, "password": hashed("x"), "roles": ["a"]}
        realm.users.insert_one(dict(joe))
        assert (await realm.get("joe@x", "x")).json["name"] == "joe@x"
        assert await realm.login("ada", "secret") == 401
        realm.users.insert_one(dict(joe))
        assert await realm.login("joe@x", "x") == 401


async def test_other_names_of_properties_and_another_path_of_roles(open_: Open) -> None:
    options = {"prop-password": "pwd", "json-path-roles": "$.grants[*].role"}
    async with open_(**options) as realm:
        grants = [{"role": "a"}, {"role": "b"}]
        realm.users.insert_one({"_id": "joe", "pwd": hashed("x"), "grants": grants})
        reply = await realm.get("joe", "x")
    assert reply.json["roles"] == ["a", "b"]
    assert "pwd" not in reply.json["properties"]


@pytest.mark.parametrize("cached", [True, False])
async def test_a_removed_role_a_new_password_and_a_deleted_user_count_at_once(
    open_: Open, cached: bool
) -> None:
    """Drill A21: written through this instance, with and without the cache."""
    async with open_(**{"cache-enabled": cached}) as realm:
        assert (await realm.get("ada", "secret")).json["roles"] == ["admin", "user"]
        await realm.update("ada", set={"roles": ["user"]})
        assert (await realm.get("ada", "secret")).json["roles"] == ["user"]
        await realm.update("ada", set={"password": "another"})
        assert await realm.login("ada", "secret") == 401
        assert await realm.login("ada", "another") == 200
        await realm.write(WriteKind.DELETE, filter={"_id": "ada"})
        assert await realm.login("ada", "another") == 401


async def test_changes_by_other_programs_are_seen_at_once_without_the_cache(open_: Open) -> None:
    """Decision 34: with `cache-enabled: false` the user document is read on every request."""
    async with open_() as realm:
        assert await realm.login("ada", "secret") == 200
        realm.users.update_one({"_id": "ada"}, {"$set": {"password": hashed("new")}})
        assert await realm.login("ada", "secret") == 401
        assert await realm.login("ada", "new") == 200


async def test_changes_by_other_programs_end_the_cache_by_change_stream(open_: Open) -> None:
    async with open_(**{"cache-enabled": True, "cache-ttl": 86_400_000}) as realm:
        await realm.plugin.follower.wait_open()
        assert await realm.login("ada", "secret") == 200
        realm.users.update_one({"_id": "ada"}, {"$set": {"password": hashed("new")}})
        await realm.until("ada", "new", 200)
        assert await realm.login("ada", "secret") == 401


async def test_two_workers_of_an_instance_see_what_the_other_one_writes(
    open_: Open, mongo_uri: str
) -> None:
    """Decision 44."""
    async with open_(**{"cache-enabled": True}) as realm:
        app = realm.service.app
        other = Docgraph(app._prepared, app._instance.for_worker(2), mongo_uri)
        await other.open()
        try:
            second = next(one for one in other.plugins.plugins if isinstance(one, DatabaseRealm))
            assert await second.verify("ada", "secret") is not None
            await realm.update("ada", set={"password": "another"})
            assert await second.verify("ada", "secret") is None
            assert await second.verify("ada", "another") is not None
        finally:
            await other.shutdown()


def count_finds(events: list[CommandFinished]) -> int:
    return sum(one.command == "find" and one.collection == "users" for one in events)


@pytest.fixture
def unwatched(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache without what empties it once more when it begins: a change stream, a version."""

    async def rest(realm: DatabaseRealm) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(DatabaseRealm, "_watch", rest)
    monkeypatch.setattr(DatabaseRealm, "_follow_version", rest)


@pytest.mark.usefixtures("unwatched")
@pytest.mark.parametrize(("cached", "finds"), [(False, 5), (True, 1)])
async def test_the_cache_saves_reads_and_the_memory_saves_hashes(
    open_: Open, hashes: list[str], cached: bool, finds: int
) -> None:
    async with open_(**{"cache-enabled": cached}) as realm:
        with listening(CommandFinished) as commands:
            for _ in range(5):
                assert await realm.login("ada", "secret") == 200
    assert count_finds(commands) == finds
    assert len(hashes) == 1


@pytest.mark.usefixtures("unwatched")
async def test_names_that_somebody_makes_up_do_not_push_users_out_of_the_cache(
    open_: Open,
) -> None:
    async with open_(**{"cache-enabled": True, "cache-size": 2}) as realm:
        assert await realm.login("ada", "secret") == 200
        for number in range(5):
            assert await realm.login(f"eve{number}", "x") == 401
        with listening(CommandFinished) as commands:
            assert await realm.login("ada", "secret") == 200
    assert count_finds(commands) == 0


async def test_a_database_that_fails_is_500_and_never_401(open_: Open, mongo_client: Mongo) -> None:
    """A database that is down is 500, never 401, never 200."""
    async with open_() as realm:
        assert await realm.login("ada", "secret") == 200
        with failing(mongo_client, "find", errorCode=8):
            for _ in range(15):
                assert await realm.login("ada", "secret") == 500
                assert await realm.login("eve", "secret") == 500
        with failing(mongo_client, "find", closeConnection=True):
            assert await realm.login("ada", "secret") == 500
        await realm.until("ada", "secret", 200)  # its return is noticed


async def test_a_database_that_does_not_answer_in_time_is_500_too(
    open_: Open, mongo_client: Mongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docgraph.auth.authenticators.db_users._LOOK_MS", 100)
    async with open_() as realm:
        with (
            failing(mongo_client, "find", blockConnection=True, blockTimeMS=400),
            pytest.raises(StoreUnavailable),
        ):
            await realm.plugin.verify("ada", "secret")


async def test_plain_passwords_where_hashing_is_off(open_: Open) -> None:
    async with open_(**{"bcrypt-hashed-password": False}) as realm:
        await realm.insert({"_id": "joe", "password": "plain", "roles": []})
        assert realm.users.find_one({"_id": "joe"})["password"] == "plain"
        assert await realm.login("joe", "plain") == 200
        assert await realm.login("joe", "Plain") == 401
        ha1 = await realm.plugin.digest_secret("joe", "docgraph", "MD5")
        assert ha1 == build_ha1("MD5", "joe", "docgraph", "plain")
        assert await realm.plugin.digest_secret("eve", "docgraph", "MD5") is None


async def test_ha1_is_kept_beside_the_hash_where_it_has_a_property(open_: Open) -> None:
    """Decision 36."""
    digest = {"digestAuthMechanism": {"algorithms": ["MD5", "SHA-256"], "realm": "r"}}
    async with open_(digest, **{"prop-ha1": "ha1"}) as realm:
        await realm.insert({"_id": "joe", "password": "one", "roles": []})
        await realm.update("joe", set={"password": "two"})
        for algorithm in ("MD5", "SHA-256"):
            ha1 = await realm.plugin.digest_secret("joe", "r", algorithm)
            assert ha1 == build_ha1(algorithm, "joe", "r", "two")
        assert await realm.login("joe", "two") == 200
        assert "ha1" not in (await realm.get("joe", "two")).json["properties"]
        await realm.update("joe", unset={"password": ""})
        assert realm.users.find_one({"_id": "joe"}) == {"_id": "joe", "roles": []}


async def test_hashed_passwords_are_of_no_use_for_digest(open_: Open) -> None:
    async with open_() as realm:
        assert await realm.plugin.digest_secret("ada", "docgraph", "MD5") is None


async def test_the_account_can_be_read_again_without_a_password(open_: Open) -> None:
    async with open_() as realm:
        account = await realm.plugin.find("ada")
        assert account is not None
        assert account.roles == ("admin", "user")
        assert await realm.plugin.find("eve") is None
        assert await realm.plugin.find("\ud800") is None


# --- what does not start --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"json-path-roles": "$.roles["}, "json-path-roles"),
        ({"users-db": "admin"}, "dbRealmAuthenticator"),
        ({"users-collection": "system.users"}, "dbRealmAuthenticator"),
    ],
)
async def test_options_that_cannot_work_stop_the_start(
    open_: Open, options: dict[str, Any], place: str
) -> None:
    with pytest.raises(ConfigError, match=place):
        async with open_(**options):
            pass


@pytest.mark.parametrize("name", ["userPasswordHasher", "userChangeTeller"])
async def test_the_realm_does_not_start_without_its_guards(open_: Open, name: str) -> None:
    with pytest.raises(StartupError, match=name):
        async with open_({name: {"enabled": False}}):
            pass


async def test_without_the_realm_its_companions_rest(open_: Open) -> None:
    off = {"enabled": False}
    async with open_({"basicAuthMechanism": off, "dbRealmAuthenticator": off}) as realm:
        await realm.insert({"_id": "joe", "password": "plain"})
        assert realm.users.find_one({"_id": "joe"})["password"] == "plain"


# --- the guard, in its place ----------------------------------------------------------------------


def stop_window(realm: Realm) -> None:
    """Let no time pass for the guard: it counts what happened within some seconds."""
    guard = realm.service.app.plugins.find("bruteForceAttackGuard")
    guard._attempts._counters._clock = lambda: 0.0


async def test_twenty_wrong_logins_from_one_address(open_: Open) -> None:
    """Drill A11: at least ten are 429; others, and forged headers, change nothing."""
    async with open_() as realm:
        stop_window(realm)
        replies = [
            await realm.get("ada", f"wrong{n}", **{"x-forwarded-for": f"192.0.2.{n}"})
            for n in range(20)
        ]
        assert [one.status for one in replies] == [401] * 10 + [429] * 10
        assert replies[-1].headers["retry-after"] == "10"
        assert replies[-1].json["code"] == "too-many-requests"
        assert await realm.login("ada", "secret") == 429
        await realm.insert({"_id": "joe", "password": "fine", "roles": []})
        assert await realm.login("joe", "fine") == 200


async def test_wrong_logins_at_the_same_moment(open_: Open) -> None:
    async with open_() as realm:
        stop_window(realm)
        statuses = await asyncio.gather(*(realm.login("ada", f"wrong{n}") for n in range(20)))
    assert sorted(statuses) == [401] * 10 + [429] * 10


async def test_a_trusted_proxy_tells_the_address(open_: Open) -> None:
    async with open_({"core": {"trusted-proxies": ["127.0.0.1"]}}) as realm:
        stop_window(realm)
        for number in range(12):
            last = await realm.get("ada", f"wrong{number}", **{"x-forwarded-for": "192.0.2.1"})
        assert last.status == 429
        reply = await realm.get("ada", "secret", **{"x-forwarded-for": "192.0.2.2"})
        assert reply.status == 200


async def test_the_guard_can_be_turned_off(open_: Open) -> None:
    async with open_({"bruteForceAttackGuard": {"enabled": False}}) as realm:
        assert {await realm.login("ada", f"wrong{n}") for n in range(15)} == {401}


# --- first start ----------------------------------------------------------------------------------


async def test_a_server_starts_while_its_database_is_away(
    mongo_client: Mongo, database: str
) -> None:
    """Decision 45."""
    nowhere = "mongodb://127.0.0.1:1/?serverSelectionTimeoutMS=200"
    with listening(DatabaseFound) as found:
        options: dict[str, Any] = {"create-user": True, "cache-enabled": True}
        async with open_realm(mongo_client, nowhere, database, **options) as realm:
            assert await realm.login("ada", "secret") == 500
    assert found == []
