"""API keys in tests: applications that know them, and requests with them."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2

from docgraph.auth.mechanisms.api_key import ApiKeyMechanism
from tests.http.harness import Document, Mongo
from tests.http.realms import hashed
from tests.http.tokens import Worker, open_workers

KEYS: Document = {"apiKeyMechanism": {"enabled": True, "header": "X-API-Key"}}
UNKNOWN_ID = "0123456789abcdef"


def later(days: float = 10) -> str:
    """A time in so many days, as callers write it."""
    return (datetime.now(UTC) + timedelta(days=days)).strftime("%Y-%m-%dT%H:%M:%SZ")


def mechanism_of(worker: Worker) -> ApiKeyMechanism:
    return next(one for one in worker.app.plugins.plugins if isinstance(one, ApiKeyMechanism))


def add_user(worker: Worker, name: str, *roles: str, **properties: Any) -> None:
    """A user with the password `secret`, stored behind the back of the server."""
    user = {"_id": name, "roles": list(roles), "password": hashed("secret"), **properties}
    worker.users.insert_one(user)


@asynccontextmanager
async def open_keys(
    mongo: Mongo, uri: str, db: str, *settings: Mapping[str, Any]
) -> AsyncIterator[Worker]:
    """One worker with keys; `ada` is a user and an editor, `root` an administrator."""
    async with open_workers(mongo, uri, db, KEYS, *settings) as (worker,):
        if worker.users.find_one({"_id": "root"}) is None:
            add_user(worker, "root", "admin", "editor")
        yield worker


async def order(worker: Worker, login: str = "ada", **parts: Any) -> httpx2.Response:
    """The answer to an order of a key."""
    body = {"name": "nightly", "notAfter": later(), "roles": ["editor"], **parts}
    return await worker.send("POST", "/keys", json=body, auth=(login, "secret"))


async def make(worker: Worker, login: str = "ada", **parts: Any) -> str:
    """The text of a new key."""
    reply = await order(worker, login, **parts)
    assert reply.status_code == 201, reply.text
    text: str = reply.json()["key"]
    return text


async def use(worker: Worker, text: str, path: str = "/whoami", **headers: str) -> httpx2.Response:
    """The answer to a request with a key."""
    return await worker.ask(path, authorization=f"Bearer {text}", **headers)


async def status(worker: Worker, text: str, path: str = "/whoami") -> int:
    return (await use(worker, text, path)).status_code
