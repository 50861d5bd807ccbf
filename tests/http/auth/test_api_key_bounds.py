"""A key never gets more than its owner, whatever rules and apps give to others (decision 72)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.exchange import Account
from docgraph.graphql.http.plan_cache import is_bound
from tests.http.access_harness import allow, guarded
from tests.http.api_keys import KEYS, later
from tests.http.harness import Document, Mongo, Service
from tests.http.realms import hashed, render_basic

pytestmark = pytest.mark.anyio

SETTINGS: Document = {
    "basicAuthMechanism": {"enabled": True},
    "dbRealmAuthenticator": {"bcrypt-complexity": 4},
    "bruteForceAttackGuard": {"enabled": False},
}
NOTES = (
    {"_id": "n1", "team": "blue", "public": True, "mail": "m1", "phone": "p1"},
    {"_id": "n2", "team": "blue", "public": False, "mail": "m2", "phone": "p2"},
    {"_id": "n3", "team": "red", "public": True, "mail": "m3", "phone": "p3"},
)


@pytest.fixture
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri, SETTINGS, KEYS) as service:
        users = {"zoe": ["user", "trainee"], "root": ["admin"]}
        for name, roles in users.items():
            user = {"_id": name, "roles": roles, "team": "blue", "suspended": True}
            service.insert("users", {**user, "password": hashed("secret")})
        service.insert("notes", *NOTES)
        await allow(service, "path-prefix('/keys')", "$authenticated")
        yield service


def as_user(name: str = "zoe") -> dict[str, str]:
    return {"authorization": render_basic(name, "secret")}


async def order(service: Service, login: str = "zoe", **parts: Any) -> dict[str, str]:
    """The headers of a request with a new key."""
    body = {"name": "nightly", "notAfter": later(), **parts}
    reply = await service.request("POST", "/keys", json=body, headers=as_user(login))
    assert reply.status == 201, reply.text
    return {"authorization": f"Bearer {reply.json['key']}"}


async def read(service: Service, headers: dict[str, str]) -> Any:
    """The ids of the notes that are shown, or the status of the denial."""
    reply = await service.request("GET", "/notes?sort=_id", headers=headers)
    return [note["_id"] for note in reply.json] if reply.status == 200 else reply.status


async def test_a_rule_for_those_without_a_property_admits_no_key(service: Service) -> None:
    await allow(service, "path-prefix('/notes') and not exists(@user.suspended)", "user")
    assert await read(service, as_user()) == 403
    assert await read(service, await order(service, roles=["user"])) == 403


async def test_a_stricter_rule_of_one_role_bounds_a_key_without_that_role(
    service: Service,
) -> None:
    public = {"readFilter": {"public": True}}
    await allow(service, "path-prefix('/notes')", "trainee", priority=9, mongo=public)
    await allow(service, "path-prefix('/notes')", "user", priority=1)
    assert await read(service, as_user()) == ["n1", "n3"]
    assert await read(service, await order(service, roles=["user"])) == ["n1", "n3"]


async def test_row_filters_of_both_apply(service: Service) -> None:
    public, team = {"readFilter": {"public": True}}, {"readFilter": {"team": "@user.team"}}
    await allow(service, "path-prefix('/notes')", "trainee", priority=9, mongo=public)
    await allow(service, "path-prefix('/notes')", "user", priority=1, mongo=team)
    assert await read(service, as_user()) == ["n1", "n3"]
    key = await order(service, roles=["user"], inherits=["team"])
    assert await read(service, key) == ["n1"]
    without = await order(service, name="without", roles=["user"])
    assert await read(service, without) == 403  # the filter of its rule has no value


async def test_what_an_administrator_gives_to_a_key_replaces_what_its_owner_has(
    service: Service,
) -> None:
    team = {"readFilter": {"team": "@user.team"}}
    await allow(service, "path-prefix('/notes')", "user", mongo=team)
    red = await order(service, "root", owner="zoe", roles=["user"], properties={"team": "red"})
    assert await read(service, red) == ["n3"]


@pytest.mark.parametrize(
    ("of_owner", "of_key", "shown"),
    [
        ({"mail": 0}, {"phone": 0}, {"_id", "team", "public"}),
        ({"mail": 0}, None, {"_id", "team", "public", "phone"}),
        ({"_id": 1, "team": 1}, {"_id": 1, "team": 1}, {"_id", "team"}),
        ({"_id": 1, "team": 1}, {"_id": 1, "phone": 1}, 403),
    ],
)
async def test_properties_that_one_of_the_rules_hides_stay_hidden(
    service: Service, of_owner: Document, of_key: Document | None, shown: Any
) -> None:
    hidden = {"projectResponse": of_owner}
    await allow(service, "path-prefix('/notes')", "trainee", priority=9, mongo=hidden)
    other = {"mongo": {"projectResponse": of_key}} if of_key else {}
    await allow(service, "path-prefix('/notes')", "user", priority=1, **other)
    key = await order(service, roles=["user"])
    reply = await service.request("GET", "/notes/n1", headers=key)
    assert (set(reply.json) - {"_etag"} if reply.status == 200 else reply.status) == shown


@pytest.mark.parametrize(
    ("of_owner", "of_key", "expected"),
    [
        ({"author": "@user._id"}, {"team": "bot"}, {"author": "zoe", "team": "bot"}),
        ({"author": "@user._id"}, {"author": "someone"}, 403),
        ({"meta.by": "@user._id"}, {"meta": {}}, 403),
    ],
)
async def test_a_key_writes_what_the_rule_of_its_owner_demands(
    service: Service, of_owner: Document, of_key: Document, expected: Any
) -> None:
    allowed = {"allowWriteMode": True}
    for role, merged, priority in (("trainee", of_owner, 9), ("user", of_key, 1)):
        mongo = {**allowed, "mergeRequest": merged}
        await allow(service, "path-prefix('/notes')", role, priority=priority, mongo=mongo)
    key = await order(service, roles=["user"])
    reply = await service.request("POST", "/notes", json={"_id": "n9", "n": 1}, headers=key)
    stored = service.mongo[service.db]["notes"].find_one({"_id": "n9"}, {"_etag": 0})
    if expected == 403:
        assert reply.status == 403
        assert stored is None
    else:
        assert reply.status == 201, reply.text
        assert stored == {"_id": "n9", "n": 1, **expected}


async def test_write_filters_of_both_apply(service: Service) -> None:
    public, team = {"writeFilter": {"public": True}}, {"writeFilter": {"team": "blue"}}
    await allow(service, "path-prefix('/notes')", "trainee", priority=9, mongo=public)
    await allow(service, "path-prefix('/notes')", "user", priority=1, mongo=team)
    key = await order(service, roles=["user"])
    codes = [
        (await service.request("PATCH", f"/notes/{id}", json={"n": 1}, headers=key)).status
        for id in ("n1", "n2", "n3")
    ]
    assert codes[0] == 200
    assert 200 not in codes[1:]


async def test_a_default_in_an_app_shows_a_key_no_more(service: Service) -> None:
    """An app reads what the key has not inherited: it is an error, not the default."""
    schema = "type Query { mine: [Note] of: [Note] } type Note { _id: String }"
    team = {"$ifarg": ["@user.team", {"team": {"$arg": "@user.team"}}]}
    level = {"team": {"$arg": ["@user.level", "red"]}}
    mapped = {"Query": {"mine": service.find("notes", team), "of": service.find("notes", level)}}
    await service.define("app", schema, mapped)
    await allow(service, "path-prefix('/graphql')", "user")
    for name, inherits, expected in (("a", ["team"], ["n1", "n2"]), ("b", [], None)):
        key = await order(service, name=name, roles=["user"], inherits=inherits)
        query = {"query": "{ mine { _id } }"}
        reply = await service.request("POST", "/graphql/app", json=query, headers=key)
        ids = reply.json.get("data") and sorted(note["_id"] for note in reply.json["data"]["mine"])
        assert ids == expected, reply.text
        if expected is None:
            assert "does not inherit @user.team" in reply.text
    query = {"query": "{ of { _id } }"}  # its owner has no level either: the default applies
    reply = await service.request("POST", "/graphql/app", json=query, headers=key)
    assert reply.json["data"]["of"] == [{"_id": "n3"}]


async def test_an_explanation_names_the_owner_and_what_keys_may_not_do(service: Service) -> None:
    await allow(service, "path-prefix('/notes') and not exists(@user.suspended)", "user")
    await order(service, roles=["user"])
    explained = {}
    for path in ("/notes", "/keys", "/tokens"):
        asked = f"/access/explain?path={path}&user=key:zoe/nightly"
        reply = await service.request("GET", asked, headers=as_user("root"))
        explained[path] = (reply.json["allowed"], reply.json["reason"])
    assert explained["/notes"] == (False, "of the owner of the key: no rule matches")
    for path in ("/keys", "/tokens"):
        assert explained[path] == (False, "a key makes no keys and no tokens")


@pytest.mark.parametrize("setting", [["reader"], ["reader", "$authenticated"]])
def test_a_key_without_roles_is_bound_to_stored_operations_like_its_owner(
    setting: list[str],
) -> None:
    owner = Account("zoe", ("reader",))
    assert is_bound(setting, owner, "admin")
    assert is_bound(setting, Account("key:zoe/nightly", owner=owner), "admin")


async def test_a_limit_of_a_role_concerns_the_keys_of_those_who_have_it(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    limit = {"name": "slow", "per": "user", "role": "trainee", "requests-per-second": 0.001}
    limits = {"caller-limits": {"enabled": True, "limits": [limit]}}
    async with guarded(mongo_client, mongo_uri, SETTINGS, KEYS, limits) as service:
        zoe = {"_id": "zoe", "roles": ["user", "trainee"], "password": hashed("secret")}
        service.insert("users", zoe)
        await allow(service, "path-prefix('/')", "user")
        key = await order(service, roles=["user"])
        codes = [(await service.request("GET", "/whoami", headers=key)).status for _ in range(2)]
        assert codes == [200, 429]
