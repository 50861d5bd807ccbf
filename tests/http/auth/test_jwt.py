"""JSON Web Tokens through the whole application (decisions 27, 28, 31)."""

from __future__ import annotations

import random
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from docgraph.config import ConfigSources
from docgraph.exchange import ConfigError
from docgraph.server.prepare import load_tree, prepare
from tests.http.harness import OPEN, Mongo, Service, flatten, merge
from tests.http.hosts import module_application
from tests.http.login import read_page, serving
from tests.unit.auth.forge import RSA_KEY, SECRET, make_token, public_pem

pytestmark = pytest.mark.anyio

PAGE = read_page("jwt-authentication")
JWT = {"jwtAuthenticationMechanism": {"enabled": True, "key": SECRET}}
RSA = {
    "jwtAuthenticationMechanism": {
        "enabled": True,
        "algorithm": "RS256",
        "key": public_pem().decode(),
        "issuer": "us",
        "audience": ["api", "shop"],
    }
}
EVERYTHING = {
    "basicAuthMechanism": {"enabled": True, "authenticator": "fileRealmAuthenticator"},
    "digestAuthMechanism": {"enabled": True, "authenticator": "fileRealmAuthenticator"},
}


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with serving(mongo_client, mongo_uri, JWT) as service:
        yield service


@module_application
async def everything(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with serving(mongo_client, mongo_uri, OPEN, JWT, EVERYTHING) as service:
        yield service


def claims(**changes: Any) -> dict[str, Any]:
    return {"sub": "ada", "roles": ["user"], "exp": int(time.time()) + 600, **changes}


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


async def test_token_is_let_in_with_its_roles(service: Service) -> None:
    """J04."""
    reply = await service.request("GET", "/whoami", headers=bearer(make_token(claims())))
    told = {name: reply.json[name] for name in ("name", "roles", "kind")}
    assert told == {"name": "ada", "roles": ["user"], "kind": "jwt"}


async def test_configuration_of_the_page_works(mongo_client: Mongo, mongo_uri: str) -> None:
    key = PAGE["jwtAuthenticationMechanism"]["key"]
    token = make_token(claims(iss="https://login.example", aud="shop"), key)
    async with serving(mongo_client, mongo_uri, PAGE) as service:
        assert (await service.request("GET", "/whoami", headers=bearer(token))).status == 200


async def test_rsa_token_is_let_in(mongo_client: Mongo, mongo_uri: str) -> None:
    """J02, J03."""
    token = make_token(claims(iss="us", aud="shop"), RSA_KEY, "RS256")
    async with serving(mongo_client, mongo_uri, RSA) as service:
        assert (await service.request("GET", "/whoami", headers=bearer(token))).status == 200


async def test_jwt_alone_challenges_with_bearer(service: Service) -> None:
    """Decision 28: 401 whatever mechanisms are enabled."""
    reply = await service.request("GET", "/whoami")
    assert (reply.status, reply.json["message"]) == (401, "authentication required")
    assert reply.headers.get_list("www-authenticate") == ['Bearer realm="docgraph"']


@pytest.mark.parametrize(
    "make",
    [
        lambda: "rubbish",
        lambda: make_token(claims(exp=1)),
        lambda: make_token(claims(), "x" * 64),
        lambda: make_token(claims(sub=7)),
        lambda: make_token(claims(roles="admin")),
    ],
    ids=["rubbish", "expired", "forged", "user", "roles"],
)
async def test_every_refusal_looks_the_same(service: Service, make: Any) -> None:
    """Nothing is told to those who guess."""
    reply = await service.request("GET", "/whoami", headers=bearer(make()))
    assert (reply.status, reply.json["message"]) == (401, "authentication required")
    assert reply.headers.get_list("www-authenticate") == [
        'Bearer realm="docgraph", error="invalid_token"'
    ]


async def test_challenges_come_in_the_order_of_the_mechanisms_digest_first(
    everything: Service,
) -> None:
    """Decisions 27, 28; clients take the first one, which should not send the password."""
    reply = await everything.request("GET", "/whoami", headers=bearer("x"))
    offered = [one.split()[0] for one in reply.headers.get_list("www-authenticate")]
    assert offered == ["Digest", "Basic", "Bearer"]


@pytest.mark.parametrize("headers", [{}, {"no-auth-challenge": "1"}])
async def test_challenges_are_left_out_when_asked(
    everything: Service, headers: dict[str, str]
) -> None:
    """A03."""
    path = "/whoami" if headers else "/whoami?noauthchallenge=1"
    reply = await everything.request("GET", path, headers={**headers, **bearer("x")})
    assert reply.status == 401
    assert "www-authenticate" not in reply.headers


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"key": "x" * 31}, "/jwtAuthenticationMechanism/key"),
        ({"fixedRoles": ["a"], "rolesClaim": "roles"}, "/jwtAuthenticationMechanism/fixedRoles"),
        ({"algorithm": "none"}, "/jwtAuthenticationMechanism/algorithm"),
        ({"algorithm": "ES256"}, "/jwtAuthenticationMechanism/algorithm"),
        ({"audience": 7}, "/jwtAuthenticationMechanism/audience"),
    ],
)
def test_configuration_that_cannot_work_refuses_to_start(
    options: dict[str, Any], message: str
) -> None:
    """A07, J46: the message names the option. Keys that are no keys: `test_jwks.py`."""
    settings = flatten(merge(OPEN, JWT, {"jwtAuthenticationMechanism": options}))
    sources = ConfigSources(settings=settings, environ={}, directory=Path("/nonexistent"))
    with pytest.raises(ConfigError, match=message):
        prepare(load_tree(sources))


async def test_no_header_gives_a_server_error(everything: Service) -> None:
    """A02, with every mechanism on: mutations of credentials that would be right."""
    chance = random.Random(11)
    good = [
        f"Bearer {make_token(claims())}",
        "Basic YWRhOnNlY3JldA==",
        'Digest username="ada", realm="docgraph", nonce="n", uri="/whoami", response="r", '
        'cnonce="c", opaque="o", algorithm=MD5, qop=auth, nc=00000001',
    ]
    for _ in range(600):
        value = bytearray(chance.choice(good).encode())
        for _ in range(chance.randrange(1, 6)):
            place = chance.randrange(len(value))
            value[place : place + chance.randrange(3)] = bytes(
                chance.choice([*range(32, 127), *range(128, 256)])
                for _ in range(chance.randrange(3))
            )
        reply = await everything.request(
            "GET", "/whoami", headers=[(b"authorization", bytes(value))]
        )
        assert reply.status in (200, 401), value
