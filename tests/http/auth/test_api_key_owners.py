"""The owner of an API key: who it is, what it may do, how many keys it has (decision 72)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from datetime import UTC, datetime
from typing import Any

import pytest

from docgraph.auth.api_keys import KeyOrder
from docgraph.auth.credentials import ApiKeyText
from docgraph.store.names import API_KEYS
from tests.expect import present
from tests.http.api_keys import add_user, later, make, mechanism_of, open_keys, order, status, use
from tests.http.harness import Document, Mongo, until
from tests.http.realms import COST, hashed
from tests.http.tokens import COOKIES, JWT, SIGNED, Worker

pytestmark = pytest.mark.anyio


@pytest.fixture
async def worker(mongo_client: Mongo, mongo_uri: str, database: str) -> AsyncIterator[Worker]:
    async with open_keys(mongo_client, mongo_uri, database) as worker:
        yield worker


@pytest.fixture
def with_file(mongo_client: Mongo, mongo_uri: str, database: str) -> Any:
    """Opens a worker whose user `joe` is in a file, with that password; None: without `joe`."""

    def open_file(password: str | None) -> AbstractAsyncContextManager[Worker]:
        joe = {"userid": "joe", "password": password, "roles": ["editor"]}
        eve = {"userid": "eve", "password": "secret", "roles": []}
        users = [eve] if password is None else [joe, eve]
        realm = {"fileRealmAuthenticator": {"enabled": True, "users": users}}
        basic = {"basicAuthMechanism": {"authenticator": "fileRealmAuthenticator"}}
        return open_keys(mongo_client, mongo_uri, database, realm, basic)

    return open_file


# --- whether it is the same owner -----------------------------------------------------------------


async def test_a_new_password_in_the_file_ends_keys(with_file: Any) -> None:
    """As a new password in the database does; the previous one brings them back."""
    async with with_file("secret") as worker:
        text = await make(worker, "joe")
        assert await status(worker, text) == 200
    for password, expected in (("other", 401), (None, 401), ("secret", 200)):
        async with with_file(password) as worker:
            assert await status(worker, text) == expected, password


async def test_the_database_has_no_fast_hash_of_a_password_of_the_file(with_file: Any) -> None:
    """Who reads the database, the key of the installation included, guesses slowly."""
    async with with_file("secret") as worker:
        await make(worker, "joe")
        keys = mechanism_of(worker).keys
        _, credential = await worker.there(keys.find_owner("joe", "file"))
    assert "secret" not in credential
    assert len(credential) == 2 * 64  # of scrypt


async def test_a_user_who_is_replaced_while_no_server_runs_takes_over_no_keys(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    async with open_keys(mongo_client, mongo_uri, database) as worker:
        add_user(worker, "joe", "editor")
        text = await make(worker, "joe")
        assert await status(worker, text) == 200
    users = mongo_client[database]["users"]
    users.delete_one({"_id": "joe"})
    users.insert_one({"_id": "joe", "roles": ["editor"], "password": hashed("secret")})
    async with open_keys(mongo_client, mongo_uri, database) as worker:
        assert await status(worker, text) == 401
        shown = (await worker.ask("/keys/joe/nightly", login="root:secret")).json()
        assert shown["active"] is False
        assert "seals" not in shown


async def test_a_login_that_replaces_a_cheap_hash_ends_no_key(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Decision 53: the password is the same, as a server knows that starts long after it."""
    users = mongo_client[database]["users"]
    async with open_keys(mongo_client, mongo_uri, database) as worker:
        add_user(worker, "joe", "editor")
        text = await make(worker, "joe")
    cheap = present(users.find_one({"_id": "joe"}))["password"]
    costly = {"dbRealmAuthenticator": {"bcrypt-complexity": COST + 1}}
    async with open_keys(mongo_client, mongo_uri, database, costly) as worker:
        assert await worker.status(login="joe:secret") == 200

        async def is_replaced() -> bool:
            stored = await asyncio.to_thread(users.find_one, {"_id": "joe"})
            return bool(present(stored)["password"] != cheap)

        await until(is_replaced, True)
        mechanism_of(worker)._cache.clear()
        assert await status(worker, text) == 200
    mongo_client[database]["_revocations"].delete_many({})  # the mark is kept for an hour
    async with open_keys(mongo_client, mongo_uri, database) as worker:
        assert await status(worker, text) == 200


@pytest.mark.parametrize(
    "change",
    [
        {"$set": {"password": hashed("another")}},
        {"$set": {"roles": ["user"]}},
        None,
    ],
)
async def test_an_owner_who_changes_during_the_insert_gets_no_key(
    worker: Worker, monkeypatch: pytest.MonkeyPatch, change: Document | None
) -> None:
    keys = mechanism_of(worker).keys
    write = keys._write

    async def write_late(id: str, content: Any) -> bool:
        monkeypatch.undo()
        wrote = await write(id, content)
        if change is None:
            await asyncio.to_thread(worker.users.delete_one, {"_id": "ada"})
        else:
            await asyncio.to_thread(worker.users.update_one, {"_id": "ada"}, change)
        keys.generations.bump("users")  # as the worker that makes the change does
        return wrote

    monkeypatch.setattr(keys, "_write", write_late)
    owner = await worker.there(keys.find_owner("ada"))
    wanted = KeyOrder.parse({"name": "late", "notAfter": later(), "roles": ["editor"]})
    with pytest.raises(Exception, match="changed at the same time"):
        await worker.there(keys.make(wanted, owner))
    assert worker.users.database[API_KEYS].count_documents({}) == 0


