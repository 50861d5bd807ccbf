"""What signed tokens carry, how long a session is prolonged, what the start says (decision 19)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import jwt
import pytest
import yaml

from docgraph.access.explain_decision import ExplainedRequest
from docgraph.observe.events import ConfigWarning
from tests.http.harness import Document, Mongo, listening, merge
from tests.http.tokens import (
    JWT,
    KEY,
    OPTION_SETS,
    SIGNED,
    Worker,
    open_workers,
    set_clock,
    until_refused,
)

pytestmark = pytest.mark.anyio
START = time.time()


def decode(token: str) -> dict[str, Any]:
    claims: dict[str, Any] = jwt.decode(token, options={"verify_signature": False})
    return claims


def at(worker: Worker, minutes: float) -> None:
    """Let it be that long after the start of the tests."""
    set_clock(worker, lambda: START + minutes * 60)


def carry(*names: str) -> dict[str, Any]:
    return {"jwtTokenManager": {"account-properties-claims": list(names)}}


async def properties(worker: Worker, **credentials: str) -> dict[str, Any]:
    reply = await worker.ask("/whoami", **credentials)
    assert reply.status_code == 200
    found: dict[str, Any] = reply.json()["properties"]
    return found


# --- claims ---------------------------------------------------------------------------------------


async def test_a_token_carries_nothing_of_the_user_but_id_and_roles(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    async with open_workers(mongo_client, mongo_uri, database, OPTION_SETS[1]) as (worker,):
        token = await worker.token()
        assert decode(token).keys() == {"sub", "roles", "iss", "exp", "iat", "jti", "docgraph"}
        expected = {"sub": "ada", "_id": "ada", "roles": ["user", "editor"]}
        by_basic = await properties(worker, login=f"ada:{token}")
        by_bearer = await properties(worker, authorization=f"Bearer {token}")
        by_cookie = await properties(worker, cookie=f"dg_auth=Bearer_{token}")
        assert by_basic == by_bearer == by_cookie == expected
        assert (await properties(worker, login="ada:secret"))["team"] == "blue"


@pytest.mark.parametrize("number", [1, 2])
async def test_a_token_carries_the_properties_that_are_listed(
    mongo_client: Mongo, mongo_uri: str, database: str, number: int
) -> None:
    listed = carry("team", "/address/city", "missing")
    async with open_workers(mongo_client, mongo_uri, database, OPTION_SETS[number], listed) as (
        worker,
    ):
        address = {"city": "Ulm", "street": "x"}
        mongo_client[database]["users"].update_one(
            {"_id": "ada"}, {"$set": {"address": address, "note": "n"}}
        )
        token = await worker.token()
        claims = decode(token)
        assert (claims["team"], claims["address"]) == ("blue", {"city": "Ulm"})
        assert "note" not in claims
        seen = await properties(worker, login=f"ada:{token}")
        assert (seen["team"], seen["address"]) == ("blue", {"city": "Ulm"})


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_a_user_who_edits_the_own_document_claims_no_other_id(
    mongo_client: Mongo, mongo_uri: str, database: str, number: int
) -> None:
    """By password, by token and by cookie, whether tokens carry these names or not."""
    users = mongo_client[database]["users"]
    for listed in ((), ("userid", "/sub")):
        settings = merge(OPTION_SETS[number], carry(*listed))
        async with open_workers(mongo_client, mongo_uri, database, settings) as (worker,):
            users.update_one({"_id": "ada"}, {"$set": {"userid": "root", "sub": "root"}})
            token = await worker.token()
            login = await worker.ask("/whoami?set-auth-cookie", login="ada:secret")
            cookie = login.headers["set-cookie"].partition(";")[0]
            by_password = await properties(worker, login="ada:secret")
            by_token = await properties(worker, login=f"ada:{token}")
            by_cookie = await properties(worker, cookie=cookie)
            assert by_password["_id"] == "ada"
            assert not {"userid", "sub"} & by_password.keys()
            assert by_token == by_cookie
            assert {by_token.get(name, "ada") for name in ("_id", "userid", "sub")} == {"ada"}


@pytest.mark.parametrize(
    "named", [{"sub": "u-1", "email": "bob"}, {"email": "bob"}, {"email": "bob", "_id": "x"}]
)
async def test_a_foreign_token_binds_its_claims_and_nothing_else(
    mongo_client: Mongo, mongo_uri: str, database: str, named: Document
) -> None:
    """Decision 19: no `_id` and no `userid` that the token does not carry."""
    claims = {**named, "roles": [], "iss": "docgraph", "exp": int(time.time() + 600)}
    foreign = jwt.encode(claims, KEY, algorithm="HS256")
    by_email = merge(JWT, {"jwtAuthenticationMechanism": {"usernameClaim": "email"}})
    async with open_workers(mongo_client, mongo_uri, database, by_email) as (worker,):
        reply = (await worker.ask("/whoami", authorization=f"Bearer {foreign}")).json()
        assert (reply["name"], reply["properties"]) == ("bob", claims)


async def test_a_bearer_token_says_what_is_true_now_when_it_is_followed_by_another(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Decision 32: renewal reads the user again, whichever way the token comes."""
    async with open_workers(mongo_client, mongo_uri, database, SIGNED, JWT) as (worker,):
        token = await worker.token()
        mongo_client[database]["users"].update_one({"_id": "ada"}, {"$set": {"roles": ["fewer"]}})
        end = decode(token)["exp"]
        set_clock(worker, lambda: end - 10)
        reply = await worker.ask("/whoami", authorization=f"Bearer {token}")
        assert decode(reply.headers["auth-token"])["roles"] == ["fewer"]


