"""Cookie authentication in its three option sets (decisions 27, 30; A13, A14, A18, A22)."""

from __future__ import annotations

import random
import re
from base64 import b64encode
from collections.abc import AsyncIterator, Sequence
from itertools import product
from typing import Any

import httpx2
import pytest

from docgraph.exchange import ConfigError
from tests.http.harness import Mongo, merge
from tests.http.realms import hashed
from tests.http.tokens import (
    COOKIES,
    JWT,
    KEY,
    OPTION_SETS,
    RANDOM,
    SIGNED,
    Worker,
    open_workers,
    until_refused,
)

pytestmark = pytest.mark.anyio
FORMS = {1: r"Bearer_[\w-]+\.[\w-]+\.[\w-]+", 2: r"Basic_[\w+/]+=*", 3: r"Basic_[\w+/]+=*"}


@pytest.fixture(params=[1, 2, 3], ids=["set 1", "set 2", "set 3"])
def option_set(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(params=[1, 2], ids=["one worker", "two workers"])
async def workers(
    request: pytest.FixtureRequest,
    option_set: int,
    mongo_client: Mongo,
    mongo_uri: str,
    database: str,
) -> AsyncIterator[Sequence[Worker]]:
    options = OPTION_SETS[option_set]
    async with open_workers(
        mongo_client, mongo_uri, database, options, workers=request.param
    ) as opened:
        yield opened


async def log_in(worker: Worker, path: str = "/roles/ada?set-auth-cookie") -> str:
    """The value of the cookie that a login gets."""
    reply = await worker.ask(path, login="ada:secret")
    assert reply.status_code == 200
    name, value, _ = read_cookie(reply)
    assert name == "dg_auth"
    return value


def read_cookie(reply: httpx2.Response) -> tuple[str, str, dict[str, str]]:
    """Name, value and attributes of the one cookie that is set."""
    (text,) = reply.headers.get_list("set-cookie")
    first, *rest = text.split("; ")
    name, _, value = first.partition("=")
    return name, value, {key: given for key, _, given in (part.partition("=") for part in rest)}


def is_cleared(reply: httpx2.Response) -> bool:
    name, value, attributes = read_cookie(reply)
    return (name, value, attributes["Max-Age"]) == ("dg_auth", "", "0")


async def test_log_in_use_the_cookie_log_out(workers: Sequence[Worker], option_set: int) -> None:
    """A22: each option set works, from the login to the end of the token."""
    value = await log_in(workers[0])
    assert re.fullmatch(FORMS[option_set], value)
    for worker in workers:
        reply = await worker.ask("/whoami", cookie=f"dg_auth={value}")
        assert (reply.status_code, reply.json()["name"]) == (200, "ada")
        assert reply.json()["roles"] == ["user", "editor"]
        assert "set-cookie" not in reply.headers
    out = await workers[0].ask("/logout", method="POST", cookie=f"dg_auth={value}")
    assert out.status_code == 200
    assert is_cleared(out)
    assert "auth-token" not in out.headers
    for worker in workers:
        refused = await worker.ask("/whoami", cookie=f"dg_auth={value}")
        assert refused.status_code == 401
        assert is_cleared(refused)
    again = await log_in(workers[-1])
    assert again != value
    assert await workers[0].status(cookie=f"dg_auth={again}") == 200


async def test_the_cookie_holds_a_token_and_not_the_password(workers: Sequence[Worker]) -> None:
    value = await log_in(workers[0])
    assert "secret" not in value
    assert b64encode(b"ada:secret").decode() not in value
    password = b64encode(b"ada:secret").decode()
    for made_up in (f"Basic_{password}", f"Basic {password}", f'"Basic {password}"'):
        assert await workers[0].status(cookie=f"dg_auth={made_up}") == 401


async def test_the_value_with_a_space_and_in_quotes_is_understood(
    workers: Sequence[Worker],
) -> None:
    """Decision 30."""
    spaced = (await log_in(workers[0])).replace("_", " ", 1)
    for value in (spaced, f'"{spaced}"'):
        assert await workers[-1].status(cookie=f"x=1; dg_auth={value}; y=2") == 200


async def test_any_authenticated_request_sets_the_cookie_and_no_other(
    workers: Sequence[Worker],
) -> None:
    """Decision 29."""
    for path in ("/whoami?set-auth-cookie", "/ping?x=1&set-auth-cookie=", "/no?set-auth-cookie"):
        reply = await workers[0].ask(path, login="ada:secret")
        assert read_cookie(reply)[0] == "dg_auth"
    for reply in (
        await workers[0].ask("/whoami", login="ada:secret"),
        await workers[0].ask("/whoami?set-auth-cookie", login="ada:wrong"),
        await workers[0].ask("/ping?set-auth-cookie"),
        await workers[0].ask("/whoami?x=set-auth-cookie", login="ada:secret"),
        await workers[0].ask("/whoami?set-auth-cookie", method="OPTIONS", login="ada:secret"),
    ):
        assert "set-cookie" not in reply.headers


async def test_the_cookie_of_a_fresh_token_is_the_fresh_one(workers: Sequence[Worker]) -> None:
    value = await log_in(workers[0])
    reply = await workers[0].ask("/tokens/ada?set-auth-cookie", method="POST", login="ada:secret")
    fresh = read_cookie(reply)[1]
    assert fresh != value
    assert await workers[-1].status(cookie=f"dg_auth={fresh}") == 200


async def test_a_header_wins_over_the_cookie_and_roles_are_never_merged(
    workers: Sequence[Worker], mongo_client: Mongo, database: str
) -> None:
    """A14, decision 27."""
    mongo_client[database]["users"].insert_one(
        {"_id": "bob", "password": hashed("other"), "roles": ["admin"]}
    )
    value = await log_in(workers[0])
    both = await workers[-1].ask("/whoami", login="bob:other", cookie=f"dg_auth={value}")
    assert (both.json()["name"], both.json()["roles"]) == ("bob", ["admin"])
    wrong = await workers[-1].ask("/whoami", login="bob:wrong", cookie=f"dg_auth={value}")
    assert wrong.status_code == 401
    assert "set-cookie" not in wrong.headers


async def test_two_cookies_of_the_name_that_differ_are_none(workers: Sequence[Worker]) -> None:
    """A14: nobody can slip a second one in from a neighbouring domain."""
    value = await log_in(workers[0])
    for pair in (f"dg_auth={value}; dg_auth=Bearer_x", f"dg_auth=; dg_auth={value}"):
        reply = await workers[0].ask("/whoami", cookie=pair)
        assert reply.status_code == 401
        assert is_cleared(reply)
    assert await workers[0].status(cookie=f"dg_auth={value}; dg_auth={value}") == 200


async def test_an_invalid_cookie_is_no_cookie_and_is_cleared(workers: Sequence[Worker]) -> None:
    """Decision 27: also where anonymous callers may go."""
    open_path = await workers[0].ask("/ping", cookie="dg_auth=Bearer_x.y.z")
    assert open_path.status_code == 200
    assert is_cleared(open_path)
    login = await workers[0].ask("/whoami", cookie="dg_auth=Bearer_x.y.z")
    assert login.status_code == 401
    assert "invalid_token" not in login.headers["www-authenticate"]


async def test_five_hundred_changed_cookies_are_refused(
    mongo_client: Mongo, mongo_uri: str, database: str, option_set: int
) -> None:
    """A14: 401, never another account, never a 5xx."""
    rng = random.Random(option_set)
    async with open_workers(mongo_client, mongo_uri, database, OPTION_SETS[option_set]) as (
        worker,
    ):
        value = await log_in(worker)
        for _ in range(500):
            changed = mutate(value, rng)
            reply = await worker.ask("/whoami", cookie=f"dg_auth={changed}")
            if reply.status_code == 200:
                assert same_credentials(changed, value), changed
                assert reply.json()["name"] == "ada"
            else:
                assert reply.status_code in (400, 401), (reply.status_code, changed)


def mutate(value: str, rng: random.Random) -> str:
    """The value with about one in a hundred characters changed, at least one."""
    printable = "".join(map(chr, range(0x21, 0x7F))).translate(str.maketrans("", "", ";,"))
    characters = list(value)
    for place in rng.sample(range(len(value)), max(1, len(value) // 100)):
        match rng.randrange(3):
            case 0:
                characters[place] = rng.choice([one for one in printable if one != value[place]])
            case 1:
                characters[place] = ""
            case _:
                characters[place] += rng.choice(printable)
    return "".join(characters)


def same_credentials(changed: str, value: str) -> bool:
    """Another spelling of the very same value: quotes around it, or padding."""
    return changed.strip('"').rstrip("=") == value.rstrip("=")


async def test_forms_texts_and_foreign_pages_are_refused_and_own_ones_are_not(
    workers: Sequence[Worker],
) -> None:
    """A18."""
    cookie = f"dg_auth={await log_in(workers[0])}"
    json = {"content_type": "application/json"}
    refused: list[dict[str, Any]] = [
        {"content_type": "application/x-www-form-urlencoded"},
        {"content_type": "text/plain"},
        {"content_type": "multipart/form-data; boundary=x"},
        {"origin": "https://evil.example", **json},
        {"origin": "null", **json},
    ]
    for headers, path in product(refused, ("/whoami", "/tokens/ada", "/logout")):
        reply = await workers[-1].ask(path, method="POST", cookie=cookie, **headers)
        assert reply.status_code == 403, (path, headers)
    assert await workers[-1].status(cookie=cookie, origin="https://evil.example") == 403
    for headers in ({}, json, {"origin": "http://test", **json}):
        reply = await workers[-1].ask("/tokens/ada", method="POST", cookie=cookie, **headers)
        assert reply.status_code == 200, headers
        cookie = f"dg_auth={await log_in(workers[0])}"


async def test_a_page_on_the_list_may_send_the_cookie(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    cors = {"cors": {"allow-origins": ["https://app.example"]}}
    async with open_workers(mongo_client, mongo_uri, database, OPTION_SETS[3], cors) as (worker,):
        cookie = f"dg_auth={await log_in(worker)}"
        reply = await worker.ask("/whoami", cookie=cookie, origin="https://app.example")
        assert reply.status_code == 200
        assert reply.headers["access-control-allow-credentials"] == "true"
        assert await worker.status(cookie=cookie, origin="https://app.example.evil") == 403


async def test_a_secure_cookie_is_set_over_https_or_by_a_trusted_proxy_only(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """A13, decision 30."""
    secure = {"authCookieSetter": {"secure": True, "domain": "example.org", "path": "/"}}
    proxy = {"core": {"trusted-proxies": ["127.0.0.1"]}}
    path = "/whoami?set-auth-cookie"
    async with open_workers(mongo_client, mongo_uri, database, OPTION_SETS[3], secure) as (plain,):
        assert "set-cookie" not in (await plain.ask(path, login="ada:secret")).headers
        forged = await plain.ask(path, login="ada:secret", x_forwarded_proto="https")
        assert "set-cookie" not in forged.headers
    async with open_workers(mongo_client, mongo_uri, database, OPTION_SETS[3], secure, proxy) as (
        behind,
    ):
        reply = await behind.ask(path, login="ada:secret", x_forwarded_proto="https")
        _, _, attributes = read_cookie(reply)
        cleared = read_cookie(await behind.ask("/logout", method="POST"))[2]
    for one in (attributes, cleared):
        assert {"Secure", "HttpOnly"} <= one.keys()
        assert (one["Domain"], one["Path"], one["SameSite"]) == ("example.org", "/", "Strict")
    assert (attributes["Max-Age"], cleared["Max-Age"]) == ("86400", "0")


async def test_logging_out_works_without_credentials_and_moves_with_its_uri(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    moved = {"authCookieRemover": {"uri": "/session/end"}}
    async with open_workers(mongo_client, mongo_uri, database, OPTION_SETS[3], moved) as (worker,):
        reply = await worker.ask("/session/end", method="POST")
        assert (reply.status_code, reply.content) == (200, b"")
        assert is_cleared(reply)
        assert await worker.status("/session/end", method="GET") == 405
        assert await worker.status("/session/end", method="OPTIONS") == 200
        assert await worker.status("/logout", method="POST", login="ada:secret") == 404


async def test_logging_out_can_ask_for_credentials(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Decision 30: `authCookieRemover.secure`."""
    secure = {"authCookieRemover": {"secure": True}}
    async with open_workers(mongo_client, mongo_uri, database, OPTION_SETS[3], secure) as (worker,):
        unknown = await worker.ask("/logout", method="POST")
        assert unknown.status_code == 401
        assert "www-authenticate" in unknown.headers
        value = await log_in(worker)
        assert await worker.status("/logout", method="POST", cookie=f"dg_auth={value}") == 200


async def test_renewing_and_setting_gives_the_renewed_token(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """service.md: `renew-auth-token` together with `set-auth-cookie`."""
    async with open_workers(mongo_client, mongo_uri, database, OPTION_SETS[1]) as (worker,):
        old = await log_in(worker)
        reply = await worker.ask(
            "/whoami?set-auth-cookie&renew-auth-token", cookie=f"dg_auth={old}"
        )
        value = read_cookie(reply)[1]
        assert value != old
        assert value == f"Bearer_{reply.headers['auth-token']}"
        assert await worker.status(cookie=f"dg_auth={value}") == 200


async def test_a_cookie_of_one_instance_counts_at_the_other_until_it_logs_out(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Option set 2: several instances."""
    async with (
        open_workers(mongo_client, mongo_uri, database, OPTION_SETS[2]) as (one,),
        open_workers(mongo_client, mongo_uri, database, OPTION_SETS[2]) as (two,),
    ):
        cookie = f"dg_auth={await log_in(one)}"
        assert await two.status(cookie=cookie) == 200
        assert await two.status("/logout", method="POST", cookie=cookie) == 200
        assert await two.status(cookie=cookie) == 401
        await until_refused(one, cookie=cookie)


OFF = {"enabled": False}


@pytest.mark.parametrize(
    ("settings", "blamed"),
    [
        (merge(RANDOM, COOKIES, {"tokenBasicAuthMechanism": OFF}), "authCookieSetter"),
        (merge(SIGNED, COOKIES, {"tokenBasicAuthMechanism": OFF}), "authCookieSetter"),
        (merge(COOKIES, {"rndTokenManager": OFF}), "token manager"),
        (merge(RANDOM, COOKIES, {"authCookieRemover": OFF}), "authCookieRemover"),
        (merge(RANDOM, COOKIES, {"jwtTokenManager": {"enabled": True, "key": KEY}}), "both on"),
        (merge(SIGNED, COOKIES, JWT, {"jwtAuthenticationMechanism": {"key": KEY[::-1]}}), "key"),
    ],
    ids=["random unread", "signed unread", "no manager", "two of three", "both", "keys"],
)
async def test_mixes_that_cannot_work_do_not_start(
    mongo_client: Mongo, mongo_uri: str, database: str, settings: Any, blamed: str
) -> None:
    """A22."""
    with pytest.raises(ConfigError, match=blamed):
        async with open_workers(mongo_client, mongo_uri, database, settings):
            pass
