"""The page on OpenID Connect, with tokens of a real provider."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
import yaml

from docgraph.auth.mechanisms.sections import JwtAuthenticationMechanism
from tests.docs.test_examples import fenced
from tests.http.harness import Mongo, running
from tests.npm import install

pytestmark = pytest.mark.anyio

PAGE = "docs/how-to/openid-connect.md"
PROVIDER = Path(__file__).parents[1] / "conformance/openid_provider"
AUDIENCE = "https://api.example.org"
PUBLISHED = "https://login.example.org"


@pytest.fixture(scope="module")
def issuer() -> Iterator[str]:
    """The address of a running provider."""
    install(PROVIDER, "oidc-provider")
    with subprocess.Popen(
        ["node", "provider.mjs"],
        cwd=PROVIDER,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


async def request_token(issuer: str, client: str, audience: str) -> str:
    form = {"grant_type": "client_credentials", "resource": audience, "scope": "read"}
    async with httpx2.AsyncClient(trust_env=False, timeout=60) as http:
        reply = await http.post(f"{issuer}/token", data=form, auth=(client, "a secret of the test"))
    token: str = reply.json()["access_token"]
    return token


@pytest.mark.second_tier("starts a provider of others, whose packages npm installs")
async def test_tokens_of_a_provider_log_in(
    mongo_client: Mongo, mongo_uri: str, issuer: str
) -> None:
    """With the role, without it, and with a token for another service."""
    configuration = yaml.safe_load(fenced(PAGE, "yaml")[0].replace(PUBLISHED, issuer))
    closed = {"fullAuthorizer": {"enabled": False}}
    async with running(mongo_client, mongo_uri, configuration, closed) as service:
        count = service.find("numbers", count=True)
        await service.define("ok", "type Query { n: Int }", {"Query": {"n": count}})
        for client, audience, status in (
            ("reader", AUDIENCE, 200),
            ("stranger", AUDIENCE, 403),
            ("reader", "https://other.example.org", 401),
        ):
            token = await request_token(issuer, client, audience)
            headers = {"authorization": f"Bearer {token}"}
            query = {"query": "{ n }"}
            reply = await service.request("POST", "/graphql/ok", json=query, headers=headers)
            assert reply.status == status, (client, audience)


async def test_each_configuration_of_the_page_names_known_options() -> None:
    found = [yaml.safe_load(text)["jwtAuthenticationMechanism"] for text in fenced(PAGE, "yaml")]

    assert len(found) == 4
    for one in found:
        assert one.keys() <= set(JwtAuthenticationMechanism.__struct_encode_fields__)
        assert {"jwks", "issuer", "audience"} <= one.keys()
