"""Managing API keys: `/keys`, rules, roles, rotation, 10 000 keys (decision 72)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

import pytest

from docgraph.auth.credentials import ApiKeyText
from tests.http.api_keys import add_user, later, make, mechanism_of, open_keys, order, status, use
from tests.http.harness import Mongo
from tests.http.tokens import Worker

pytestmark = pytest.mark.anyio


@pytest.fixture
async def worker(mongo_client: Mongo, mongo_uri: str, database: str) -> AsyncIterator[Worker]:
    async with open_keys(mongo_client, mongo_uri, database) as worker:
        yield worker


async def manage(worker: Worker, method: str, path: str, login: str = "ada") -> Any:
    return await worker.send(method, path, auth=(login, "secret"))


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ({}, 201),
        ({"roles": []}, 201),
        ({"roles": ["admin"]}, 400),
        ({"roles": ["editor", "other"]}, 400),
        ({"roles": ["$authenticated"]}, 400),
        ({"roles": "editor"}, 400),
        ({"notAfter": later(364)}, 201),
        ({"notAfter": later(366)}, 400),
        ({"notAfter": later(-1)}, 400),
        ({"notAfter": "soon"}, 400),
        ({"notAfter": "9999-12-31T23:59:59-12:00"}, 400),
        ({"notAfter": "0001-01-01T00:00:00+12:00"}, 400),
        ({"notAfter": later().removesuffix("Z")}, 201),
        ({"notAfter": None}, 400),
        ({"name": ""}, 400),
        ({"name": "a/b"}, 400),
        ({"name": "x" * 64}, 400),
        ({"name": "a\n"}, 400),
        ({"networks": ["10.0.0.1/8"]}, 400),
        ({"networks": ["here"]}, 400),
        ({"networks": ["10.0.0.0/8"] * 51}, 400),
        ({"inherits": ["x" * 256]}, 400),
        ({"properties": {"team": "red"}}, 403),
        ({"owner": "root"}, 403),
        ({"hash": "x"}, 400),
        ({"madeAt": 1e12}, 400),
        ({"_id": "0123456789abcdef"}, 400),
    ],
)
async def test_a_user_makes_keys_with_no_more_than_own_rights(
    worker: Worker, parts: dict[str, Any], expected: int
) -> None:
    reply = await order(worker, **parts)
    assert reply.status_code == expected, reply.text
    assert ("key" in reply.json()) == (expected == 201)
    assert reply.headers["cache-control"] == "no-store" or expected != 201


async def test_a_name_is_used_once_for_each_owner(worker: Worker) -> None:
    await make(worker)
    assert (await order(worker)).status_code == 409
    await make(worker, "root")
    assert (await manage(worker, "DELETE", "/keys/ada/nightly")).status_code == 204
    await make(worker)


async def test_at_once_ordered_keys_of_one_name_are_one(worker: Worker) -> None:
    codes = [
        reply.status_code for reply in await asyncio.gather(*(order(worker) for _ in range(6)))
    ]
    assert sorted(codes) == [201] + [409] * 5


async def test_only_administrators_see_and_end_keys_of_others(worker: Worker) -> None:
    add_user(worker, "joe", "editor")
    text = await make(worker)
    place = f"/keys/{ApiKeyText.parse(text).id}"
    for method in ("GET", "POST", "DELETE"):
        foreign, missing = [
            await manage(worker, method, path, "joe") for path in (place, "/keys/0123456789abcdef")
        ]
        assert foreign.status_code == missing.status_code == 404
    assert (await manage(worker, "GET", "/keys", "joe")).json() == {"keys": []}
    for login in ("ada", "root"):
        (shown,) = (await manage(worker, "GET", "/keys", login)).json()["keys"]
        assert (shown["owner"], shown["name"], shown["active"]) == ("ada", "nightly", True)
    assert (await manage(worker, "DELETE", place, "root")).status_code == 204
    assert await status(worker, text) == 401


async def test_administrators_give_properties_which_owners_cannot_take_over(
    worker: Worker,
) -> None:
    """Another secret of a key would give its owner what only an administrator can give."""
    text = await make(worker, "root", owner="ada", properties={"team": "red"}, inherits=["team"])
    assert (await use(worker, text)).json()["properties"]["team"] == "red"
    assert (await manage(worker, "POST", "/keys/ada/nightly")).status_code == 403
    assert (await manage(worker, "POST", "/keys/ada/nightly", "root")).status_code == 200
    assert (await order(worker, "root", owner="nobody", name="x")).status_code == 400
    assert (await order(worker, "root", owner="ada", name="x", roles=["admin"])).status_code == 400


async def test_a_key_manages_no_keys(worker: Worker) -> None:
    text = await make(worker)
    headers = {"authorization": f"Bearer {text}"}
    body = {"name": "more", "notAfter": later(), "roles": ["user"]}
    for method, path in (
        ("GET", ""),
        ("POST", ""),
        ("GET", "/ada/nightly"),
        ("POST", "/ada/nightly"),
    ):
        reply = await worker.send(method, f"/keys{path}", json=body, headers=headers)
        assert reply.status_code == 403


@pytest.mark.parametrize("allowed", [False, True])
async def test_the_root_role_needs_the_option(
    mongo_client: Mongo, mongo_uri: str, database: str, allowed: bool
) -> None:
    option = {"apiKeyMechanism": {"allow-root-role": allowed}}
    async with open_keys(mongo_client, mongo_uri, database, option) as worker:
        reply = await order(worker, "root", roles=["admin"])
        assert reply.status_code == (201 if allowed else 400)
        if allowed:
            text = reply.json()["key"]
            assert (await use(worker, text)).json()["roles"] == ["admin"]
    if allowed:  # stored before the option was turned off
        async with open_keys(mongo_client, mongo_uri, database) as worker:
            assert (await use(worker, text)).json()["roles"] == []


async def test_rules_decide_who_manages_keys(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    rules = [
        {"role": "editor", "predicate": "path-prefix[/keys] and method[GET]", "priority": 1},
    ]
    closed = {
        "fullAuthorizer": {"enabled": False},
        "dbAclAuthorizer": {"acl-db": database},
        "fileAclAuthorizer": {"enabled": True, "permissions": rules},
    }
    async with open_keys(mongo_client, mongo_uri, database, closed) as worker:
        assert (await manage(worker, "GET", "/keys")).status_code == 200
        assert (await order(worker)).status_code == 403
        await make(worker, "root")
        assert (await worker.send("GET", "/keys")).status_code == 401


async def test_a_rule_for_everybody_gives_strangers_no_keys(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    everybody = {"fullAuthorizer": {"enabled": True, "authentication-required": False}}
    async with open_keys(mongo_client, mongo_uri, database, everybody) as worker:
        for method in ("GET", "POST"):
            assert (await worker.send(method, "/keys")).status_code == 401


async def test_accounts_of_no_realm_own_no_keys(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Nothing could end such a key with its owner."""
    named = {"identityAuthMechanism": {"enabled": True, "username": "eve", "roles": ["editor"]}}
    async with open_keys(mongo_client, mongo_uri, database, named) as worker:
        body = {"name": "nightly", "notAfter": later(), "roles": ["editor"]}
        assert (await worker.send("POST", "/keys", json=body)).status_code == 400
    same = {"identityAuthMechanism": {"enabled": True, "username": "ada", "roles": ["editor"]}}
    async with open_keys(mongo_client, mongo_uri, database, same) as worker:
        assert (await worker.send("POST", "/keys", json=body)).status_code == 400  # not that ada
        await make(worker)
        assert (await worker.send("GET", "/keys")).json() == {"keys": []}


