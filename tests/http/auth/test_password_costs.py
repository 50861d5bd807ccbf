"""What a login costs, and hashes that a login replaces (decision 53)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

import bcrypt
import pytest

from docgraph.auth.passwords import BcryptPasswords
from docgraph.observe.engine_events import CommandFinished
from docgraph.observe.event import Event
from tests.http.harness import Mongo, eventually, failing, listening
from tests.http.realms import Realm, hashed, open_realm

pytestmark = pytest.mark.anyio

Open = Callable[..., AbstractAsyncContextManager[Realm]]
ETAG = "0" * 24
JWT = {"jwtTokenManager": {"enabled": True, "key": "k" * 32}, "rndTokenManager": {"enabled": False}}


@pytest.fixture
def open_(mongo_client: Mongo, mongo_uri: str, database: str) -> Open:
    def open_this(*settings: Any, **options: Any) -> AbstractAsyncContextManager[Realm]:
        return open_realm(mongo_client, mongo_uri, database, *settings, **options)

    return open_this


@pytest.fixture
def users(mongo_client: Mongo, database: str) -> Any:
    return mongo_client[database]["users"]


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The rounds of every check of bcrypt."""
    seen: list[int] = []
    check = bcrypt.checkpw

    def count(given: bytes, expected: bytes) -> bool:
        seen.append(2 ** int(expected[4:6]))
        return check(given, expected)

    monkeypatch.setattr(bcrypt, "checkpw", count)
    return seen


def store(users: Any, name: str, password: Any, **others: Any) -> None:
    users.insert_one({"_id": name, "password": password, "roles": ["admin"], **others})


async def count_rounds(realm: Realm, rounds: list[int], user: str) -> int:
    rounds.clear()
    assert await realm.login(user, "wrong") == 401
    return sum(rounds)


# --- failed logins --------------------------------------------------------------------------------


async def test_a_scan_at_start_finds_the_most_expensive_hash(
    open_: Open, users: Any, rounds: list[int]
) -> None:
    """Whoever is tried first, known or not, and whatever else is in the collection."""
    for cost in (4, 6, 8):
        store(users, f"cost{cost}", hashed("secret", cost).replace("$2b$", "$2y$"))
    store(users, "above", "$2b$15$" + "." * 53)
    store(users, "plain", "secret")
    store(users, "number", 7)
    store(users, "list", [hashed("secret", 9)])
    store(users, "text", "$2b$xx$" + "." * 53)
    users.insert_one({"_id": "none"})
    tried = [
        "nobody",
        "cost4",
        "cost6",
        "cost8",
        "above",
        "plain",
        "number",
        "list",
        "text",
        "none",
    ]
    async with open_() as realm:
        work = {user: await count_rounds(realm, rounds, user) for user in tried}
    assert work == dict.fromkeys(tried, 2**8)


async def test_a_hash_that_comes_later_counts_from_when_it_is_read_or_written(
    open_: Open, users: Any, rounds: list[int]
) -> None:
    store(users, "ada", hashed("secret"))
    async with open_() as realm:
        assert await count_rounds(realm, rounds, "nobody") == 2**4
        store(users, "bob", hashed("secret", 7))  # by another program
        assert await count_rounds(realm, rounds, "bob") == 2**7
        assert await count_rounds(realm, rounds, "nobody") == 2**7
        assert await count_rounds(realm, rounds, "ada") == 2**7


async def test_the_first_user_of_the_configuration_counts(open_: Open, rounds: list[int]) -> None:
    document = f'{{"_id": "ada", "password": "{hashed("secret", 6)}", "roles": []}}'
    options = {"create-user": True, "create-user-document": document}
    async with open_(**options) as realm:
        assert await count_rounds(realm, rounds, "nobody") == 2**6


# --- successful ones ------------------------------------------------------------------------------


async def wait_for_cost(users: Any, name: str, cost: int) -> str:
    def find() -> str | None:
        stored: str = users.find_one({"_id": name})["password"]
        return stored if stored.startswith(f"$2a$0{cost}$") else None

    found = await eventually(find)
    assert found is not None
    return found


@pytest.mark.parametrize("manager", [{}, JWT], ids=["random", "jwt"])
async def test_a_login_replaces_a_cheaper_hash_and_nothing_else(
    open_: Open, users: Any, rounds: list[int], manager: Any
) -> None:
    """Decision 53: the etag, tokens and the remembered digest stay."""
    old = hashed("secret")
    store(users, "ada", old, _etag=ETAG, team="x")
    store(users, "bob", hashed("secret", 6))
    before = users.find_one({"_id": "ada"})
    async with open_(manager, **{"bcrypt-complexity": 6}) as realm:
        token, of_bob = [
            (await realm.get(name, "secret")).headers["auth-token"] for name in ("ada", "bob")
        ]
        fresh = await wait_for_cost(users, "ada", 6)
        assert users.find_one({"_id": "ada"}) == {**before, "password": fresh}
        # A new password that another program writes ends tokens: whoever watches the collection
        # has then seen the replaced hash, too.
        users.update_one({"_id": "bob"}, {"$set": {"password": hashed("other", 6)}})
        await realm.until("bob", of_bob, 401)
        assert bcrypt.checkpw(b"secret", fresh.encode())
        rounds.clear()
        assert await realm.login("ada", "secret") == 200
        assert rounds == []  # remembered, with the new hash
        assert await realm.login("ada", token) == 200
        assert await realm.login("ada", "wrong") == 401
        stamps = realm.service.mongo[realm.db]["_revocations"]
        assert stamps.find_one({"_id": "user:ada"}) is None
        assert await wait_for_cost(users, "ada", 6) == fresh  # and is not replaced again


