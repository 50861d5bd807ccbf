"""What tests of logging in have in common: a service that says who is calling, and some users."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
import uvicorn
import yaml

from docgraph.auth.authenticators.file import FileRealm
from docgraph.auth.mechanisms.basic import BasicMechanism
from docgraph.auth.mechanisms.digest import DigestMechanism
from docgraph.auth.mechanisms.jwt import JwtMechanism
from docgraph.auth.mechanisms.token_basic import TokenBasicMechanism
from docgraph.exchange import Answer, Body, Exchange
from docgraph.plugins.kinds import Plugin, Service
from docgraph.server import prepare
from tests.http.harness import Mongo, eventually, running
from tests.http.harness import Service as Running

MECHANISMS = (BasicMechanism, TokenBasicMechanism, DigestMechanism, JwtMechanism)
USERS = [
    {"userid": "ada", "password": "secret", "roles": ["user", "editor"], "team": "blue"},
    {"userid": "zoë", "password": "pässwörd:€", "roles": []},
]
REALM = {"fileRealmAuthenticator": {"enabled": True, "users": USERS}}
LOCKED = {"fullAuthorizer": {"enabled": True, "authentication-required": True}}
QUIET = {
    "basicAuthMechanism": {"enabled": False},
    "tokenBasicAuthMechanism": {"enabled": False},
    "bruteForceAttackGuard": {"enabled": False},
    # A client that is closed while it fills its pool leaves sockets behind.
    "mclient": {"min-pool-size": 0},
}


class WhoAmI(Service):
    """`GET /whoami`: the caller as the pipeline sees him."""

    name: ClassVar[str] = "whoami"
    uri: ClassVar[str] = "/whoami"
    methods: ClassVar[tuple[str, ...]] = ("GET", "POST")

    async def handle(self, exchange: Exchange) -> Answer:
        account = exchange.account
        told = account and {"name": account.name, "roles": account.roles, "kind": account.kind}
        return Body(200, json.dumps(told).encode(), "application/json")


@contextmanager
def plugins(*others: type[Plugin]) -> Iterator[None]:
    """Applications have the built-in plugins, those that log in among them, and these."""
    needed = (*MECHANISMS, FileRealm, WhoAmI, *others)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "BUILTIN", tuple(dict.fromkeys((*prepare.BUILTIN, *needed))))
        yield


@asynccontextmanager
async def serving(mongo: Mongo, uri: str, *settings: Any, **options: Any) -> AsyncIterator[Running]:
    """An application that knows `USERS` and lets in nobody else, unless the settings say so."""
    async with running(mongo, uri, QUIET, REALM, LOCKED, *settings, **options) as service:
        await service.app.store.available()
        yield service


@asynccontextmanager
async def listening_on(application: Any) -> AsyncIterator[str]:
    """The application on a real socket, for clients that are programs; yields its address."""
    config = uvicorn.Config(application, port=0, lifespan="off", log_level="critical")
    server = uvicorn.Server(config)
    task = asyncio.create_task(server.serve())
    await eventually(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await task


def read_page(name: str) -> dict[str, Any]:
    """The configuration that a page of the documentation begins with."""
    page = Path(__file__).parents[2] / "docs" / "reference" / f"{name}.md"
    block = page.read_text(encoding="utf-8").split("```yaml\n", 1)[1].split("```", 1)[0]
    sections: dict[str, Any] = yaml.safe_load(block)
    return sections
