"""A body that is no JSON is refused by every service, in words of docgraph and not of a library."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any
from urllib.parse import quote

import msgspec
import orjson
import pydantic_core
import pytest

from tests.http.harness import Mongo, Service, identity, merge, running
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS, HANDSHAKE

pytestmark = pytest.mark.anyio

PING = '{"jsonrpc": "2.0", "id": 1, "method": "ping", "query": "{ a }", "params": {"a": %s}}'
# Each is the whole body, or stands for a value deep inside one that is sound otherwise.
WHOLE = (
    *(b"{", b"", b" ", b"x", b'{"a": 1,}', b'{"a" 1}', b"[1 2]", b'{"a": 1} x', b'{"a": "x'),
    *(b'{"a": "\xff"}', b"\xff\xfe{", b"\xef\xbb\xbf{", b"{'a': tru", b'{"a": 01}', b'{"a": \x01}'),
    *((PING % 1).encode(code) for code in ("utf-8-sig", "utf-16", "utf-16-le", "utf-32-le")),
)
INSIDE = ("NaN", "-Infinity", r'"\ud800"', r'"\u12"', "[" * 300 + "]" * 300, "[" * 2000, "'x", "1.")
DEEP = b"[" * 300 + b"]" * 300
BODIES = [*WHOLE, *((PING % one).encode() for one in INSIDE)]
# So large that only strict JSON is read.
LARGE = b'{"a": "' + b"x" * (2 << 20) + b'", "b": ' + b"nul}"
SERVICES = {
    "graphql": ("POST", "/graphql/app"),
    "mcp": ("POST", "/mcp"),
    "batch": ("POST", "/_batch"),
    "collection": ("POST", "/things"),
    "properties": ("PUT", "/things"),
    "document": ("PUT", "/things/a"),
    "patch": ("PATCH", "/things/a"),
    "bulk": ("PATCH", "/things/*?filter={}"),
    "index": ("PUT", "/things/_indexes/a"),
    "schema": ("POST", "/_schemas"),
    "rules": ("POST", "/acl"),
    "apps": ("POST", "/gql-apps"),
    "users": ("POST", "/users"),
    **{
        f"tool {name}": ("POST", f"/_tools/{name}")
        for name in ("check", "draft", "plan", "matrix", "infer", "advise", "rules")
    },
}
PARAMETERS = ("filter", "keys", "sort", "hint", "shardkey", "avars")


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, merge(AGENTS, identity("admin"))) as one:
        await one.define("app", "type Query { a: Int }")
        for path in ("/things", "/_schemas", "/acl", "/gql-apps", "/users"):
            await one.request("PUT", path)
        yield one


def find_words(body: bytes) -> Iterator[str]:
    """What the libraries that read JSON have to say of a body."""
    readers: tuple[Callable[[bytes], Any], ...] = (
        *(orjson.loads, json.loads),
        *(msgspec.json.decode, pydantic_core.from_json),
    )
    for read in readers:
        try:
            read(body)
        except (ValueError, RecursionError) as error:
            # Without the place, which anybody may tell.
            said = getattr(error, "msg", None) or str(error).partition(" at line ")[0]
            yield said.partition(" (byte ")[0].lower()


def assert_own_words(text: str, body: bytes) -> None:
    words = list(find_words(body))
    assert words, "the libraries read it"
    assert not [one for one in words if one and one in text.lower()], text


async def send(service: Service, name: str, body: bytes) -> Any:
    method, path = SERVICES[name]
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": HANDSHAKE,
    }
    return await service.request(method, path, content=body, headers=headers)


@pytest.mark.parametrize("name", SERVICES)
async def test_no_service_shows_the_text_of_a_library(service: Service, name: str) -> None:
    refused = 0
    for body in (*BODIES, LARGE):
        reply = await send(service, name, body)
        assert_own_words(reply.text, body)
        assert reply.status != 500, (body[:80], reply.text)
        refused += reply.status in (400, 413)
    assert refused >= len(BODIES) / 2  # the REST API reads more than JSON, and needs no body


@pytest.mark.parametrize("name", ["graphql", "mcp", "tool check"])
async def test_services_of_strict_json_refuse_all_of_them(service: Service, name: str) -> None:
    """Deep nesting is JSON, where nobody goes through it."""
    for body in BODIES if name != "graphql" else (one for one in BODIES if DEEP not in one):
        reply = await send(service, name, body)
        assert reply.status == 400, (body[:80], reply.text)


@pytest.mark.parametrize("parameter", PARAMETERS)
async def test_nor_does_a_parameter(service: Service, parameter: str) -> None:
    for body in WHOLE:
        path = "/things/_aggrs/x" if parameter == "avars" else "/things"
        reply = await service.request("GET", f"{path}?{parameter}={quote(body)}")
        assert_own_words(reply.text, body)
        assert reply.status != 500, (body[:80], reply.text)


async def test_a_message_as_deep_as_allowed_is_answered(service: Service) -> None:
    reply = await send(service, "mcp", (PING % ("[" * 98 + "]" * 98)).encode())
    assert reply.json == {"jsonrpc": "2.0", "id": 1, "result": {}}
