"""API keys: verification, owners, managing (decision 72)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.http.harness import Document, Mongo
from tests.http.tokens import Worker, open_workers

pytestmark = pytest.mark.anyio

KEYS: Document = {
    "apiKeyMechanism": {"enabled": True, "header": "X-API-Key"},
    "fullAuthorizer": {"enabled": True, "authentication-required": True},
}


def later(days: float = 10) -> str:
    return (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture
async def worker(mongo_client: Mongo, mongo_uri: str, database: str) -> AsyncIterator[Worker]:
    async with open_workers(mongo_client, mongo_uri, database, KEYS) as (worker,):
        yield worker


async def make(worker: Worker, login: str = "ada:secret", **order: Any) -> Any:
    order = {"name": "nightly", "notAfter": later(), "roles": ["editor"], **order}
    auth = tuple(login.split(":"))
    return await worker.send("POST", "/keys", json=order, auth=auth)


async def test_a_key_authenticates_with_its_name_roles_and_owner(worker: Worker) -> None:
    reply = await make(worker, inherits=["team"])
    assert reply.status_code == 201, reply.text
    text = reply.json()["key"]
    shown = await worker.ask("/whoami", authorization=f"Bearer {text}")
    assert shown.status_code == 200, shown.text
    assert shown.json() == {
        "name": "ada/nightly",
        "roles": ["editor"],
        "kind": "key",
        "properties": {"team": "blue", "roles": ["editor"]},
    }
    shown = await worker.ask("/whoami", x_api_key=text)
    assert shown.status_code == 200, shown.text
