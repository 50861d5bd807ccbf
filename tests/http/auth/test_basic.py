"""Basic authentication through the whole application (decisions 27, 28)."""

from __future__ import annotations

import base64
import random
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest

from docgraph.exchange import Account
from docgraph.exchange.errors import StoreUnavailable
from docgraph.plugins.kinds import Authenticator
from docgraph.server.builtin import BUILTIN
from tests.http.harness import OPEN, Service
from tests.http.hosts import module_application
from tests.http.login import read_page, serving

pytestmark = pytest.mark.anyio

BASIC = {"basicAuthMechanism": {"enabled": True, "authenticator": "fileRealmAuthenticator"}}
CHALLENGE = 'Basic realm="docgraph", charset="UTF-8"'


@module_application
async def locked(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    async with serving(mongo_client, mongo_uri, BASIC) as service:
        yield service


@module_application
async def opened(mongo_client: Any, mongo_uri: str) -> AsyncIterator[Service]:
    async with serving(mongo_client, mongo_uri, OPEN, BASIC) as service:
        yield service


class LostRealm(Authenticator):
    """An authenticator whose database is away."""

    name: ClassVar[str] = "lostRealm"
    enabled_by_default: ClassVar[bool] = False

    async def verify(self, user: str, password: str) -> Account | None:
        raise StoreUnavailable("the database cannot be reached")


def basic(pair: str) -> str:
    return f"Basic {base64.b64encode(pair.encode()).decode()}"


@pytest.mark.parametrize(
    ("pair", "name"), [("ada:secret", "ada"), ("zoë:pässwörd:€", "zoë")], ids=["ascii", "utf-8"]
)
async def test_right_password_is_let_in(locked: Service, pair: str, name: str) -> None:
    reply = await locked.request("GET", "/whoami", headers={"authorization": basic(pair)})
    assert (reply.status, reply.json["name"], reply.json["kind"]) == (200, name, "file")


PAGE = read_page("basic-authentication")


async def test_configuration_of_the_page_works(mongo_client: Any, mongo_uri: str) -> None:
    async with serving(mongo_client, mongo_uri, PAGE) as service:
        reply = await service.request("GET", "/whoami", auth=("ada", "secret"))
        refused = await service.request("GET", "/whoami", auth=("ada", "wrong"))
    assert (reply.status, reply.json["roles"]) == (200, ["user"])
    assert refused.headers.get_list("www-authenticate") == [CHALLENGE]


@pytest.mark.parametrize("value", [None, basic("ada:wrong"), basic("bob:x"), "Basic !", "Foo bar"])
async def test_everybody_else_gets_401_with_a_challenge(locked: Service, value: str | None) -> None:
    """Decision 28."""
    headers = {} if value is None else {"authorization": value}
    reply = await locked.request("GET", "/whoami", headers=headers)
    assert (reply.status, reply.json["message"]) == (401, "authentication required")
    assert reply.headers.get_list("www-authenticate") == [CHALLENGE]


@pytest.mark.parametrize("value", [basic("ada:wrong"), "Basic !", "Foo bar", "Bearer abc"])
async def test_refused_credentials_are_401_even_where_nobody_has_to_log_in(
    opened: Service, value: str
) -> None:
    """Decision 27."""
    assert (await opened.request("GET", "/whoami")).json is None
    reply = await opened.request("GET", "/whoami", headers={"authorization": value})
    assert reply.status == 401


async def test_two_authorization_fields_are_401(opened: Service) -> None:
    """J52: one documented reading."""
    headers = [("authorization", basic("ada:secret")), ("authorization", basic("ada:secret"))]
    assert (await opened.request("GET", "/whoami", headers=headers)).status == 401


@pytest.mark.parametrize(
    ("path", "headers"),
    [("/whoami?noauthchallenge", {}), ("/whoami", {"no-auth-challenge": ""})],
)
async def test_challenge_is_left_out_when_asked(
    locked: Service, path: str, headers: dict[str, str]
) -> None:
    """A03."""
    reply = await locked.request("GET", path, headers=headers)
    assert reply.status == 401
    assert "www-authenticate" not in reply.headers


async def test_lost_database_is_500_and_never_401(mongo_client: Any, mongo_uri: str) -> None:
    """Decision 25."""
    lost = {"lostRealm": {"enabled": True}, "basicAuthMechanism": {"authenticator": "lostRealm"}}
    plugins = (*BUILTIN, LostRealm)
    async with serving(mongo_client, mongo_uri, BASIC, lost, plugins=plugins) as service:
        reply = await service.request("GET", "/whoami", headers={"authorization": basic("a:b")})
    assert reply.status == 500
    assert "www-authenticate" not in reply.headers


HAND_MADE = [
    "",
    " ",
    "Basic",
    "Basic ",
    "Basic =",
    "Basic " + "A" * 7000,
    "Basic " + "=" * 100,
    "basic:ada:secret",
    "Basic ada:secret",
    "Basic YWRhOnNlY3JldA",
    "Basic YWRhOnNlY3JldA== x",
    "Basic, YWRhOnNlY3JldA==",
    "Basic YWRhOnNlY3JldA==,Bearer x",
    "Basic\tYWRhOnNlY3JldA==",
    "Digest",
    "Digest " + "," * 5000,
    "Digest " + '"' * 5000,
    "Digest username=" + "\\" * 5000,
    "Digest username",
    "Bearer",
    "Bearer ..",
    "Bearer a.b.c",
    "Bearer " + "." * 5000,
    "Negotiate YII=",
    "NTLM TlRMTVNTUAAB",
    "AWS4-HMAC-SHA256 Credential=x",
    "null",
    "undefined",
    "[object Object]",
    '{"$ne": null}',
    "../../etc/passwd",
    "%00",
    "ünïcödé".encode().decode("latin-1"),
    "\xff" * 100,
]


async def test_no_header_gives_a_server_error(opened: Service) -> None:
    """A02: 401 with a challenge, for whatever stands there."""
    chance = random.Random(7)
    alphabet = bytes(range(32, 127)) + bytes(range(128, 256)) + b"\t"
    fuzzed = [
        chance.choice(["", "Basic ", "Digest ", "Bearer ", "bASIC  "]).encode()
        + bytes(chance.choices(alphabet, k=chance.randrange(60)))
        for _ in range(500)
    ]
    for value in [*(one.encode("latin-1") for one in HAND_MADE), *fuzzed]:
        reply = await opened.request("GET", "/whoami", headers=[(b"authorization", value)])
        assert reply.status == 401, value
        assert reply.headers.get_list("www-authenticate") == [CHALLENGE]
