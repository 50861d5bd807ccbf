"""The endpoint of agents answers as a server on the official library would.

Every message goes to both, and status and JSON are compared: what the library sends, we send. Where
we are stricter or speak in other words on purpose, the test says so.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.harness import Document, Mongo, Service, running
from tests.http.hosts import module_application
from tests.http.mcp_harness import AGENTS, MODERN
from tests.http.mcp_oracle import answer_by_library

pytestmark = pytest.mark.anyio

REVISIONS = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN, None, "2031-01-01", ""]
EVERY = ["2025-03-26", "2025-11-25", MODERN, None]
_OWN = "io.modelcontextprotocol/"
_INFO = {"name": "tests", "version": "1"}
ENVELOPE: Document = {
    f"{_OWN}protocolVersion": MODERN,
    f"{_OWN}clientInfo": _INFO,
    f"{_OWN}clientCapabilities": {},
}
HELLO: Document = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": _INFO}


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, AGENTS) as one:
        one.insert("films", *({"_id": number, "title": f"Film {number}"} for number in range(3)))
        operation = {"name": "byId", "query": "query($id: Int!) { film(id: $id) { _id title } }"}
        for uri in ("films", "second films"):
            await one.define(
                uri,
                "type Query { film(id: Int!): Film } type Film { _id: Int title: String }",
                {"Query": {"film": one.find("films", {"_id": {"$arg": "id"}})}},
                operations=[operation],
                description="Films",
            )
        yield one


def _call(name: Any, arguments: Any = None) -> Document:
    given = {} if arguments is None else {"arguments": arguments}
    return {"name": name, **given}


_RUN = {"app": "films", "query": "{ film(id: 1) { title } }"}
_CAPABILITIES: list[Any] = [
    {"roots": {"listChanged": True}}, {"roots": "x"}, {"sampling": {}}, {"sampling": []},
    {"experimental": {"a": {}}}, {"experimental": {"a": 1}}, {"elicitation": {"form": {}}},
    {"elicitation": {"form": 1}}, {"unknown": 1}, None, [], "x",
]  # fmt: skip
_CLIENTS: list[Any] = [
    {"name": "x"}, {"version": "1"}, {"name": 1, "version": "1"}, None, "x",
    {**_INFO, "icons": [{"src": "x"}]}, {**_INFO, "icons": [{}]}, {**_INFO, "title": 1},
    {**_INFO, "websiteUrl": "https://x.example"}, {**_INFO, "extra": 1},
]  # fmt: skip
# Method and parameters, valid ones and others.
MESSAGES: list[tuple[str, Any]] = [
    ("ping", None),
    ("ping", {}),
    ("ping", {"x": 1}),
    ("initialize", HELLO),
    *(("initialize", {**HELLO, "protocolVersion": one}) for one in (*REVISIONS[:5], "x", 1, None)),
    *(("initialize", {**HELLO, "capabilities": one}) for one in _CAPABILITIES),
    *(("initialize", {**HELLO, "clientInfo": one}) for one in _CLIENTS),
    ("initialize", None),
    ("initialize", {}),
    ("server/discover", None),
    ("tools/list", None),
    ("tools/list", {"cursor": None}),
    ("tools/list", {"cursor": "x"}),
    ("tools/list", {"cursor": 1}),
    ("tools/call", None),
    ("tools/call", {}),
    ("tools/call", {"name": 1}),
    ("tools/call", _call("list_apps")),
    ("tools/call", _call("list_apps", {})),
    ("tools/call", {"name": "list_apps", "arguments": None}),
    ("tools/call", {"name": "list_apps", "arguments": []}),
    ("tools/call", {"name": "list_apps", "arguments": "x"}),
    ("tools/call", {"name": "list_apps", "extra": 1}),
    ("tools/call", _call("nothing", {})),
    ("tools/call", _call("", {})),
    ("tools/call", _call("films__byId", {"id": 1})),
    ("tools/call", _call("films__byId", {"id": "x"})),
    ("tools/call", _call("films__byId", {})),
    ("tools/call", _call("films__other", {})),
    ("tools/call", _call("run_query", _RUN)),
    ("tools/call", _call("run_query", {**_RUN, "app": "none"})),
    ("tools/call", _call("run_query", {**_RUN, "query": "{ x }"})),
    ("tools/call", _call("run_query", {"app": 1})),
    ("tools/call", _call("validate_query", _RUN)),
    ("tools/call", _call("explain_query", _RUN)),
    ("tools/call", _call("get_schema", {"app": "films"})),
    ("tools/call", _call("search_schema", {"words": "title"})),
    ("resources/list", None),
    ("resources/list", {"cursor": "films"}),
    ("resources/list", {"cursor": "zzz"}),
    ("resources/list", {"cursor": []}),
    ("resources/templates/list", None),
    ("resources/templates/list", {"cursor": "x"}),
    ("resources/read", None),
    ("resources/read", {}),
    ("resources/read", {"uri": 1}),
    ("resources/read", {"uri": "docgraph://apps/films/schema"}),
    ("resources/read", {"uri": "docgraph://apps/second%20films/description"}),
    ("resources/read", {"uri": "docgraph://apps/none/schema"}),
    ("resources/read", {"uri": "https://example.org"}),
    ("resources/read", {"uri": ""}),
    ("prompts/list", None),
    ("prompts/list", {"cursor": "films"}),
    ("prompts/list", {"cursor": 1}),
    ("prompts/get", None),
    ("prompts/get", {"name": "films"}),
    ("prompts/get", {"name": "films", "arguments": {"question": "Which films?"}}),
    ("prompts/get", {"name": "films", "arguments": {"operation": "byId"}}),
    ("prompts/get", {"name": "films", "arguments": {"question": 1}}),
    ("prompts/get", {"name": "films", "arguments": []}),
    ("prompts/get", {"name": "none"}),
    ("prompts/get", {"name": 1}),
    ("completion/complete", None),
    *(("completion/complete", {"ref": ref, "argument": {"name": name, "value": value}})
      for ref in (
        {"type": "ref/prompt", "name": "films"}, {"type": "ref/prompt", "name": "none"},
        {"type": "ref/resource", "uri": "docgraph://apps/{app}/schema"},
        {"type": "ref/resource", "uri": "x"}, {"type": "ref/other"}, {"type": "ref/prompt"},
        {}, "x",
      )
      for name, value in (("app", "fi"), ("operation", ""), ("question", "x"), ("app", 1))),
    ("logging/setLevel", {"level": "info"}),
    ("logging/setLevel", {"level": "loud"}),
    ("logging/setLevel", None),
    ("nothing", None),
    ("nothing", {"x": 1}),
    ("tools", {}),
    ("", {}),
]  # fmt: skip
METAS: list[Any] = [
    None, {}, {"progressToken": 1}, {"progressToken": "x"}, {"progressToken": []}, {"x": "y"},
    {"progressToken": {}}, [], "x", 1,
    {**ENVELOPE, "progressToken": "x"},
    {**ENVELOPE, f"{_OWN}protocolVersion": "2025-11-25"},
    {**ENVELOPE, f"{_OWN}protocolVersion": 1},
    {**ENVELOPE, f"{_OWN}protocolVersion": None},
    {**ENVELOPE, f"{_OWN}clientInfo": None},
    {**ENVELOPE, f"{_OWN}clientInfo": {"name": 1}},
    {**ENVELOPE, f"{_OWN}clientCapabilities": None},
    {**ENVELOPE, f"{_OWN}clientCapabilities": {"sampling": {"tools": {}}}},
    {**ENVELOPE, f"{_OWN}clientCapabilities": {"sampling": {"tools": 1}}},
    {**ENVELOPE, f"{_OWN}logLevel": "debug"},
    {**ENVELOPE, f"{_OWN}logLevel": "loud"},
    {key: value for key, value in ENVELOPE.items() if not key.endswith("clientInfo")},
    {key: value for key, value in ENVELOPE.items() if not key.endswith("Capabilities")},
]  # fmt: skip


def _headers(method: str, params: Any, revision: str | None) -> dict[str, str]:
    headers = {"Accept": "application/json", "Content-Type": "application/json"}
    if revision is None:
        return headers
    headers["MCP-Protocol-Version"] = revision
    if revision == MODERN:
        headers["Mcp-Method"] = method
        name = (params or {}).get("name") or (params or {}).get("uri")
        if isinstance(name, str) and name.isascii():
            headers["Mcp-Name"] = name
    return headers


async def _compare(service: Service, message: Any, headers: dict[str, str]) -> None:
    body = json.dumps(message).encode()
    reply = await service.request("POST", "/mcp", content=body, headers=headers)
    status, expected = await answer_by_library(service, body, headers)
    found = reply.json if reply.text else None
    assert (reply.status, _normalise(found)) == (status, _normalise(expected)), (message, headers)


def _normalise(content: Any) -> Any:
    """Without the words of errors, which are ours."""
    if isinstance(content, dict) and "error" in content:
        error = {**content["error"], "message": "", "data": ""}
        if content["error"]["code"] == -32022:
            error["data"] = content["error"]["data"]
        return {**content, "error": error}
    return content


@pytest.mark.parametrize("revision", REVISIONS)
async def test_requests_are_answered_as_by_the_library(
    service: Service, revision: str | None
) -> None:
    # Every message with three revisions and without one; the others share them out.
    first, step = (0, 1) if revision in EVERY else (REVISIONS.index(revision) % 2, 2)
    for number, (method, params) in list(enumerate(MESSAGES))[first::step]:
        message: Document = {"jsonrpc": "2.0", "id": number, "method": method}
        if revision == MODERN:
            message["params"] = {**(params or {}), "_meta": ENVELOPE}
        elif params is not None:
            message["params"] = params
        await _compare(service, message, _headers(method, params, revision))


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-11-25", MODERN, None])
async def test_members_of_meta_are_checked_as_by_the_library(
    service: Service, revision: str | None
) -> None:
    methods: list[tuple[str, Document]] = [
        ("tools/list", {}), ("tools/call", _call("list_apps")), ("ping", {}), ("initialize", HELLO),
        ("resources/read", {"uri": "docgraph://apps/films/description"}),
    ]  # fmt: skip
    for meta, (method, given) in itertools.product(METAS, methods):
        params = {**given, "_meta": meta}
        message = {"jsonrpc": "2.0", "id": "a", "method": method, "params": params}
        await _compare(service, message, _headers(method, params, revision))


@pytest.mark.parametrize("revision", REVISIONS)
async def test_notifications_are_accepted_as_by_the_library(
    service: Service, revision: str | None
) -> None:
    for method, params in [
        ("notifications/initialized", None), ("notifications/initialized", {}),
        ("notifications/cancelled", {"requestId": 1}), ("notifications/cancelled", {}),
        ("notifications/progress", {"progressToken": 1, "progress": 1}), ("x", {}), ("ping", None),
    ]:  # fmt: skip
        message: Document = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        await _compare(service, message, _headers(method, params, revision))


async def test_headers_are_compared_with_the_body_as_by_the_library(service: Service) -> None:
    chance = random.Random(7)
    methods = ["tools/call", "tools/list", "resources/read", "ping", "x"]
    names = ["list_apps", "get_schema", "=?base64?bGlzdF9hcHBz?=", "=?base64?x?=", "=?base64?bGk?="]
    for _ in range(300):
        method, name = chance.choice(methods), chance.choice(names)
        params = {"name": "list_apps", "uri": "docgraph://apps/films/schema", "_meta": ENVELOPE}
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        headers = _headers(method, None, chance.choice([MODERN, "2025-11-25", "x"]))
        headers["Mcp-Method"] = chance.choice([method, chance.choice(methods)])
        headers["Mcp-Name"] = chance.choice([name, "list_apps", "docgraph://apps/films/schema"])
        for field in ("Mcp-Method", "Mcp-Name"):
            if chance.random() < 0.1:
                del headers[field]
        await _compare(service, message, headers)


@pytest.mark.parametrize(
    "accept",
    ["application/json", "application/json, text/event-stream", "*/*", "application/*",
     "text/html", "text/event-stream", "", "APPLICATION/JSON;q=0.5", "application/jsonx", "json"],
)  # fmt: skip
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_accept_is_read_as_by_the_library(
    service: Service, accept: str, revision: str
) -> None:
    params = {"_meta": ENVELOPE}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}
    headers = {**_headers("tools/list", None, revision), "Accept": accept}

    reply = await service.request("POST", "/mcp", json=message, headers=headers)
    status, _ = await answer_by_library(service, json.dumps(message).encode(), headers)

    assert reply.status == status
