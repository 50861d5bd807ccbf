"""Cookie authentication in its three option sets (decisions 27, 30; A13, A14, A18, A22)."""

from __future__ import annotations

import random
import re
import time
from base64 import b64encode
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any, ClassVar

import httpx2
import pytest

from docgraph.exchange import Account, StartupError
from docgraph.observe.events import CookieNotSet
from docgraph.plugins.kinds import TokenManager
from docgraph.server.builtin import BUILTIN
from tests.chance import IS_LONG
from tests.http.harness import Mongo, listening, merge, running
from tests.http.realms import hashed
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
    set_clock,
    sharing_workers,
    until_refused,
)

pytestmark = pytest.mark.anyio
FORMS = {1: r"Bearer_[\w-]+\.[\w-]+\.[\w-]+", 2: r"Basic_[\w+/]+=*", 3: r"Basic_[\w+/]+=*"}


@pytest.fixture(scope="module", params=[1, 2, 3], ids=["set 1", "set 2", "set 3"])
def option_set(request: pytest.FixtureRequest) -> int:
    return int(request.param)


@pytest.fixture(scope="module")
def one_worker(option_set: int, mongo_client: Mongo, mongo_uri: str) -> Iterator[Sequence[Worker]]:
    with sharing_workers(mongo_client, mongo_uri, OPTION_SETS[option_set]) as shared:
        yield shared


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def shared_workers(
    request: pytest.FixtureRequest, option_set: int, mongo_client: Mongo, mongo_uri: str
) -> Iterator[Sequence[Worker]]:
    options = OPTION_SETS[option_set]
    with sharing_workers(mongo_client, mongo_uri, options, workers=request.param) as shared:
        yield shared


@pytest.fixture
async def workers(shared_workers: Sequence[Worker]) -> Sequence[Worker]:
    return await anew(shared_workers)


