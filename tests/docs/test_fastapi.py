"""The example with FastAPI: a route of its own, docgraph at `/data`, one token for both."""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

import httpx2
import jwt
import pytest

from tests.http.harness import Mongo

pytestmark = pytest.mark.anyio
EXAMPLE = Path(__file__).parents[2] / "examples/fastapi/application.py"
KEY = "a-key-of-more-than-thirty-two-bytes"


@pytest.fixture
def example(
    monkeypatch: pytest.MonkeyPatch, mongo_uri: str, database: str, mongo_client: Mongo
) -> Any:
    """The module of the example, on the database of this test."""
    monkeypatch.setenv("JWT_KEY", KEY)
    options = [
        f"/mclient/connection-string->'{mongo_uri}'",
        f"/mongo/mongo-mounts[1]/what->'/{database}/items'",
        f"/graphql/db->'{database}'",
        f"/dbRealmAuthenticator/users-db->'{database}'",
        "/dbRealmAuthenticator/create-user->false",
        f"/dbAclAuthorizer/acl-db->'{database}'",
        "/logging/level->'error'",
    ]
    monkeypatch.setenv("DOCGRAPH_OVERRIDES", "; ".join(options))
    mongo_client[database]["items"].insert_many(
        [{"_id": 1, "owner": "ada"}, {"_id": 2, "owner": "bob"}]
    )
    spec = importlib.util.spec_from_file_location("fastapi_example", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def make_token(**claims: Any) -> dict[str, str]:
    given = {"sub": "ada", "roles": ["reader"], "exp": time.time() + 60, **claims}
    return {"Authorization": f"Bearer {jwt.encode(given, KEY, 'HS256')}"}


async def test_one_token_is_for_the_host_and_for_docgraph(example: Any) -> None:
    """Decision 74: the host enters the lifespan; rules see the path below the mount."""
    transport = httpx2.ASGITransport(app=example.app)
    async with (
        example.lifespan(example.app),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as client,
    ):
        me = await client.get("/me", headers=make_token())
        assert me.json() == {"name": "ada", "roles": ["reader"]}
        items = await client.get("/data/items", headers=make_token())
        assert [one["_id"] for one in items.json()] == [1]

        late = make_token(exp=time.time() - 3600)
        for path in ("/me", "/data/items"):
            assert (await client.get(path)).status_code in (401, 403)
            assert (await client.get(path, headers=late)).status_code == 401
        other = await client.get("/data/items", headers=make_token(roles=["guest"]))
        assert other.status_code == 403

        metadata = await client.get("/.well-known/oauth-protected-resource/data/mcp")
        assert metadata.headers["location"] == "/data/.well-known/oauth-protected-resource/mcp"
