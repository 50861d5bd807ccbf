"""How clients learn where to log in (RFC 9728), and whose tokens are accepted."""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import AsyncIterator

import bcrypt
import jwt
import pytest

from tests.http.harness import Mongo, Service, running
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS, ask

pytestmark = pytest.mark.anyio

KEY = "a-key-of-at-least-32-bytes-for-tests"
METADATA = "/.well-known/oauth-protected-resource"
SERVERS = ["https://login.example.org"]


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    settings = {
        "mcp": {**AGENTS["mcp"], "authorization-servers": SERVERS},
        "jwtAuthenticationMechanism": {"enabled": True, "key": KEY, "audience": "http://test/mcp"},
        "fullAuthorizer": {"enabled": True, "authentication-required": True},
    }
    async with running(mongo_client, mongo_uri, settings) as one:
        yield one


def bearer(**claims: object) -> dict[str, str]:
    said = {"sub": "ada", "aud": "http://test/mcp", "exp": int(time.time()) + 600, **claims}
    return {"Authorization": f"Bearer {jwt.encode(said, KEY, algorithm='HS256')}"}


async def test_a_refused_client_is_told_where_the_metadata_is(service: Service) -> None:
    reply = await ask(service, "tools/list")

    assert reply.status == 401
    challenges = reply.headers.get_list("www-authenticate")
    assert challenges[0].endswith(f'resource_metadata="http://test{METADATA}/mcp"')
    assert [one.split()[0] for one in challenges].count("Bearer") == 1
    assert len(challenges) > 1  # those of other mechanisms follow


async def test_a_rejected_token_is_named_in_the_same_challenge(service: Service) -> None:
    reply = await ask(service, "tools/list", None, bearer(exp=1))

    first, *others = reply.headers.get_list("www-authenticate")
    assert 'error="invalid_token"' in first
    assert "resource_metadata=" in first
    assert not [one for one in others if one.startswith("Bearer")]


async def test_no_challenge_is_sent_to_those_who_want_none(service: Service) -> None:
    reply = await ask(service, "tools/list", **{"No-Auth-Challenge": "1"})

    assert reply.status == 401
    assert "www-authenticate" not in reply.headers


@pytest.mark.parametrize("path", [METADATA, f"{METADATA}/mcp"])
async def test_the_metadata_names_the_authorization_servers_to_everybody(
    service: Service, path: str
) -> None:
    reply = await service.request("GET", path)

    assert reply.status == 200
    assert reply.json["resource"] == "http://test/mcp"
    assert reply.json["authorization_servers"] == SERVERS
    assert reply.headers["access-control-allow-origin"] == "*"


async def test_there_is_no_metadata_of_anything_else(service: Service) -> None:
    reply = await service.request("GET", f"{METADATA}/graphql", headers=bearer())

    assert reply.status == 404


async def test_a_foreign_host_is_not_repeated_as_our_own(service: Service) -> None:
    reply = await service.request("GET", METADATA, headers={"Host": "evil.example"})
    refused = await ask(service, "tools/list", Host="evil.example")

    assert reply.status == 403
    assert "evil" not in reply.text
    assert "evil" not in str(refused.headers)


async def test_a_token_of_the_named_server_logs_in(service: Service) -> None:
    assert (await ask(service, "tools/list", None, bearer())).status == 200


@pytest.mark.parametrize(
    "claims",
    [{"aud": "https://other.example"}, {"aud": ["a", "b"]}, {"exp": 1}, {"nbf": 2**33}],
    ids=["audience", "audiences", "expired", "early"],
)
async def test_a_token_for_somebody_else_is_401(
    service: Service, claims: dict[str, object]
) -> None:
    """Drill P06."""
    assert (await ask(service, "tools/list", None, bearer(**claims))).status == 401


async def test_without_authorization_servers_there_is_no_metadata(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with running(mongo_client, mongo_uri, AGENTS) as one:
        assert (await one.request("GET", METADATA)).status == 404
    closed = {"fullAuthorizer": {"enabled": True, "authentication-required": True}}
    async with running(mongo_client, mongo_uri, closed) as one:
        assert (await one.request("GET", METADATA)).status == 401
        assert (await ask(one, "tools/list")).status == 401


async def test_a_verified_password_is_remembered_longer_than_a_user(
    mongo_client: Mongo, mongo_uri: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent pauses between two requests, and bcrypt takes a quarter of a second."""
    checks: list[bytes] = []
    check = bcrypt.checkpw

    def count(given: bytes, hashed: bytes) -> bool:
        checks.append(given)
        return check(given, hashed)

    monkeypatch.setattr(bcrypt, "checkpw", count)
    settings = {"dbRealmAuthenticator": {"users-db": database, "cache-ttl": 1}}
    user = {"_id": "ada", "password": bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()}
    mongo_client[database]["users"].replace_one({"_id": "ada"}, user, upsert=True)
    who = {"Authorization": f"Basic {b64encode(b'ada:secret').decode()}"}
    async with running(mongo_client, mongo_uri, AGENTS, settings) as one:
        first = await ask(one, "ping", None, who)
        began = time.monotonic()
        while time.monotonic() < began + 0.01:
            again = await ask(one, "ping", None, who)

    assert (first.status, again.status) == (200, 200)
    assert checks == [b"secret"]
