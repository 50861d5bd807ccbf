"""`authTokenService.oauth-style`: the endpoints that clients of other servers use (decision 55)."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence

import jwt
import pytest

from tests.http.harness import Document, Mongo, merge
from tests.http.tokens import (
    COOKIES,
    JWT,
    KEY,
    OPTION_SETS,
    RANDOM,
    SIGNED,
    Worker,
    anew,
    open_workers,
    sharing_workers,
)

pytestmark = pytest.mark.anyio
PATHS = ("/token/cookie", "/token", "/token?renew", "/token/cookie?renew")
STYLE: Document = {"authTokenService": {"uri": "/token", "oauth-style": True}}


@pytest.fixture(scope="module", params=[1, 2, 3], ids=["set 1", "set 2", "set 3"])
def shared(
    request: pytest.FixtureRequest, mongo_client: Mongo, mongo_uri: str
) -> Iterator[Sequence[Worker]]:
    with sharing_workers(mongo_client, mongo_uri, OPTION_SETS[request.param], STYLE) as workers:
        yield workers


@pytest.fixture
async def worker(shared: Sequence[Worker]) -> Worker:
    (worker,) = await anew(shared)
    return worker


@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_answer_has_the_names_of_oauth(worker: Worker, method: str) -> None:
    reply = await worker.ask("/token", method=method, login="ada:secret")
    answer = reply.json()
    is_signed = answer["access_token"].count(".") == 2
    assert answer.pop("access_token") == reply.headers["auth-token"]
    assert 0 < answer.pop("expires_in") <= 15 * 60
    assert answer == {
        "token_type": "Bearer" if is_signed else "Basic-Password",
        "username": "ada",
        "roles": ["user", "editor"],
    }
    assert reply.headers["cache-control"] == "no-store"


async def test_the_token_of_the_answer_is_accepted(worker: Worker) -> None:
    token = (await worker.ask("/token", method="POST", login="ada:secret")).json()["access_token"]
    assert await worker.status(login=f"ada:{token}") == 200


async def test_a_token_is_made_anew_only_on_demand(worker: Worker) -> None:
    async def ask(path: str, method: str) -> str:
        reply = await worker.ask(path, method=method, login="ada:secret")
        text: str = reply.json()["access_token"]
        return text

    for method in ("POST", "GET"):
        first = await ask("/token", method)
        assert await ask("/token", method) == first
        assert await ask("/token?renew=true", method) != first


async def test_a_cookie_is_renewed_on_demand(worker: Worker) -> None:
    async def set_cookie(path: str, **credentials: str) -> str:
        reply = await worker.ask(path, method="POST", **credentials)
        cookie: str = reply.headers["set-cookie"].partition(";")[0]
        return cookie

    first = await set_cookie("/token/cookie", login="ada:secret")
    second = await set_cookie("/token/cookie?renew=true", cookie=first)
    assert second != first
    assert await worker.status(cookie=second) == 200


async def test_a_token_is_ended(worker: Worker) -> None:
    token = await worker.token()
    assert await worker.status("/token", method="DELETE", login=f"ada:{token}") == 204
    assert await worker.status(login=f"ada:{token}") == 401


async def test_the_cookie_has_an_endpoint_and_its_answer_no_token(worker: Worker) -> None:
    reply = await worker.ask("/token/cookie", method="POST", login="ada:secret")
    assert reply.json() == {
        "authenticated": True,
        "username": "ada",
        "roles": ["user", "editor"],
    }
    cookie = reply.headers["set-cookie"].partition(";")[0]
    assert cookie.startswith("dg_auth=")
    assert await worker.status(cookie=cookie) == 200


async def test_a_caller_with_the_cookie_gets_no_token_text(worker: Worker) -> None:
    """What scripts cannot read in the cookie, they cannot read here either (decision 29)."""
    login = await worker.ask("/token/cookie", method="POST", login="ada:secret")
    cookie = login.headers["set-cookie"].partition(";")[0]
    for method, path in (("GET", "/token"), ("POST", "/token"), ("POST", "/token?renew")):
        reply = await worker.ask(path, method=method, cookie=cookie)
        assert reply.status_code == 200
        assert "access_token" not in reply.json()
        assert "auth-token" not in reply.headers


async def test_a_foreign_page_cannot_use_the_endpoints_by_cookie(worker: Worker) -> None:
    login = await worker.ask("/token/cookie", method="POST", login="ada:secret")
    cookie = login.headers["set-cookie"].partition(";")[0]
    for path in ("/token", "/token/cookie"):
        reply = await worker.ask(path, method="POST", cookie=cookie, origin="https://evil.test")
        assert (reply.status_code, "set-cookie" in reply.headers) == (403, False)


@pytest.mark.parametrize("manager", [RANDOM, SIGNED], ids=["random", "signed"])
async def test_nothing_that_descends_from_a_foreign_token_outlives_it(
    mongo_client: Mongo, mongo_uri: str, database: str, manager: Document
) -> None:
    """Decision 57: through each endpoint, by token and by cookie, however often it is renewed."""
    ends = int(time.time()) + 600
    claims = {"sub": "eve", "roles": [], "iss": "docgraph", "exp": ends}
    bearer = f"Bearer {jwt.encode(claims, KEY, algorithm='HS256')}"
    settings = merge(manager, JWT, COOKIES)
    async with open_workers(mongo_client, mongo_uri, database, settings, STYLE) as (worker,):
        for by_cookie in (False, True):
            login = {"authorization": bearer}
            for path in PATHS * 2:
                reply = await worker.ask(path, method="POST", **login)
                assert reply.status_code == 200
                assert 0 < reply.json().get("expires_in", 1) <= 600
                if not by_cookie:
                    login = {"login": f"eve:{reply.headers['auth-token']}"}
                if "set-cookie" in reply.headers:
                    cookie, _, attributes = reply.headers["set-cookie"].partition(";")
                    assert int(re.findall(r"Max-Age=(\d+)", attributes)[0]) <= 600
                    login = {"cookie": cookie} if by_cookie else login


@pytest.mark.parametrize("path", ["/token", "/token/cookie"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PUT"])
async def test_anonymous_callers_and_wrong_passwords_are_401(
    worker: Worker, path: str, method: str
) -> None:
    for login in (None, "ada:wrong"):
        reply = await worker.ask(path, method=method, login=login)
        assert (reply.status_code, "set-cookie" in reply.headers) == (401, False)
        assert "basic" in reply.headers["www-authenticate"].lower()


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_the_cookie_endpoint_has_one_method(worker: Worker, method: str) -> None:
    reply = await worker.ask("/token/cookie", method=method, login="ada:secret")
    assert (reply.status_code, "set-cookie" in reply.headers) == (405, False)


async def test_paths_of_others_stay_closed(worker: Worker) -> None:
    assert await worker.status("/token/bob", login="ada:secret") == 403
    assert await worker.status("/token/cookie/x", method="POST", login="ada:secret") == 403
    assert (await worker.send("OPTIONS", "/token/cookie")).status_code == 200


@pytest.mark.parametrize("settings", [RANDOM, merge(SIGNED, JWT)], ids=["random", "signed"])
async def test_without_cookies_their_endpoint_does_not_exist(
    mongo_client: Mongo, mongo_uri: str, database: str, settings: Document
) -> None:
    async with open_workers(mongo_client, mongo_uri, database, settings, STYLE) as (worker,):
        assert await worker.status("/token/cookie", method="POST", login="ada:secret") == 404


async def test_it_is_off_by_default(mongo_client: Mongo, mongo_uri: str, database: str) -> None:
    settings = merge(RANDOM, COOKIES)
    async with open_workers(mongo_client, mongo_uri, database, settings) as (worker,):
        assert "auth_token" in (await worker.ask("/tokens", login="ada:secret")).json()
        reply = await worker.ask("/tokens/cookie", method="POST", login="ada:secret")
        assert (reply.status_code, "set-cookie" in reply.headers) == (403, False)
