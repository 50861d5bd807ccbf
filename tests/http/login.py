"""What tests of logging in have in common: some users, and servers that know them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from docgraph.server.http.protocol import HttpProtocol
from docgraph.server.http.state import ProcessState
from tests.http.harness import Mongo, eventually, running
from tests.http.harness import Service as Running

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


@asynccontextmanager
async def serving(mongo: Mongo, uri: str, *settings: Any, **options: Any) -> AsyncIterator[Running]:
    """An application that knows `USERS` and lets in nobody else, unless the settings say so."""
    async with running(mongo, uri, QUIET, REALM, LOCKED, *settings, **options) as service:
        await service.app.store.available()
        yield service


@asynccontextmanager
async def listening_on(service: Running) -> AsyncIterator[str]:
    """An application of this loop on a real socket, for programs; yields its address."""
    loop = asyncio.get_running_loop()
    assert loop is service.loop
    state: ProcessState = service.client._transport.state  # type: ignore[attr-defined]
    server = await loop.create_server(lambda: HttpProtocol(state, loop), "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for connection in tuple(state.connections):
            connection.transport.abort()
        await eventually(lambda: not state.connections)


def read_page(name: str) -> dict[str, Any]:
    """The configuration that a page of the documentation begins with."""
    page = Path(__file__).parents[2] / "docs" / "reference" / f"{name}.md"
    block = page.read_text(encoding="utf-8").split("```yaml\n", 1)[1].split("```", 1)[0]
    sections: dict[str, Any] = yaml.safe_load(block)
    return sections