@pytest.fixture
async def worker(one_worker: Sequence[Worker]) -> Worker:
    (worker,) = await anew(one_worker)
    return worker


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
    workers: Sequence[Worker], mongo_client: Mongo
) -> None:
    """A14, decision 27."""
    mongo_client[workers[0].db]["users"].insert_one(
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


async def test_five_hundred_changed_cookies_are_refused(worker: Worker, option_set: int) -> None:
    """A14: 401, never another account, never a 5xx; so many with all options together."""
    rng = random.Random(option_set)
    value = await log_in(worker)
    for _ in range(500 if IS_LONG else 170):
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


FORM_TYPES = (
    "application/x-www-form-urlencoded",
    "multipart/form-data; boundary=x",
    "text/plain;charset=UTF-8",
)
OWN_PAGES: list[dict[str, str]] = [
    {"origin": "http://test"},
    {"origin": "http://test", "sec_fetch_site": "same-origin", "sec_fetch_mode": "navigate"},
    {"origin": "null", "sec_fetch_site": "same-origin"},  # with Referrer-Policy: no-referrer
    {"origin": "http://TEST:80"},
    {"sec_fetch_site": "same-origin"},
]
FOREIGN_PAGES: list[dict[str, str]] = [
    {"origin": "https://evil.example"},
    {"origin": "https://evil.example", "sec_fetch_site": "cross-site"},
    {"origin": "http://evil.test", "sec_fetch_site": "same-site"},
    {"origin": "http://test:8080", "sec_fetch_site": "same-site"},
    {"origin": "null", "sec_fetch_site": "cross-site"},
    {"origin": "null"},
    {"sec_fetch_site": "cross-site"},
    {"sec_fetch_site": "same-site"},
]


async def test_our_own_page_logs_out_with_a_form_and_so_does_a_program(worker: Worker) -> None:
    """service.md: POST /logout is 200 and clears the cookie, whatever body comes with it."""
    senders = [*OWN_PAGES, {}]
    for headers, kind in product(senders, (*FORM_TYPES, "application/json", None)):
        cookie = f"dg_auth={await log_in(worker)}"
        typed = {} if kind is None else {"content_type": kind}
        reply = await worker.ask("/logout", method="POST", cookie=cookie, **headers, **typed)
        assert (reply.status_code, is_cleared(reply)) == (200, True), (headers, kind)
        assert await worker.status(cookie=cookie) == 401, (headers, kind)


async def test_logging_out_reads_no_body(worker: Worker) -> None:
    for kind in (*FORM_TYPES, ""):
        cookie = f"dg_auth={await log_in(worker)}"
        reply = await worker.send(
            "POST", "/logout", headers={"cookie": cookie, "content-type": kind}, content=b"a=1"
        )
        assert (reply.status_code, is_cleared(reply)) == (200, True), kind


async def test_a_foreign_page_logs_nobody_out_and_clears_nothing(worker: Worker) -> None:
    """The browser may have sent the cookie, kept it back (SameSite), or have one that is over."""
    cookie = f"dg_auth={await log_in(worker)}"
    cookies: list[dict[str, str]] = [{"cookie": cookie}, {}, {"cookie": "dg_auth=Basic_YTpi"}]
    for headers, sent, kind in product(FOREIGN_PAGES, cookies, (*FORM_TYPES, "application/json")):
        reply = await worker.ask("/logout", method="POST", content_type=kind, **headers, **sent)
        assert reply.status_code == 403, (headers, sent, kind)
        assert "set-cookie" not in reply.headers, (headers, sent, kind)
    assert await worker.status(cookie=cookie) == 200


async def test_other_requests_with_the_cookie_are_judged_by_the_page_too(worker: Worker) -> None:
    """A18."""
    cookie = f"dg_auth={await log_in(worker)}"
    kinds = ("application/json", "application/x-www-form-urlencoded")
    targets = (("POST", "/tokens/ada"), ("DELETE", "/tokens/ada"), ("PUT", "/whoami"))
    for headers, kind, (method, path) in product(FOREIGN_PAGES, kinds, targets):
        reply = await worker.ask(path, method=method, cookie=cookie, content_type=kind, **headers)
        assert reply.status_code == 403, (headers, kind, method, path)
        assert "set-cookie" not in reply.headers
    assert await worker.status(cookie=cookie, origin="https://evil.example") == 403
    for headers, kind in product([*OWN_PAGES, {}], kinds):
        reply = await worker.ask(
            "/tokens/ada", method="POST", cookie=cookie, content_type=kind, **headers
        )
        assert reply.status_code == 200, (headers, kind)
        cookie = f"dg_auth={read_cookie(reply)[1]}"


# Mode, destination, and the status of the answer.
FOREIGN_READS = (
    ("navigate", "document", 200),  # a link
    ("Navigate", "", 200),
    ("navigate", "iframe", 403),
    ("navigate", "frame", 403),
    ("navigate", "object", 403),
    ("navigate", "embed", 403),
    ("no-cors", "image", 403),
    ("no-cors", "script", 403),
    ("no-cors", "document", 403),
    ("same-origin", "empty", 403),
    ("", "", 403),
)


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_a_foreign_page_reads_nothing_with_the_cookie_but_may_link_here(
    worker: Worker, site: str
) -> None:
    cookie = f"dg_auth={await log_in(worker)}"
    for mode, dest, status in FOREIGN_READS:
        said = {"sec_fetch_site": site, "sec_fetch_mode": mode, "sec_fetch_dest": dest}
        headers = {name: value for name, value in said.items() if value}

        for method in ("GET", "HEAD"):
            reply = await worker.ask("/whoami", method=method, cookie=cookie, **headers)
            assert reply.status_code == status, headers
            assert "set-cookie" not in reply.headers, headers
        origin = "https://evil.example"
        linked = await worker.ask("/whoami", cookie=cookie, origin=origin, **headers)
        assert linked.status_code == 403, headers
        # There is nothing to forge.
        assert await worker.status(**headers) == await worker.status(), headers


async def test_our_own_pages_and_programs_read_with_the_cookie_in_any_mode(worker: Worker) -> None:
    cookie = f"dg_auth={await log_in(worker)}"
    for site, mode in product(("same-origin", "none"), ("navigate", "no-cors", "cors")):
        headers = {"sec_fetch_site": site, "sec_fetch_mode": mode, "sec_fetch_dest": "image"}
        assert await worker.status(cookie=cookie, **headers) == 200
    assert await worker.status(cookie=cookie) == 200


async def test_a_form_of_nobody_knows_which_page_is_refused(worker: Worker) -> None:
    """A18: browsers that do not tell the page, and a body that a form can send."""
    cookie = f"dg_auth={await log_in(worker)}"
    for kind in (*FORM_TYPES, ""):
        reply = await worker.send(
            "POST", "/tokens/ada", headers={"cookie": cookie, "content-type": kind}, content=b"a=1"
        )
        assert reply.status_code == 403, kind
    assert await worker.status(cookie=cookie) == 200


async def test_behind_a_trusted_proxy_the_page_is_compared_with_the_forwarded_host(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    proxy = {"core": {"trusted-proxies": ["127.0.0.1"]}}
    forwarded = {"x_forwarded_proto": "https", "x_forwarded_host": "www.example.org"}
    async with open_workers(mongo_client, mongo_uri, database, OPTION_SETS[3], proxy) as (behind,):
        for origin, status in (
            ("https://www.example.org", 200),
            ("http://www.example.org", 403),
            ("https://evil.example", 403),
            ("http://test", 403),
        ):
            reply = await behind.ask("/logout", method="POST", origin=origin, **forwarded)
            assert reply.status_code == status, origin
            assert ("set-cookie" in reply.headers) == (status == 200), origin
    async with open_workers(mongo_client, mongo_uri, database, OPTION_SETS[3]) as (plain,):
        forged = {"origin": "https://www.example.org", **forwarded}
        assert await plain.status("/logout", method="POST", **forged) == 403


async def test_a_caller_by_cookie_learns_when_to_renew_and_never_the_token(
    worker: Worker, option_set: int
) -> None:
    """Decision 29: not from any path, method or status."""
    value = await log_in(worker)
    token = await worker.token()
    paths = ("/whoami", "/roles/ada", "/tokens/ada", "/tokens", "/nowhere", "/tokens/bob", "/ping")
    for path, more in product(paths, ("", "?set-auth-cookie", "?renew-auth-token")):
        reply = await worker.ask(path + more, cookie=f"dg_auth={value}")
        shown = [name for name in reply.headers if name.startswith("auth-token")]
        assert shown == ["auth-token-valid-until"], path
        assert token not in reply.text
        assert token not in str([one for one in reply.headers.items() if one[0] != "set-cookie"])
        if "set-cookie" in reply.headers:
            value = read_cookie(reply)[1]
            token = await worker.token()
    for method, path in product(("GET", "HEAD", "POST"), ("/tokens/ada", "/tokens")):
        reply = await worker.ask(path, method=method, cookie=f"dg_auth={value}")
        assert reply.status_code == 200
        assert "auth-token" not in reply.headers
        if method != "HEAD":
            until = reply.headers["auth-token-valid-until"]
            assert reply.json() == {"auth_token_valid_until": until}
        value = read_cookie(reply)[1] if method == "POST" else value
    assert await worker.status(cookie=f"dg_auth={value}") == 200
    by_header = await worker.ask("/tokens/ada", login="ada:secret", cookie=f"dg_auth={value}")
    assert by_header.json()["auth_token"] == by_header.headers["auth-token"]


async def test_renewing_by_cookie_renews_the_cookie(worker: Worker) -> None:
    """Asked for with `set-auth-cookie` or not: nobody else could ever learn the new token."""
    value = await log_in(worker)
    for query in ("", "?set-auth-cookie"):
        reply = await worker.ask(f"/tokens/ada{query}", method="POST", cookie=f"dg_auth={value}")
        fresh = read_cookie(reply)[1]
        assert (reply.status_code, fresh != value) == (200, True)
        assert await worker.status(cookie=f"dg_auth={fresh}") == 200
        value = fresh


async def test_the_end_that_a_cookie_is_told_is_that_of_what_it_holds(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """Another client of the user may have got a younger token; the cookie is not it."""
    for number in (1, 2):
        async with open_workers(mongo_client, mongo_uri, database, OPTION_SETS[number]) as (one,):
            login = await one.ask("/roles/ada?set-auth-cookie", login="ada:secret")
            ends, cookie = login.headers["auth-token-valid-until"], read_cookie(login)[1]
            later = time.time() + 60
            set_clock(one, lambda later=later: later)  # type: ignore[misc]
            young = await one.ask("/whoami?renew-auth-token", login="ada:secret")
            assert young.headers["auth-token-valid-until"] > ends
            for path in ("/whoami", "/tokens/ada"):
                reply = await one.ask(path, cookie=f"dg_auth={cookie}")
                assert reply.headers["auth-token-valid-until"] == ends
            renewed = await one.ask("/whoami?set-auth-cookie", cookie=f"dg_auth={cookie}")
            assert renewed.headers["auth-token-valid-until"] > ends


async def test_a_page_on_the_list_may_send_the_cookie(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    cors = {"cors": {"allow-origins": ["https://app.example"]}}
    async with open_workers(mongo_client, mongo_uri, database, OPTION_SETS[3], cors) as (worker,):
        cookie = f"dg_auth={await log_in(worker)}"
        reply = await worker.ask("/whoami", cookie=cookie, origin="https://app.example")
        assert reply.status_code == 200
        assert reply.headers["access-control-allow-credentials"] == "true"
        assert reply.headers["cross-origin-resource-policy"] == "same-origin"
        script = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "cors"}
        page = {"origin": "https://app.example", **script}
        assert await worker.status(cookie=cookie, **page) == 200
        assert await worker.status(cookie=cookie, origin="https://app.example.evil") == 403


async def test_a_secure_cookie_is_set_over_https_or_by_a_trusted_proxy_only(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    """A13, decision 30."""
    secure = {"authCookieSetter": {"secure": True, "domain": "example.org", "path": "/"}}
    proxy = {"core": {"trusted-proxies": ["127.0.0.1"]}}
    path = "/whoami?set-auth-cookie"
    plain_http = open_workers(mongo_client, mongo_uri, database, OPTION_SETS[3], secure)
    async with plain_http as (plain,):
        with listening(CookieNotSet) as noticed:
            refused = await plain.ask(path, login="ada:secret")
            assert "set-cookie" not in refused.headers
            assert "authCookieSetter.secure" in refused.headers["auth-cookie-not-set"]
            unasked = await plain.ask("/whoami", login="ada:secret")
            assert "auth-cookie-not-set" not in unasked.headers
            forged = await plain.ask(path, login="ada:secret", x_forwarded_proto="https")
            assert "set-cookie" not in forged.headers
        (told,) = noticed  # once, however many ask
        assert told.option == "/authCookieSetter/secure"
        assert "core.trusted-proxies" in told.hint
    async with open_workers(mongo_client, mongo_uri, database, OPTION_SETS[3], secure, proxy) as (
        behind,
    ):
        reply = await behind.ask(path, login="ada:secret", x_forwarded_proto="https")
        _, _, attributes = read_cookie(reply)
        assert "auth-cookie-not-set" not in reply.headers
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
        assert "auth-token" not in reply.headers
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
    with pytest.raises(StartupError, match=blamed):
        async with open_workers(mongo_client, mongo_uri, database, settings):
            pass


class OwnTokens(TokenManager):
    """The token manager of a plugin."""

    name: ClassVar[str] = "ownTokens"
    description: ClassVar[str] = "tokens that are the name backwards"

    async def issue(self, account: Account, *, renew: bool = False) -> tuple[str, float]:
        return account.name[::-1], time.time() + 60

    async def verify(self, user: str, token: str) -> Account | None:
        return Account(user, ("user",)) if token == user[::-1] else None

    async def revoke(self, account: Account) -> None:
        pass


async def test_the_token_manager_of_a_plugin_serves_cookies(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    users = [{"userid": "ada", "password": "secret", "roles": ["user"]}]
    settings = {
        "rndTokenManager": OFF,
        "fileRealmAuthenticator": {"enabled": True, "users": users},
        "basicAuthMechanism": {"authenticator": "fileRealmAuthenticator"},
    }
    async with running(
        mongo_client, mongo_uri, merge(COOKIES, settings), plugins=(*BUILTIN, OwnTokens)
    ) as service:
        login = {"authorization": f"Basic {b64encode(b'ada:secret').decode()}"}
        reply = await service.request("GET", "/roles/ada?set-auth-cookie", headers=login)
        name, value, _ = read_cookie(reply.response)
        known = await service.request("GET", "/roles/ada", headers={"cookie": f"{name}={value}"})

    assert value == f"Basic_{b64encode(b'ada:ada').decode()}"
    assert (known.status, known.json["authenticated"]) == (200, True)
