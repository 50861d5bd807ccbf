"""Token managers and the token service (decisions 19, 29, 32, 33; A15 to A17)."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from itertools import product
from typing import Any

import jwt
import pytest

from docgraph.exchange import WriteKind
from tests.http.harness import Document, Mongo, eventually, failing, identity, merge, running
from tests.http.realms import hashed
from tests.http.tokens import (
    COOKIES,
    JWT,
    KEY,
    RANDOM,
    SIGNED,
    Worker,
    anew,
    open_workers,
    set_clock,
    sharing_workers,
    until_refused,
)

pytestmark = pytest.mark.anyio
MANAGERS = {"random": RANDOM, "signed": SIGNED}
own_path = pytest.mark.parametrize("path", ["/tokens/ada", "/tokens", "/tokens/"])


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def count(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module", params=list(MANAGERS))
def manager(request: pytest.FixtureRequest) -> Document:
    return MANAGERS[request.param]


@pytest.fixture(scope="module")
def shared_workers(
    mongo_client: Mongo, mongo_uri: str, manager: Document, count: int
) -> Iterator[Sequence[Worker]]:
    with sharing_workers(mongo_client, mongo_uri, manager, workers=count) as shared:
        yield shared


@pytest.fixture
async def workers(shared_workers: Sequence[Worker]) -> Sequence[Worker]:
    return await anew(shared_workers)


def is_signed(token: str) -> bool:
    return token.count(".") == 2


# --- headers --------------------------------------------------------------------------------------


async def test_authenticated_answers_carry_the_token_its_end_and_its_place(
    workers: Sequence[Worker],
) -> None:
    """Decision 29."""
    reply = await workers[0].ask("/whoami", login="ada:secret")
    assert reply.headers["auth-token-location"] == "/tokens/ada"
    until = reply.headers["auth-token-valid-until"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", until)
    assert len(reply.headers["auth-token"]) >= 32
    assert reply.headers["cache-control"] == "no-store"


async def test_a_live_token_is_reused_by_all_requests_over_all_workers(
    workers: Sequence[Worker],
) -> None:
    """Decision 29: it is the user's token."""
    replies = [await worker.ask("/whoami", login="ada:secret") for worker in (*workers, *workers)]
    assert len({reply.headers["auth-token"] for reply in replies}) == 1
    assert len({reply.headers["auth-token-valid-until"] for reply in replies}) == 1


async def test_two_first_requests_at_once_get_one_token(workers: Sequence[Worker]) -> None:
    replies = await asyncio.gather(
        *(worker.ask("/whoami", login="ada:secret") for worker in workers for _ in range(5))
    )
    assert len({reply.headers["auth-token"] for reply in replies}) == 1


async def test_the_token_is_taken_in_the_place_of_the_password_by_every_worker(
    workers: Sequence[Worker],
) -> None:
    """Decision 33: verifiable on every worker process of the instance."""
    token = await workers[0].token()
    for worker in workers:
        reply = await worker.ask("/whoami", login=f"ada:{token}")
        assert reply.status_code == 200
        assert reply.headers["auth-token"] == token


async def test_a_token_account_keeps_kind_roles_and_properties_of_its_login(
    workers: Sequence[Worker],
) -> None:
    """Decision 19: random tokens all properties, signed ones those that are listed."""
    by_password = (await workers[0].ask("/whoami", login="ada:secret")).json()
    token = await workers[0].token()
    by_token = (await workers[-1].ask("/whoami", login=f"ada:{token}")).json()
    properties, all_properties = by_token.pop("properties"), by_password.pop("properties")
    assert by_token == by_password
    assert by_token["kind"] == "database"
    if is_signed(token):
        assert properties == {"sub": "ada", "_id": "ada", "roles": ["user", "editor"]}
    else:
        assert properties == all_properties
    assert "password" not in properties


