"""Waiting has an end: looking for users and rules counts in the time of a request."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.http.harness import Document, Mongo, failing, until
from tests.http.realms import Realm, hashed, open_realm, render_basic

pytestmark = pytest.mark.anyio

LIMITED: Document = {"graphql": {"query-time-limit": 300}, "mongo": {"query-time-limit": 300}}
IMPATIENT: Document = {"core": {"wait-timeout-ms": 300}}
RULE = {"roles": ["reader"], "predicate": "path-prefix('/')", "priority": 1}
TOLD_TO_EVERYBODY = ("/health/db", "/ping")
SCHEMA = "type Query { a: Int }"


@contextmanager
def blocked(mongo: Mongo, namespace: str) -> Iterator[None]:
    """Reads of that collection take longer than any time limit here."""
    with failing(mongo, "find", namespace=namespace, blockConnection=True, blockTimeMS=2_000):
        yield


def without_caches(db: str) -> Document:
    return {
        "fullAuthorizer": {"enabled": False},
        "dbAclAuthorizer": {"acl-db": db, "acl-collection": "rules", "cache-enabled": False},
        "dbRealmAuthenticator": {"cache-enabled": False},
        "mongo": {"mongo-mounts": [{"what": f"/{db}", "where": "/data"}]},
    }


async def ask(realm: Realm) -> list[tuple[int, Any]]:
    """Status and code of a read by REST, and of one by GraphQL."""
    credentials = {"authorization": render_basic("ada", "secret")}
    rest = await realm.service.request("GET", "/data/things", headers=credentials)
    query = await realm.service.query("app", "{ a }", headers=credentials)
    found = query.json.get("errors")
    code = found[0]["extensions"]["code"] if found else None
    return [(rest.status, rest.json["code"] if rest.status >= 400 else None), (query.status, code)]


@pytest.mark.parametrize("collection", ["users", "rules"])
@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (LIMITED, {(408, "time-limit-exceeded")}),
        # Overloaded: another read may wait for a connection that is being opened.
        (IMPATIENT, {(500, "database-unavailable"), (503, "overloaded")}),
    ],
)
async def test_looking_for_users_and_rules_has_an_end(
    mongo_client: Mongo,
    mongo_uri: str,
    database: str,
    collection: str,
    settings: Document,
    expected: set[tuple[int, str]],
) -> None:
    mongo = mongo_client[database]
    mongo["users"].insert_one({"_id": "ada", "password": hashed("secret"), "roles": ["reader"]})
    mongo["rules"].insert_one(dict(RULE))
    mongo["things"].insert_one({"n": 1})
    options = (without_caches(database), settings)
    async with open_realm(mongo_client, mongo_uri, database, *options) as realm:
        await realm.service.define("app", SCHEMA)
        # The limit is short: on a busy machine it may be over before anybody was looked for.
        await until(lambda: ask(realm), [(200, None), (200, None)])

        with blocked(mongo_client, f"{database}.{collection}"):
            assert set(await ask(realm)) <= expected

        await until(lambda: ask(realm), [(200, None), (200, None)])


async def test_what_is_told_to_everybody_does_not_wait_for_who_asks(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Readiness and liveness are asked with credentials by mistake, and must stay true."""
    mongo = mongo_client[database]
    mongo["users"].insert_one({"_id": "ada", "password": hashed("secret"), "roles": []})
    wrong = {"authorization": render_basic("ada", "wrong")}

    async def ask_both(realm: Realm) -> list[int]:
        asked = (realm.service.request("GET", path, headers=wrong) for path in TOLD_TO_EVERYBODY)
        return [reply.status for reply in await asyncio.gather(*asked)]

    async with open_realm(mongo_client, mongo_uri, database, without_caches(database)) as realm:
        assert await ask_both(realm) == [401, 401]

        with blocked(mongo_client, f"{database}.users"):
            assert await ask_both(realm) == [200, 200]


FEW_CONNECTIONS: Document = {
    "mclient": {"min-pool-size": 0, "max-pool-size": 4, "wait-queue-timeout-ms": 500}
}


@pytest.mark.parametrize("collection", ["users", "things"])  # all requests share one read of rules
async def test_a_busy_pool_is_503_at_every_door(
    mongo_client: Mongo, mongo_uri: str, database: str, collection: str
) -> None:
    """Decision 51: overload of our own making is never 500."""
    mongo = mongo_client[database]
    user = {"password": hashed("secret"), "roles": ["reader"]}  # each is looked up on its own
    mongo["users"].insert_many({"_id": f"user{number}", **user} for number in range(60))
    mongo["rules"].insert_one(dict(RULE))
    mongo["things"].insert_one({"_id": "x", "n": 1})
    options = (without_caches(database), FEW_CONNECTIONS)
    async with open_realm(mongo_client, mongo_uri, database, *options) as realm:
        mapping = {"Query": {"a": {"db": database, "collection": "things", "find": {}}}}
        await realm.service.define(
            "app", "type Query { a: [Thing] } type Thing { n: Int }", mapping
        )

        async def send(number: int) -> tuple[int, int, str | None]:
            credentials = {"authorization": render_basic(f"user{number}", "secret")}
            match number % 3:
                case 0:
                    reply = await realm.service.request("GET", "/data/things", headers=credentials)
                case 1:
                    path, body = "/data/things/x", {"n": number}
                    reply = await realm.service.request(
                        "PATCH", path, headers=credentials, json=body
                    )
                case _:
                    reply = await realm.service.query("app", "{ a { n } }", headers=credentials)
            return number % 3, reply.status, reply.headers.get("retry-after")

        assert {(await send(number))[1] for number in range(3)} == {200}
        namespace = f"{database}.{collection}"
        slow = {"namespace": namespace, "blockConnection": True, "blockTimeMS": 1_500}
        with failing(mongo_client, "find", "update", **slow):
            found = set(await asyncio.gather(*map(send, range(60))))

    assert {one for one in found if one[1] != 200} == {(door, 503, "1") for door in range(3)}