async def test_both_secrets_are_valid_while_a_key_is_rotated(worker: Worker) -> None:
    first = await make(worker)
    second = (await manage(worker, "POST", "/keys/ada/nightly")).json()["key"]
    assert ApiKeyText.parse(first).id == ApiKeyText.parse(second).id
    assert [await status(worker, text) for text in (first, second)] == [200, 200]
    stored = worker.users.database["_apiKeys"]
    past = datetime(2026, 1, 1)
    stored.update_one({}, {"$set": {"previousUntil": past}})
    mechanism_of(worker)._cache.clear()
    assert [await status(worker, text) for text in (first, second)] == [401, 200]
    third = (await manage(worker, "POST", "/keys/ada/nightly?now")).json()["key"]
    assert await status(worker, third) == 200
    for _ in range(50):
        if await status(worker, second) == 401:
            break
        await asyncio.sleep(0.1)
    assert [await status(worker, text) for text in (first, second)] == [401, 401]


async def test_of_rotations_at_once_one_wins(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await make(worker)
    keys = mechanism_of(worker).keys
    read = await worker.there(keys.require("ada/nightly"))

    async def require(name: str, owner: object) -> Any:
        return read

    async def rotate() -> str:
        try:
            return await keys.rotate("ada/nightly", 24)
        except Exception as error:
            return type(error).__name__

    monkeypatch.setattr(keys, "require", require)  # all of them have read the key
    results = await asyncio.gather(*(worker.there(rotate()) for _ in range(4)))
    monkeypatch.undo()
    assert results.count("Conflict") == 3
    (won,) = [result for result in results if result != "Conflict"]
    assert [await status(worker, text) for text in (first, won)] == [200, 200]
    await worker.there(keys.revoke("ada/nightly"))
    assert await worker.there(rotate()) == "NotFound"


async def test_ten_thousand_keys_come_in_pages(worker: Worker) -> None:
    text = await make(worker)
    stored = worker.users.database["_apiKeys"]
    first = stored.find_one()
    stored.insert_many(
        {**first, "_id": f"{number:016x}", "name": f"n{number}"} for number in range(10_000)
    )
    seen: list[str] = []
    path = "/keys"
    while path:
        page = (await manage(worker, "GET", path)).json()
        assert len(page["keys"]) <= 100
        seen += [key["_id"] for key in page["keys"]]
        path = f"/keys?after={page['next']}" if "next" in page else ""
    assert len(seen) == len(set(seen)) == 10_001
    assert seen == sorted(seen)
    assert await status(worker, text) == 200


async def test_names_of_keys_are_found_or_404(worker: Worker) -> None:
    for path in ("/keys/%ff", "/keys/a/b/c", "/keys/%00", "/keys/$ne", "/keys/%ED%A0%80"):
        reply = await manage(worker, "GET", path)
        assert reply.status_code in (400, 404), (path, reply.text)
    assert (await manage(worker, "PUT", "/keys")).status_code == 405
    assert (await manage(worker, "DELETE", "/keys")).status_code == 404


async def test_the_owner_behind_a_key_does_not_change_own_roles(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """`rootRoleGuard` knows whose key it is: an editor of users does not promote the owner."""
    mounts = {"mongo": {"mongo-mounts": [{"what": f"/{database}", "where": "/data"}]}}
    async with open_keys(mongo_client, mongo_uri, database, mounts) as worker:
        add_user(worker, "joe", "user")
        text = await make(worker)
        headers = {"authorization": f"Bearer {text}"}
        for name in ("ada", "joe"):
            body = {"roles": ["user", "editor", "chief"]}
            await worker.send("PATCH", f"/data/users/{name}", json=body, headers=headers)
        roles = {user["_id"]: user["roles"] for user in worker.users.find()}
        assert "chief" in roles["joe"]
        assert "chief" not in roles["ada"]
        for path in ("/data/_apiKeys", "/data/_cursorKeys"):
            reply = await worker.send("GET", path, auth=("root", "secret"))
            assert reply.status_code == 403, path


async def test_explanations_and_the_description_name_keys(worker: Worker) -> None:
    text = await make(worker)
    asked = "/access/explain?path=/whoami&user=key:ada/nightly"
    reply = await manage(worker, "GET", asked, "root")
    assert reply.json()["user"] == "key:ada/nightly"
    assert "editor" in reply.json()["roles"]
    assert "user" not in reply.json()["roles"]
    assert ApiKeyText.parse(text).secret not in reply.text
    missing = await manage(worker, "GET", "/access/explain?path=/whoami&user=key:ada/none", "root")
    assert missing.status_code == 404
    description = (await manage(worker, "GET", "/openapi.json", "root")).json()
    schemes = description["components"]["securitySchemes"]
    assert schemes["key"] == {"type": "apiKey", "in": "header", "name": "X-API-Key"}
    assert {"/keys", "/keys/{key}"} <= description["paths"].keys()
