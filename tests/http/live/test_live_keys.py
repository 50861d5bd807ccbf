"""API keys beyond REST: live queries, WebSocket, agents, batches; and their secret in no output.

Decision 72.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.auth.credentials import ApiKeyText
from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.text import clean_text
from tests.http.access_harness import allow, guarded
from tests.http.api_keys import KEYS, later
from tests.http.harness import Document, Mongo, Service
from tests.http.live_harness import connect
from tests.http.live_harness import subscribe as follow
from tests.http.mcp_harness import AGENTS, use
from tests.http.realms import hashed, render_basic

pytestmark = pytest.mark.anyio

SCHEMA = "type Query { mine: [Note] } type Note { _id: Int }"
MINE = "query @live { mine { _id } }"
SETTINGS: Document = {
    "events": {"renewal-interval-ms": 60_000},
    "basicAuthMechanism": {"enabled": True},
    "dbRealmAuthenticator": {"bcrypt-complexity": 4},
    "graphql": {"history-versions": 5},
}
ANSWER = {"data": {"mine": [{"_id": 1}]}}


@pytest.fixture
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri, SETTINGS, KEYS, AGENTS) as one:
        zoe = {"_id": "zoe", "roles": ["user", "author"], "team": "blue"}
        one.insert("users", {**zoe, "password": hashed("secret")})
        one.insert("notes", {"_id": 1, "team": "blue"}, {"_id": 2, "team": "red"})
        mapped = {"Query": {"mine": one.find("notes", {"team": {"$arg": "@user.team"}})}}
        await one.define("app", SCHEMA, mapped, live=True)
        await allow(one, "path-prefix('/')", "user")
        yield one


async def make(service: Service, **parts: Any) -> str:
    body = {"name": "nightly", "notAfter": later(), "roles": ["user"], "inherits": ["team"]}
    login = {"authorization": render_basic("zoe", "secret")}
    reply = await service.request("POST", "/keys", json={**body, **parts}, headers=login)
    assert reply.status == 201, reply.text
    text: str = reply.json["key"]
    return text


def bearer(text: str) -> dict[str, str]:
    return {"authorization": f"Bearer {text}"}


async def revoke(service: Service) -> None:
    keys = service.app.plugins.find("apiKeyMechanism").keys
    await service.there(revoke_all(keys))


async def revoke_all(keys: Any) -> None:
    for key in await keys.list_page():
        await keys.revoke(key["_id"])


async def test_a_live_query_of_a_key_ends_when_it_is_revoked(service: Service) -> None:
    async with follow(service, "app", MINE, bearer(await make(service))) as client:
        assert await client.next() == ANSWER
        await revoke(service)
        ending = await client.next()
    assert ending["errors"][0]["extensions"]["code"] == "unauthenticated"


async def test_a_live_query_over_the_other_header_ends_too(service: Service) -> None:
    async with follow(service, "app", MINE, {"x-api-key": await make(service)}) as client:
        assert await client.next() == ANSWER
        await revoke(service)
        ending = await client.next()
    assert ending["errors"][0]["extensions"]["code"] == "unauthenticated"


async def test_a_web_socket_takes_a_key_in_its_first_message(service: Service) -> None:
    text = await make(service)
    await allow(service, "path-prefix('/graphql')", "$unauthenticated")
    async with connect(service, "app") as socket:
        await socket.begin({"Authorization": f"Bearer {text}"})
        socket.subscribe("1", MINE)
        assert await socket.next_of("1") == ANSWER
        await revoke(service)
        code, _ = await socket.wait_closed()
    assert code == 1008


async def test_agents_and_batches_use_a_key(service: Service) -> None:
    who = bearer(await make(service))
    used = await use(service, "run_query", who, app="app", query="{ mine { _id } }")
    assert used.json["data"] == ANSWER["data"]
    entries = [{"method": "POST", "path": "/notes", "body": {"_id": 3}}]
    reply = await service.request("POST", "/_batch", json=entries, headers=who)
    assert reply.status == 200, reply.text
    assert reply.json[0]["status"] == 201


# --- the secret in outputs ------------------------------------------------------------------------


async def test_no_output_has_the_secret(service: Service) -> None:
    """A canary: all events with all their fields, answers, metrics, traces and the database."""
    seen: list[str] = []

    def hear(event: Event) -> None:
        seen.append(repr(event) + repr([getattr(event, name, "") for name in dir(event)]))

    subscribe(hear)
    try:
        text = await make(service)
        for headers in (bearer(text), {"x-api-key": text}, bearer(text[:-1] + "x")):
            for method, path in (
                ("GET", "/notes"),
                ("GET", "/none/none/none"),
                ("POST", "/notes"),
                ("GET", "/notes?filter={"),
                ("GET", "/access/explain?path=/notes&user=key:zoe/nightly"),
                ("GET", "/keys"),
                ("GET", "/metrics"),
                ("GET", "/_tools/rights?path=/notes"),
                ("GET", f"/graphql/app?query={{mine{{_id}}}}&key={'x' * 8}"),
            ):
                reply = await service.request(method, path, headers=headers, content=b"{")
                seen.append(reply.text + repr(reply.headers))
        mapped = {"Query": {"mine": service.find("notes", {"n": 1})}}
        await service.define("app", SCHEMA, mapped, live=True)  # recorded in the history
        await revoke(service)
        reply = await service.request("GET", "/notes", headers=bearer(text))
        seen.append(reply.text)
    finally:
        unsubscribe(hear)
    database = service.mongo[service.db]
    seen += [repr(list(database[name].find())) for name in database.list_collection_names()]
    key = ApiKeyText.parse(text)
    assert any("key:zoe/nightly" in one for one in seen)
    for part in (key.secret, key.secret[:20], key.secret[-20:], text[-8:]):
        assert [one for one in seen if part in one] == []


def test_a_key_in_a_message_is_masked() -> None:
    """The second safety net: what libraries quote."""
    text = ApiKeyText("0123456789abcdef").render()
    for message in (text, f"bad header {text!r}", f"x-api-key: {text}", json.dumps({"k": text})):
        cleaned = clean_text(message)
        assert text[21:] not in cleaned
        assert text[-20:] not in cleaned
    assert repr(ApiKeyText.parse(text)).count(text[21:40]) == 0