async def test_anonymous_and_options_answers_carry_no_token(workers: Sequence[Worker]) -> None:
    for reply in (
        await workers[0].ask("/whoami"),
        await workers[0].ask("/whoami", method="OPTIONS", login="ada:secret"),
        await workers[0].ask("/whoami", login="ada:wrong"),
    ):
        assert not [name for name in reply.headers if name.startswith("auth-token")]


async def test_a_path_that_is_not_there_carries_the_token_too(workers: Sequence[Worker]) -> None:
    reply = await workers[0].ask("/nowhere", login="ada:secret")
    assert reply.status_code == 404
    assert "auth-token" in reply.headers


async def test_a_403_to_a_known_caller_carries_the_token_but_sets_no_cookie(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    rules = {"fullAuthorizer": {"enabled": False}, "dbAclAuthorizer": {"acl-db": database}}
    settings = merge(RANDOM, COOKIES, rules)
    async with open_workers(mongo_client, mongo_uri, database, settings) as (worker,):
        reply = await worker.ask("/whoami?set-auth-cookie", login="ada:secret")
        assert reply.status_code == 403
        assert "auth-token" in reply.headers
        assert "set-cookie" not in reply.headers


# --- verification ---------------------------------------------------------------------------------


async def test_a_token_is_of_no_use_to_anybody_else(
    workers: Sequence[Worker], mongo_client: Mongo
) -> None:
    """A16: other user's id with a good token is 401."""
    mongo_client[workers[0].db]["users"].insert_one(
        {"_id": "bob", "password": hashed("other"), "roles": ["admin"]}
    )
    token = await workers[0].token()
    bobs = await workers[0].token("bob", "other")
    assert token != bobs
    assert await workers[-1].status(login=f"bob:{token}") == 401
    assert await workers[-1].status(login=f"ada:{bobs}") == 401
    assert await workers[-1].status(login=f"Ada:{token}") == 401


async def test_a_changed_token_is_refused(workers: Sequence[Worker]) -> None:
    token = await workers[0].token()
    for changed in (token[:-1], token + "A", token.swapcase(), "A" + token[1:] + "B", ""):
        assert await workers[0].status(login=f"ada:{changed}") == 401


async def test_new_roles_of_a_login_reach_its_token(
    workers: Sequence[Worker], mongo_client: Mongo
) -> None:
    old = await workers[0].token()
    users = mongo_client[workers[0].db]["users"]
    users.update_one({"_id": "ada"}, {"$set": {"roles": ["other"]}})
    new = await workers[-1].token()
    told = (await workers[0].ask("/whoami", login=f"ada:{new}")).json()
    assert told["roles"] == ["other"]
    assert told["properties"]["roles"] == ["other"]
    if len(old) < 100:  # a random token stays; a JWT says what it says until its end
        assert new == old


# --- token service --------------------------------------------------------------------------------


@own_path
async def test_get_gives_the_token_of_the_headers(workers: Sequence[Worker], path: str) -> None:
    """Decision 29: without a user id the path is the caller's."""
    reply = await workers[0].ask(path, login="ada:secret")
    assert reply.status_code == 200
    assert reply.json() == {
        "auth_token": reply.headers["auth-token"],
        "auth_token_valid_until": reply.headers["auth-token-valid-until"],
    }
    assert reply.headers["cache-control"] == "no-store"
    assert reply.headers["content-type"].startswith("application/json")


@own_path
async def test_post_makes_a_fresh_token_that_is_the_users_from_then_on(
    workers: Sequence[Worker], path: str
) -> None:
    """Decision 29."""
    old = await workers[0].token()
    reply = await workers[0].ask(path, method="POST", login=f"ada:{old}")
    new = reply.json()["auth_token"]
    assert reply.status_code == 200
    assert new != old
    assert reply.headers.get_list("auth-token") == [new]
    assert [await worker.token() for worker in workers] == [new] * len(workers)
    assert await workers[-1].status(login=f"ada:{new}") == 200


@own_path
async def test_delete_ends_the_token_at_once_on_every_worker(
    workers: Sequence[Worker], path: str
) -> None:
    """Decision 32, A16."""
    token = await workers[0].token()
    assert [await worker.status(login=f"ada:{token}") for worker in workers] == [200] * len(workers)
    reply = await workers[0].ask(path, method="DELETE", login="ada:secret")
    assert reply.status_code == 204
    assert not [name for name in reply.headers if name.startswith("auth-token")]
    assert [await worker.status(login=f"ada:{token}") for worker in workers] == [401] * len(workers)
    again = await workers[-1].token()
    assert again != token
    assert await workers[0].status(login=f"ada:{again}") == 200


async def test_a_token_can_end_itself(workers: Sequence[Worker]) -> None:
    token = await workers[0].token()
    assert await workers[-1].status("/tokens/ada", method="DELETE", login=f"ada:{token}") == 204
    assert await workers[0].status(login=f"ada:{token}") == 401


async def test_unknown_callers_get_401_with_a_challenge_whatever_they_ask(
    workers: Sequence[Worker],
) -> None:
    """Decision 28."""
    methods, paths = ("GET", "POST", "DELETE", "PUT"), ("/tokens/ada", "/tokens", "/tokens/nobody")
    for method, path in product(methods, paths):
        reply = await workers[0].ask(path, method=method)
        assert reply.status_code == 401
        assert reply.headers["www-authenticate"].startswith("Basic ")
        assert reply.json()["message"] == "authentication required"


async def test_other_paths_are_forbidden(workers: Sequence[Worker]) -> None:
    paths = ("/tokens/bob", "/tokens/ada/x", "/tokens/Ada", "/tokens/%20")
    for method, path in product(("GET", "POST", "DELETE", "PUT"), paths):
        reply = await workers[0].ask(path, method=method, login="ada:secret")
        assert (reply.status_code, reply.json()["message"]) == (403, "permission denied")


async def test_other_methods_on_the_own_path_are_405(workers: Sequence[Worker]) -> None:
    for path in ("/tokens/%61da", "/tokens"):
        reply = await workers[0].ask(path, method="PUT", login="ada:secret")
        assert reply.status_code == 405
        assert reply.headers["allow"] == "GET, POST, DELETE, HEAD, OPTIONS"


async def test_options_needs_no_credentials(workers: Sequence[Worker]) -> None:
    reply = await workers[0].ask("/tokens/ada", method="OPTIONS")
    assert reply.status_code == 200
    assert "DELETE" in reply.headers["access-control-allow-methods"]


# --- users that change ----------------------------------------------------------------------------


async def test_a_changed_password_ends_all_older_tokens_on_every_worker(
    workers: Sequence[Worker],
) -> None:
    """Decision 32, A21."""
    token = await workers[0].token()
    for worker in workers:
        assert await worker.status(login=f"ada:{token}") == 200
    await workers[0].write(
        WriteKind.UPDATE, update={"$set": {"password": "another"}}, filter={"_id": "ada"}
    )
    assert [await worker.status(login=f"ada:{token}") for worker in workers] == [401] * len(workers)
    new = await workers[-1].token("ada", "another")
    assert [await worker.status(login=f"ada:{new}") for worker in workers] == [200] * len(workers)


async def test_a_deleted_user_has_no_tokens(workers: Sequence[Worker]) -> None:
    token = await workers[-1].token()
    await workers[0].write(WriteKind.DELETE, filter={"_id": "ada"})
    assert [await worker.status(login=f"ada:{token}") for worker in workers] == [401] * len(workers)


async def test_with_the_collection_of_users_every_token_ends(workers: Sequence[Worker]) -> None:
    """Decision 32."""
    token = await workers[-1].token()
    await workers[0].write(WriteKind.CREATE)
    assert await workers[-1].status(login=f"ada:{token}") == 200
    await workers[0].write(WriteKind.DROP)
    assert [await worker.status(login=f"ada:{token}") for worker in workers] == [401] * len(workers)


async def test_changing_anything_else_of_a_user_ends_nothing(workers: Sequence[Worker]) -> None:
    token = await workers[0].token()
    await workers[0].write(
        WriteKind.UPDATE, update={"$set": {"team": "red"}}, filter={"_id": "ada"}
    )
    assert await workers[-1].status(login=f"ada:{token}") == 200


async def test_what_somebody_does_in_the_database_itself_counts_by_the_change_stream(
    mongo_client: Mongo, mongo_uri: str, database: str, manager: Document, count: int
) -> None:
    """Decision 32, A21."""
    users = mongo_client[database]["users"]
    secret, another = hashed("secret"), hashed("another")
    users.insert_many([{"_id": name, "password": secret} for name in ("bob", "cyd")])
    async with open_workers(mongo_client, mongo_uri, database, manager, workers=count) as workers:
        tokens = {name: await workers[0].token(name) for name in ("ada", "bob", "cyd")}

        users.delete_one({"_id": "ada"})
        users.update_one({"_id": "bob"}, {"$set": {"password": another}})
        users.replace_one({"_id": "cyd"}, {"_id": "cyd", "password": another})

        for worker, (name, token) in product(workers, tokens.items()):
            await until_refused(worker, login=f"{name}:{token}")


# --- instances ------------------------------------------------------------------------------------


async def test_a_random_token_is_known_to_its_instance_only(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Decision 33."""
    async with (
        open_workers(mongo_client, mongo_uri, database, RANDOM) as (one,),
        open_workers(mongo_client, mongo_uri, database, RANDOM) as (other,),
    ):
        token = await one.token()
        assert await one.status(login=f"ada:{token}") == 200
        assert await other.status(login=f"ada:{token}") == 401


async def test_a_signed_token_is_known_to_every_instance_with_the_key_until_it_is_revoked(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """A17 and decision 32: in force on the other instance by the change stream."""
    other_key = merge(SIGNED, {"jwtTokenManager": {"key": KEY[::-1]}})
    async with (
        open_workers(mongo_client, mongo_uri, database, SIGNED) as (one,),
        open_workers(mongo_client, mongo_uri, database, SIGNED) as (two,),
        open_workers(mongo_client, mongo_uri, database, other_key) as (stranger,),
    ):
        token = await one.token()
        assert await two.status(login=f"ada:{token}") == 200
        assert await stranger.status(login=f"ada:{token}") == 401
        assert await one.status("/tokens/ada", method="DELETE", login=f"ada:{token}") == 204
        assert await one.status(login=f"ada:{token}") == 401
        await until_refused(two, login=f"ada:{token}")


async def test_revocations_outlive_the_instance(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Decision 32."""
    async with open_workers(mongo_client, mongo_uri, database, SIGNED) as (one,):
        token = await one.token()
        assert await one.status("/tokens/ada", method="DELETE", login=f"ada:{token}") == 204
    async with open_workers(mongo_client, mongo_uri, database, SIGNED) as (again,):
        assert await again.status(login=f"ada:{token}") == 401
        indexes = mongo_client[database]["_revocations"].index_information
        await eventually(
            lambda: any(one.get("expireAfterSeconds") == 0 for one in indexes().values())
        )


# --- signed tokens --------------------------------------------------------------------------------


SHORT = {"jwtTokenManager": {"audience": ["api", "other"], "ttl": 5, "srv-uri": "/my/token"}}


@pytest.fixture(scope="module")
def shared_signed(mongo_client: Mongo, mongo_uri: str) -> Iterator[Sequence[Worker]]:
    with sharing_workers(mongo_client, mongo_uri, SIGNED, SHORT) as shared:
        yield shared


@pytest.fixture
async def signed(shared_signed: Sequence[Worker]) -> Worker:
    (worker,) = await anew(shared_signed)
    return worker


@pytest.fixture
async def lone_signed(mongo_client: Mongo, mongo_uri: str, database: str) -> AsyncIterator[Worker]:
    """A worker of one test, which may set its clock."""
    async with open_workers(mongo_client, mongo_uri, database, SIGNED, SHORT) as (worker,):
        yield worker


async def test_a_signed_token_has_the_claims_that_others_expect(signed: Worker) -> None:
    """Decision 31: HS256, issuer docgraph."""
    token = await signed.token()
    claims = jwt.decode(token, KEY, algorithms=["HS256"], issuer="docgraph", audience="api")
    assert jwt.get_unverified_header(token)["alg"] == "HS256"
    assert (claims["sub"], claims["roles"]) == ("ada", ["user", "editor"])
    assert 295 <= claims["exp"] - claims["iat"] <= 300
    assert len(claims["jti"]) >= 32
    assert "password" not in claims


async def test_a_revocation_is_stored_for_as_long_as_the_token_would_live(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Decision 32."""
    day = {"jwtTokenManager": {"ttl": 1440}}
    async with open_workers(mongo_client, mongo_uri, database, SIGNED, day) as (worker,):
        claims = jwt.decode(await worker.token(), options={"verify_signature": False})
        assert await worker.status("/tokens/ada", method="DELETE", login="ada:secret") == 204

    stamps = mongo_client[database]["_revocations"].find({"_id": {"$regex": claims["jti"]}})
    assert [one["until"].replace(tzinfo=UTC).timestamp() >= claims["exp"] for one in stamps] == [
        True
    ]


async def test_srv_uri_moves_the_service(signed: Worker) -> None:
    """Decision 29."""
    reply = await signed.ask("/my/token/ada", login="ada:secret")
    assert reply.status_code == 200
    assert reply.headers["auth-token-location"] == "/my/token/ada"
    assert await signed.status("/tokens/ada", login="ada:secret") == 404


async def test_uri_of_the_service_goes_before_srv_uri(mongo_client: Mongo, mongo_uri: str) -> None:
    moved = {"authTokenService": {"uri": "/mine"}}
    async with running(mongo_client, mongo_uri, identity("user"), moved) as service:
        reply = await service.request("GET", "/mine/ada")
        assert (reply.status, reply.headers["auth-token-location"]) == (200, "/mine/ada")


async def test_renewal_makes_a_new_token_on_any_request_and_reads_the_user_again(
    lone_signed: Worker, mongo_client: Mongo, database: str
) -> None:
    """A17, decisions 29 and 32."""
    token = await lone_signed.token()
    mongo_client[database]["users"].update_one({"_id": "ada"}, {"$set": {"roles": ["fewer"]}})
    plain = await lone_signed.ask("/whoami", login=f"ada:{token}")
    assert plain.headers["auth-token"] == token
    later = time.time() + 30
    set_clock(lone_signed, lambda: later)
    renewed = await lone_signed.ask("/whoami?renew-auth-token", login=f"ada:{token}")
    new = renewed.headers["auth-token"]
    old_claims, claims = (
        jwt.decode(one, options={"verify_signature": False}) for one in (token, new)
    )
    assert claims["exp"] > old_claims["exp"]
    assert claims["jti"] != old_claims["jti"]
    assert claims["roles"] == ["fewer"]
    assert await lone_signed.status(login=f"ada:{new}") == 200
    assert await lone_signed.status(login=f"ada:{token}") == 200


async def test_nobody_renews_the_token_of_a_user_who_is_gone(
    lone_signed: Worker, mongo_client: Mongo, database: str
) -> None:
    token = await lone_signed.token()
    mongo_client[database]["users"].delete_one({"_id": "ada"})
    reply = await lone_signed.ask("/whoami?renew-auth-token", login=f"ada:{token}")
    assert reply.status_code == 401
    assert "auth-token" not in reply.headers


async def test_random_tokens_are_not_renewed_by_the_parameter(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Decision 29: with jwtTokenManager only."""
    async with open_workers(mongo_client, mongo_uri, database, RANDOM) as (worker,):
        token = await worker.token()
        reply = await worker.ask("/whoami?renew-auth-token", login="ada:secret")
        assert reply.headers["auth-token"] == token


@pytest.mark.parametrize(
    "changes",
    [
        {"exp": 1},
        {"iss": "other"},
        {"aud": "nobody"},
        {"sub": "bob"},
        {"iat": 4_000_000_000},
        {"roles": "admin"},
    ],
    ids=lambda changes: next(iter(changes)),
)
async def test_claims_that_do_not_hold_are_refused(signed: Worker, changes: Any) -> None:
    claims = jwt.decode(await signed.token(), options={"verify_signature": False})
    forged = jwt.encode({**claims, **changes}, KEY, algorithm="HS256")
    control = jwt.encode(claims, KEY, algorithm="HS256")
    assert await signed.status(login=f"ada:{control}") == 200
    assert await signed.status(login=f"ada:{forged}") == 401


async def test_a_token_is_over_at_its_end(lone_signed: Worker) -> None:
    """A16."""
    token = await lone_signed.token()
    end = jwt.decode(token, options={"verify_signature": False})["exp"]
    statuses = []
    for now in (end - 1, end, end + 1):
        set_clock(lone_signed, partial(float, now))
        statuses.append(await lone_signed.status(login=f"ada:{token}"))
    assert statuses == [200, 401, 401]


async def test_the_jwt_mechanism_takes_the_token_and_the_answer_carries_the_same(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    async with open_workers(mongo_client, mongo_uri, database, SIGNED, JWT, workers=2) as workers:
        token = await workers[0].token()
        for worker in workers:
            reply = await worker.ask("/whoami", authorization=f"Bearer {token}")
            assert reply.status_code == 200
            assert reply.headers["auth-token"] == token
        ended = await workers[0].ask(
            "/tokens/ada", method="DELETE", authorization=f"Bearer {token}"
        )
        assert ended.status_code == 204
        for worker in workers:
            assert await worker.status(authorization=f"Bearer {token}") == 401


async def test_a_foreign_token_gets_a_token_of_its_own_and_ends_with_it(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Nobody gets the token of a user of the realm by bearing the same name elsewhere."""
    foreign = jwt.encode(
        {"sub": "ada", "roles": [], "iss": "docgraph", "exp": time.time() + 3600, "jti": "f"},
        KEY,
        algorithm="HS256",
    )
    async with open_workers(mongo_client, mongo_uri, database, RANDOM, JWT) as (worker,):
        mine = await worker.token()
        reply = await worker.ask("/whoami", authorization=f"Bearer {foreign}")
        other = reply.headers["auth-token"]
        assert other != mine
        told = (await worker.ask("/whoami", login=f"ada:{other}")).json()
        assert (told["kind"], told["roles"]) == ("jwt", [])
        await worker.ask("/tokens/ada", method="DELETE", authorization=f"Bearer {foreign}")
        assert await worker.status(authorization=f"Bearer {foreign}") == 401
        assert await worker.status(login=f"ada:{other}") == 401
        assert await worker.status(login=f"ada:{mine}") == 200


@pytest.mark.parametrize("manager", [RANDOM, SIGNED], ids=["random", "signed"])
async def test_nothing_that_descends_from_a_foreign_token_outlives_it(
    mongo_client: Mongo, mongo_uri: str, database: str, manager: Document
) -> None:
    """Decision 57: by header, by cookie and by the token service, however often it is renewed."""
    ends = int(time.time()) + 600
    claims = {"sub": "eve", "roles": [], "iss": "docgraph", "exp": ends}
    bearer = f"Bearer {jwt.encode(claims, KEY, algorithm='HS256')}"
    async with open_workers(mongo_client, mongo_uri, database, manager, JWT, COOKIES) as (worker,):
        for by_cookie in (False, True):
            reply = await worker.ask("/whoami?set-auth-cookie", authorization=bearer)
            for _ in range(3):
                cookie, _, attributes = reply.headers["set-cookie"].partition(";")
                assert int(re.findall(r"Max-Age=(\d+)", attributes)[0]) <= 600
                shown = datetime.fromisoformat(reply.headers["auth-token-valid-until"])
                assert shown.timestamp() <= ends
                login = None if by_cookie else f"eve:{reply.headers['auth-token']}"
                sent = {"cookie": cookie} if by_cookie else {}
                path = "/tokens/eve?set-auth-cookie&renew-auth-token"
                reply = await worker.ask(path, method="POST", login=login, **sent)
                assert reply.status_code == 200


@pytest.mark.parametrize(("shares", "status"), [(False, 200), (True, 401)])
async def test_a_changed_password_ends_tokens_of_this_service_and_of_issuers_that_share_users(
    mongo_client: Mongo, mongo_uri: str, database: str, shares: bool, status: int
) -> None:
    """Decision 32: somebody else's `ada` is another one, and her token need not tell its age."""
    claims = {"sub": "ada", "roles": [], "iss": "docgraph", "exp": int(time.time() + 3600)}
    foreign = jwt.encode(claims, KEY, algorithm="HS256")
    declared = {"jwtAuthenticationMechanism": {"shares-users": shares}}
    async with open_workers(mongo_client, mongo_uri, database, SIGNED, JWT, declared) as (worker,):
        own = await worker.token()
        bearers = {name: {"authorization": f"Bearer {name}"} for name in (own, foreign)}
        assert [await worker.status(**one) for one in bearers.values()] == [200, 200]
        change = {"$set": {"password": "another secret"}}
        await worker.write(WriteKind.UPDATE, filter={"_id": "ada"}, update=change)
        await until_refused(worker, **bearers[own])
        assert await worker.status(**bearers[foreign]) == status


async def test_while_the_database_fails_what_is_known_stays_in_force(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Decision 32; a token is not ended by halves: 500 says that it still counts elsewhere."""
    async with open_workers(mongo_client, mongo_uri, database, SIGNED, JWT) as (worker,):
        ended = await worker.token()
        assert await worker.status("/tokens/ada", method="DELETE", login=f"ada:{ended}") == 204
        token = await worker.token()
        with failing(mongo_client, "find", "update", "aggregate", errorCode=8):
            assert await worker.status(authorization=f"Bearer {token}") == 200
            assert await worker.status(authorization=f"Bearer {ended}") == 401
            reply = await worker.ask(
                "/tokens/ada", method="DELETE", authorization=f"Bearer {token}"
            )
            assert reply.status_code == 500


async def test_without_a_manager_there_is_no_token(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    off = {"rndTokenManager": {"enabled": False}}
    async with open_workers(mongo_client, mongo_uri, database, off) as (worker,):
        reply = await worker.ask("/tokens/ada", login="ada:secret")
        assert reply.status_code == 404
        assert "auth-token" not in reply.headers
        assert await worker.status("/tokens/ada") == 401


async def test_the_service_returns_the_token_where_responses_carry_none(
    mongo_client: Mongo, mongo_uri: str, database: str, manager: Document
) -> None:
    without = merge(manager, {"authTokenHeaders": {"enabled": False}})
    async with open_workers(mongo_client, mongo_uri, database, without) as (one,):
        assert "auth-token" not in (await one.ask("/whoami", login="ada:secret")).headers
        reply = await one.ask("/tokens/ada", login="ada:secret")
        assert reply.status_code == 200
        assert await one.status("/whoami", login=f"ada:{reply.json()['auth_token']}") == 200