@pytest.mark.parametrize("stored", ["$2b$06$", "$2y$06$", "$2b$07$"])
async def test_an_equal_or_more_expensive_hash_stays_whatever_its_prefix(
    open_: Open, users: Any, monkeypatch: pytest.MonkeyPatch, stored: str
) -> None:
    """Decision 53: no downgrade, and no reason in a prefix."""
    made = replacing(monkeypatch)
    store(users, "ada", stored + hashed("secret", int(stored[4:6]))[7:])
    store(users, "bob", hashed("secret"))
    before = users.find_one({"_id": "ada"})
    async with open_(**{"bcrypt-complexity": 6}) as realm:
        assert await realm.login("ada", "secret") == 200
        assert await realm.login("bob", "secret") == 200
        await wait_for_cost(users, "bob", 6)  # who came later, and is served in order
    assert made == ["bob"]
    assert users.find_one({"_id": "ada"}) == before


def replacing(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Whose passwords are hashed again."""
    seen: list[str] = []
    original = BcryptPasswords.rehash

    async def count(self: BcryptPasswords, user: str, password: str) -> str:
        seen.append(user)
        return await original(self, user, password)

    monkeypatch.setattr(BcryptPasswords, "rehash", count)
    return seen


async def test_a_failed_login_replaces_nothing(
    open_: Open, users: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = replacing(monkeypatch)
    store(users, "ada", hashed("secret"))
    store(users, "bob", hashed("secret"))
    async with open_(**{"bcrypt-complexity": 6}) as realm:
        assert await realm.login("ada", "wrong") == 401
        assert await realm.login("bob", "secret") == 200
        await wait_for_cost(users, "bob", 6)
    assert made == ["bob"]


async def test_a_password_that_was_changed_meanwhile_is_not_overwritten(
    open_: Open, users: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 53: the write is guarded by the old hash."""
    store(users, "ada", hashed("secret"))
    changed = hashed("other")
    original = BcryptPasswords.rehash
    over = asyncio.Event()

    async def change(self: BcryptPasswords, user: str, password: str) -> str:
        fresh = await original(self, user, password)
        update = {"$set": {"password": changed}}
        await asyncio.to_thread(users.update_one, {"_id": "ada"}, update)
        over.set()
        return fresh

    monkeypatch.setattr(BcryptPasswords, "rehash", change)
    async with open_(**{"bcrypt-complexity": 6}) as realm:
        with listening(CommandFinished) as commands:
            assert await realm.login("ada", "secret") == 200
            async with asyncio.timeout(30):
                await over.wait()
            await eventually(lambda: find_updates(commands))
        assert users.find_one()["password"] == changed
        assert await realm.login("ada", "secret") == 401


def find_updates(commands: list[CommandFinished]) -> list[CommandFinished]:
    return [one for one in commands if one.collection == "users" and is_update(one)]


async def test_many_logins_at_the_same_time_hash_once(
    open_: Open, users: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = replacing(monkeypatch)
    store(users, "ada", hashed("secret"))
    async with open_(**{"bcrypt-complexity": 6}) as realm:
        logins = [realm.login("ada", "secret") for _ in range(8)]
        assert await asyncio.gather(*logins) == [200] * 8
        await wait_for_cost(users, "ada", 6)
        assert await realm.login("ada", "secret") == 200
    assert made == ["ada"]


async def test_a_database_that_takes_no_writes_lets_users_in_without_a_word(
    open_: Open, users: Any, mongo_client: Mongo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Decision 53: nothing is logged, and the same hash is not tried again at once."""
    made = replacing(monkeypatch)
    store(users, "ada", hashed("secret"))
    store(users, "bob", hashed("secret"))
    before = users.find_one({"_id": "ada"})
    settings = {"bcrypt-complexity": 6, "cache-size": 1}
    with listening(Event) as events:
        async with open_(**settings) as realm:
            with failing(mongo_client, "update", errorCode=13):
                assert await realm.login("ada", "secret") == 200
                await eventually(lambda: [one for one in events if is_update(one)])
                assert await realm.login("ada", "secret") == 200
            assert await realm.login("bob", "secret") == 200
            await wait_for_cost(users, "bob", 6)  # who came later, and is served in order
            assert users.find_one({"_id": "ada"}) == before
            assert await realm.login("ada", "secret") == 200
    told = {type(one).__name__ for one in events}
    assert not {one for one in told if one.endswith(("Failed", "Refused", "Lost"))}, told
    assert made == ["ada", "bob"]


def is_update(event: Event) -> bool:
    return isinstance(event, CommandFinished) and event.command == "update"