async def test_a_cookie_of_one_instance_ends_at_another_in_every_set_that_shares_the_key(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Decision 32: the instance that logs out never issued the token."""
    for number in (1, 2):
        async with (
            open_workers(mongo_client, mongo_uri, database, OPTION_SETS[number]) as (one,),
            open_workers(mongo_client, mongo_uri, database, OPTION_SETS[number]) as (two,),
        ):
            login = await one.ask("/roles/ada?set-auth-cookie", login="ada:secret")
            cookie = login.headers["set-cookie"].partition(";")[0]
            assert await two.status("/logout", method="POST", cookie=cookie) == 200
            assert await two.status(cookie=cookie) == 401
            await until_refused(one, cookie=cookie)


# --- which names are bound ------------------------------------------------------------------------

FILE: Document = {
    "basicAuthMechanism": {"authenticator": "fileRealmAuthenticator"},
    "dbRealmAuthenticator": {"enabled": False},
    "fileRealmAuthenticator": {
        "enabled": True,
        "users": [{"userid": "ada", "password": "secret", "roles": ["user"], "team": "blue"}],
    },
}
IDENTITY: Document = {"identityAuthMechanism": {"enabled": True, "username": "ada"}}
REALMS: dict[str, Document] = {"database": {}, "file": FILE, "identity": IDENTITY}
TOKENS = {"own JWT": OPTION_SETS[1], "random token": OPTION_SETS[3]}
NAMES = ("_id", "userid", "sub")
OF_REALM = {"database": {"_id"}, "file": {"userid"}, "identity": {"userid"}}


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("realm", REALMS)
async def test_the_names_that_are_bound_are_those_of_the_table(
    mongo_client: Mongo, mongo_uri: str, database: str, realm: str, token: str
) -> None:
    """Decision 19: by password, by token and by cookie, and `access explain` says the same."""
    settings = merge(TOKENS[token], REALMS[realm])
    async with open_workers(mongo_client, mongo_uri, database, settings) as (worker,):
        login = {} if realm == "identity" else {"login": "ada:secret"}
        reply = await worker.ask("/whoami?set-auth-cookie", **login)
        text, cookie = reply.headers["auth-token"], reply.headers["set-cookie"].partition(";")[0]
        seen = {
            realm: await properties(worker, **login),
            token: await properties(worker, login=f"ada:{text}"),
            f"cookie ({token})": await properties(worker, cookie=cookie),
        }
        own = OF_REALM[realm]
        expected = own | {"sub"} if token == "own JWT" else own
        bound = {way: {name for name in NAMES if name in found} for way, found in seen.items()}
        assert bound == {realm: own, token: expected, f"cookie ({token})": expected}

        if realm != "identity":  # which is nobody that a realm could find
            explainer = worker.app.plugins.find("accessExplain").explainer
            told = await worker.there(explainer.explain(ExplainedRequest("GET", "/", user="ada")))
            ways = dict(told.bindings)
            assert {way: ways[way] for way in seen} == {
                way: sorted(found) for way, found in seen.items()
            }
            assert ("foreign JWT" in ways) == (token == "own JWT")


async def test_the_table_of_bound_names_has_a_row_for_each_kind_of_account() -> None:
    page = (Path(__file__).parents[3] / "docs/reference/variables.md").read_text()
    table = page.partition("| Account |")[2].partition("\n\n")[0]
    rows = {row.split("|")[1].strip(): row for row in table.splitlines()[2:]}
    for realm, own in OF_REALM.items():
        marks = [cell.strip() for cell in rows[realm].split("|")[2:5]]
        assert marks == ["bound" if name in own else "–" for name in NAMES]
    kinds = " ".join(rows)
    for kind in ("own JWT", "foreign JWT", "random token", "cookie"):
        assert kind in kinds


# --- sessions -------------------------------------------------------------------------------------


@pytest.fixture(params=[1, 2], ids=["set 1", "set 2"])
async def session(
    request: pytest.FixtureRequest, mongo_client: Mongo, mongo_uri: str, database: str
) -> AsyncIterator[Worker]:
    section = {"jwtTokenManager": {"ttl": 20, "max-session-age": 30}}
    settings = merge(OPTION_SETS[request.param], section)
    async with open_workers(mongo_client, mongo_uri, database, settings) as (worker,):
        at(worker, 0)
        yield worker


async def renew(worker: Worker, token: str, path: str = "/whoami?renew-auth-token") -> str:
    reply = await worker.ask(path, login=f"ada:{token}")
    assert reply.status_code == 200
    return reply.headers["auth-token"]


async def test_a_session_is_prolonged_until_it_has_its_greatest_age_and_not_beyond(
    session: Worker,
) -> None:
    first = await session.token()
    at(session, 15)
    second = await renew(session, first)
    assert second != first
    at(session, 29)
    third = await renew(session, second)
    assert third != second
    at(session, 31)
    assert await renew(session, third) == third
    assert await renew(session, third, "/whoami") == third
    post = await session.ask("/tokens/ada", method="POST", login=f"ada:{third}")
    assert (post.status_code, post.json()["auth_token"]) == (200, third)
    at(session, 48.9)  # nearly over: others get the next one
    assert await renew(session, third, "/whoami") == third
    at(session, 50)
    assert await session.status(login=f"ada:{third}") == 401


async def test_a_cookie_of_an_old_session_is_not_renewed(session: Worker) -> None:
    login = await session.ask("/whoami?set-auth-cookie", login="ada:secret")
    cookie = login.headers["set-cookie"].partition(";")[0]
    at(session, 18)
    renewed = await session.ask("/whoami?set-auth-cookie&renew-auth-token", cookie=cookie)
    cookie = renewed.headers["set-cookie"].partition(";")[0]
    at(session, 35)
    for method, path in (
        ("GET", "/whoami?renew-auth-token"),
        ("GET", "/whoami?set-auth-cookie"),
        ("GET", "/whoami?set-auth-cookie&renew-auth-token"),
        ("GET", "/nowhere?renew-auth-token"),
        ("GET", "/tokens/ada?renew-auth-token"),
        ("POST", "/tokens/ada"),
        ("POST", "/tokens/ada?renew-auth-token&set-auth-cookie"),
    ):
        again = await session.ask(path, method=method, cookie=cookie)
        assert again.status_code in (200, 404), path
        assert again.headers["auth-token-valid-until"] == renewed.headers["auth-token-valid-until"]
        assert "set-cookie" not in again.headers, path
    assert await session.status(cookie=cookie) == 200


async def test_the_password_sets_the_cookie_of_a_new_session(session: Worker) -> None:
    login = await session.ask("/whoami?set-auth-cookie", login="ada:secret")
    cookie = login.headers["set-cookie"].partition(";")[0]
    at(session, 35)
    again = await session.ask("/whoami?set-auth-cookie", login="ada:secret", cookie=cookie)
    fresh = again.headers["set-cookie"].partition(";")[0]
    assert fresh != cookie
    at(session, 50)
    assert (await session.status(cookie=cookie), await session.status(cookie=fresh)) == (401, 200)


async def test_the_password_begins_a_new_session_and_prolongs_no_other(session: Worker) -> None:
    old = await session.token()
    at(session, 16)
    old = await renew(session, old)
    at(session, 31)
    new = await session.token()
    assert new != old
    assert decode(new)["auth_time"] > decode(old)["auth_time"]
    assert await renew(session, old) == old
    at(session, 45)
    assert await renew(session, new) != new


async def test_a_session_gets_no_token_of_a_younger_one(session: Worker) -> None:
    """Not even while it may still be prolonged."""
    old = await session.token()
    at(session, 19)
    fresh = await session.ask("/whoami?renew-auth-token", login="ada:secret")
    assert decode(fresh.headers["auth-token"])["auth_time"] == START + 19 * 60
    for path in ("/whoami", "/whoami?renew-auth-token"):
        given = await renew(session, old, path)
        assert decode(given)["auth_time"] == START


async def test_without_a_greatest_age_a_token_says_nothing_of_the_session(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    async with open_workers(mongo_client, mongo_uri, database, SIGNED) as (worker,):
        at(worker, 0)
        token = await worker.token()
        assert "auth_time" not in decode(token)
        for minutes in (14, 28, 42, 56):
            at(worker, minutes)
            token = await renew(worker, token)


# --- what the start says --------------------------------------------------------------------------

RULE = {"roles": ["user"], "predicate": "path-prefix('/x') and equals(@user.team, 'blue')"}
OPTION = "/jwtTokenManager/account-properties-claims"


async def find_warnings(mongo: Mongo, uri: str, db: str, *settings: Any) -> list[str]:
    with listening(ConfigWarning) as heard:
        async with open_workers(mongo, uri, db, *settings):
            pass
    found = [one for one in heard if one.path == OPTION]
    assert all(one.hint.startswith("list ") for one in found)
    return sorted(one.message for one in found)


async def test_rules_and_mappings_that_use_what_tokens_do_not_carry_are_told(
    mongo_client: Mongo, mongo_uri: str, database: str, tmp_path: Path
) -> None:
    file = tmp_path / "acl.yml"
    file.write_text(yaml.safe_dump({"permissions": [RULE]}))
    mongo_client[database]["acl"].insert_many(
        [
            {"_id": "one", **RULE, "mongo": {"readFilter": {"x": "@user.address.city"}}},
            {"_id": "two", "roles": ["a"], "predicate": "equals(@user._id, ${id})"},
            {"_id": "three", "roles": ["a"], "predicate": "equals('@user.quoted', ${id})"},
            {"_id": "four", "roles": ["a"], "mongo": {"mergeRequest": {"by": "eve@user.example"}}},
        ]
    )
    mongo_client[database]["gql-apps"].insert_one(
        {
            "_id": "blog",
            "schema": "# @user.comment",
            "mappings": {"Query": {"a": {"find": {"x": {"_$arg": ["@user.desk", None]}}}}},
        }
    )
    settings = merge(
        SIGNED,
        {
            "dbAclAuthorizer": {"acl-db": database},
            "fileAclAuthorizer": {"enabled": True, "conf-file": str(file)},
        },
    )
    told = await find_warnings(mongo_client, mongo_uri, database, settings)
    assert [one.partition(" ")[0] for one in told] == [
        "@user.address.city",
        "@user.desk",
        "@user.team",
        "@user.team",
    ]
    assert "the rule one" in told[0]
    assert "the app blog" in told[1]
    listed = carry("team", "desk", "/address/city")
    assert await find_warnings(mongo_client, mongo_uri, database, settings, listed) == []


async def test_stored_aggregations_that_use_what_tokens_do_not_carry_are_told(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    stages = [{"_$match": {"owner": {"_$var": ["@user.badge", None]}}}]
    mongo_client[database]["_properties"].insert_many(
        [
            {"_id": "_properties.orders", "aggrs": [{"uri": "mine", "stages": stages}]},
            {"_id": "_properties.others", "note": "@user.note"},
        ]
    )
    mounted = {"mongo": {"mongo-mounts": [{"what": f"/{database}", "where": "/"}]}}

    (told,) = await find_warnings(mongo_client, mongo_uri, database, merge(SIGNED, mounted))

    assert told.startswith("@user.badge is not bound")
    assert "the aggrs of _properties.orders" in told


async def test_rules_whose_filters_are_text_and_variables_in_brackets_are_told_too(
    mongo_client: Mongo, mongo_uri: str, database: str, tmp_path: Path
) -> None:
    conditions = {
        "readFilter": '{"t": "@user.team3"}',
        "mergeRequest": '{"t": "@user.team4[0].name"}',
        "readFilters": '{"x.y": {"t": "@user.team5"}}',
    }
    rule = {
        "roles": ["user"],
        "predicate": "path('/x') and equals(@user['team2'],'x')",
        "mongo": conditions,
    }
    file = tmp_path / "acl.yml"
    file.write_text(yaml.safe_dump({"permissions": [rule]}))
    in_file = {"fileAclAuthorizer": {"enabled": True, "conf-file": str(file)}}
    in_section = {"fileAclAuthorizer": {"enabled": True, "permissions": [rule]}}
    in_database = {"dbAclAuthorizer": {"acl-db": database}}
    for settings in (in_file, in_section, in_database):
        if settings is in_database:
            mongo_client[database]["acl"].insert_one({"_id": "one", **rule})
        told = await find_warnings(mongo_client, mongo_uri, database, SIGNED, settings)
        named = [one.partition(" ")[0] for one in told]
        assert named == [f"@user.team{number}" for number in (2, 3, 4, 5)], settings


async def test_without_signed_tokens_nothing_is_told(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    rules = {
        "dbAclAuthorizer": {"acl-db": database},
        "fileAclAuthorizer": {"enabled": True, "permissions": [RULE]},
    }
    mongo_client[database]["acl"].insert_one({"_id": "one", **RULE})
    assert await find_warnings(mongo_client, mongo_uri, database, rules) == []
    told = await find_warnings(mongo_client, mongo_uri, database, rules, SIGNED)
    assert len(told) == 2
