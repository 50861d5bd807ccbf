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
        (LIMITED, (408, "time-limit-exceeded")),
        (IMPATIENT, (500, "database-unavailable")),
    ],
)
async def test_looking_for_users_and_rules_has_an_end(
    mongo_client: Mongo,
    mongo_uri: str,
    database: str,
    collection: str,
    settings: Document,
    expected: tuple[int, str],
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
            assert await ask(realm) == [expected, expected]

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