async def test_a_key_that_a_token_orders_is_no_younger_than_the_token(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """A mark that arrives late ends the token, and the key that it has made meanwhile."""
    async with open_keys(mongo_client, mongo_uri, database, SIGNED, JWT, COOKIES) as worker:
        token = (await worker.ask("/whoami", login="ada:secret")).headers["auth-token"]
        before = datetime.now(UTC).timestamp()
        body = {"name": "nightly", "notAfter": later(), "roles": ["editor"]}
        headers = {"authorization": f"Bearer {token}"}
        reply = await worker.send("POST", "/keys", json=body, headers=headers)
        assert reply.status_code == 201, reply.text
        text = reply.json()["key"]
        assert await status(worker, text) == 200
        revocations = mechanism_of(worker).keys.revocations
        await worker.there(revocations.stamp("ada", before))
        assert await status(worker, text) == 401


# --- names ----------------------------------------------------------------------------------------


async def test_no_user_has_the_name_of_a_key(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    named = {"identityAuthMechanism": {"enabled": True, "username": "key:ada/nightly"}}
    async with open_keys(mongo_client, mongo_uri, database, named) as worker:
        add_user(worker, "key:ada/weekly", "editor")
        add_user(worker, "ada/nightly", "editor")
        basic = await worker.ask("/whoami", login="ada/nightly:secret")
        assert basic.json()["name"] == "ada/nightly"  # which is the name of no key
        assert (await worker.ask("/whoami")).status_code == 401
        text = await make(worker)
        assert (await use(worker, text)).json()["name"] == "key:ada/nightly"
    async with open_keys(mongo_client, mongo_uri, database) as worker:
        assert await worker.status(login="key:ada/weekly:secret") == 401
    off = {"apiKeyMechanism": {"enabled": False}}
    async with open_keys(mongo_client, mongo_uri, database, named, off) as worker:
        assert (await worker.ask("/whoami")).json()["name"] == "key:ada/nightly"


# --- how many keys --------------------------------------------------------------------------------


async def test_a_user_has_so_many_keys_and_no_more(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    few = {"apiKeyMechanism": {"max-keys-per-user": 2}}
    async with open_keys(mongo_client, mongo_uri, database, few) as worker:
        for name in ("a", "b"):
            await make(worker, name=name)
        reply = await order(worker, name="c")
        assert reply.status_code == 409
        assert "max-keys-per-user" in reply.text
        codes = [
            reply.status_code
            for reply in await asyncio.gather(
                *(order(worker, "root", name=f"r{number}") for number in range(6))
            )
        ]
        assert codes.count(201) <= 2
        stored = worker.users.database[API_KEYS]
        assert stored.count_documents({"owner": "ada"}) == 2
        assert stored.count_documents({"owner": "root"}) == codes.count(201)
        assert (await worker.ask("/keys/ada/a", login="ada:secret", method="DELETE")).is_success
        await make(worker, name="c")


async def test_keys_of_one_user_are_found_without_those_of_all(worker: Worker) -> None:
    await make(worker)
    stored = worker.users.database[API_KEYS]
    first = stored.find_one()
    stored.insert_many(
        {**first, "_id": f"{number:016x}", "owner": f"u{number}"} for number in range(1_000)
    )
    where = {"owner": "ada", "realm": "database", "_id": {"$gt": ""}}
    plan = stored.find(where).sort("_id", 1).limit(100).explain()
    assert plan["executionStats"]["totalDocsExamined"] == 1
    assert len((await worker.ask("/keys", login="ada:secret")).json()["keys"]) == 1


async def test_the_database_removes_keys_a_month_after_their_end(worker: Worker) -> None:
    await make(worker)
    indexes = worker.users.database[API_KEYS].index_information()
    assert indexes["notAfter_1"]["expireAfterSeconds"] == 30 * 86_400


# --- rotation -------------------------------------------------------------------------------------


@pytest.mark.parametrize("ending", ["its end", "a new password"])
async def test_a_key_that_has_ended_gets_no_other_secret(worker: Worker, ending: str) -> None:
    text = await make(worker)
    if ending == "its end":
        past = {"$set": {"notAfter": datetime(2026, 1, 1)}}
        worker.users.database[API_KEYS].update_one({}, past)
    else:
        change = {"$set": {"password": hashed("secret")}}
        worker.users.update_one({"_id": "ada"}, change)
    mechanism_of(worker)._cache.clear()
    await until(lambda: status(worker, text), 401)
    for path in ("/keys/ada/nightly", "/keys/ada/nightly?now"):
        reply = await worker.ask(path, login="root:secret", method="POST")
        assert reply.status_code == 409
        assert "make another" in reply.text


# --- guesses --------------------------------------------------------------------------------------


async def test_wrong_secrets_of_a_key_do_not_stop_the_right_one(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Whoever knows an id sends wrong secrets from the address of the job, before it begins."""
    guard: Mapping[str, Any] = {
        "bruteForceAttackGuard": {
            "enabled": True,
            "max-failed-attempts": 2,
            "max-failed-attempts-per-address": 5,
            "window-ms": 60_000,
        }
    }
    async with open_keys(mongo_client, mongo_uri, database, guard) as worker:
        text = await make(worker)
        guess = ApiKeyText(ApiKeyText.parse(text).id).render()
        assert [await status(worker, guess) for _ in range(7)] == [401] * 5 + [429] * 2
        assert await status(worker, text) == 200
        assert await status(worker, guess) == 429
        assert await worker.status(login="ada:secret") == 200  # known from before
        assert await worker.status(login="root:wrong") == 429
