"""Agents: a test is *caller, tool, arguments, what comes back*.

`use` speaks the protocol in bytes, as any client might; `connected` is the client of the official
library. Both reach the application of the test without a socket.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from tests.http.harness import Document, Reply, Service

if TYPE_CHECKING:
    from mcp import Client

T = TypeVar("T")

HANDSHAKE = "2025-11-25"
MODERN = "2026-07-28"
# Tests are faster than agents, and the name of the server is `test`.
AGENTS: Document = {
    "mcp": {"enabled": True, "allowed-hosts": ["test"], "calls-per-second": 100_000}
}
_META = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


@dataclass
class Used:
    """What a tool has told."""

    result: Document

    @property
    def is_error(self) -> bool:
        return bool(self.result.get("isError"))

    @property
    def text(self) -> str:
        (content,) = self.result["content"]
        text: str = content["text"]
        return text

    @property
    def json(self) -> Any:
        """The content of a tool that had something to tell."""
        assert not self.is_error, self.text
        return json.loads(self.text)

    @property
    def errors(self) -> list[Document]:
        """The errors of a tool that refused, in the shape of GraphQL."""
        assert self.is_error, self.text
        errors: list[Document] = json.loads(self.text)["errors"]
        return errors

    @property
    def message(self) -> str:
        (error,) = self.errors
        message: str = error["message"]
        return message


async def ask(
    service: Service,
    method: str,
    params: Mapping[str, Any] | None = None,
    who: Mapping[str, str] | None = None,
    /,
    *,
    version: str = HANDSHAKE,
    **headers: str,
) -> Reply:
    """One message, with the headers that its revision wants."""
    body: Document = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {})}}
    sent = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": version}
    if version == MODERN:
        body["params"]["_meta"] = _META
        sent["Mcp-Method"] = method
        if (name := body["params"].get("name") or body["params"].get("uri")) is not None:
            sent["Mcp-Name"] = name
    fields = {**sent, **(who or {}), **headers}
    return await service.request("POST", "/mcp", json=body, headers=fields)


async def result(
    service: Service,
    method: str,
    params: Mapping[str, Any] | None = None,
    who: Mapping[str, str] | None = None,
) -> Document:
    """The result of a message that is answered with one."""
    reply = await ask(service, method, params, who)
    assert reply.status == 200, (reply.status, reply.text)
    assert "result" in reply.json, reply.text
    found: Document = reply.json["result"]
    return found


async def use(
    service: Service, tool: str, who: Mapping[str, str] | None = None, /, **arguments: Any
) -> Used:
    """Call a tool."""
    params = {"name": tool, "arguments": arguments}
    return Used(await result(service, "tools/call", params, who))


async def list_tools(service: Service, who: Mapping[str, str] | None = None) -> dict[str, Document]:
    """The tools of a caller, by name."""
    tools = (await result(service, "tools/list", None, who))["tools"]
    return {tool["name"]: tool for tool in tools}


async def with_client(
    service: Service,
    work: Callable[[Client], Coroutine[Any, Any, T]],
    who: Mapping[str, str] | None = None,
    mode: Any = "auto",
) -> T:
    """What comes of using the library's own client, in the loop of the application."""

    async def run() -> T:
        async with connected(service, who, mode) as client:
            return await work(client)

    return await service.there(run())


@asynccontextmanager
async def connected(
    service: Service, who: Mapping[str, str] | None = None, mode: Any = "auto"
) -> AsyncIterator[Client]:
    """The library's own client, loaded when it is needed: that takes most of a second."""
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    before = dict(service.client.headers)
    service.client.headers.update(dict(who or {}))
    try:
        transport = streamable_http_client("http://test/mcp", http_client=service.client)
        async with Client(transport, mode=mode) as client:
            yield client
    finally:
        service.client.headers.clear()
        service.client.headers.update(before)
