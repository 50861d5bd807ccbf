"""Fuzzing the MCP endpoint: messages that an agent might send."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Any, Final

from docgraph.cli.fuzz.operation import MCP, FuzzRequest
from docgraph.workbench.fuzz.fuzz_values import Guesses, happens
from docgraph.workbench.fuzz.random_queries import Query, QueryMaker

_HEADERS: Final = {
    "Accept": "application/json, text/event-stream",
    "MCP-Protocol-Version": "2025-11-25",
}
_RUNNING: Final = "run_query"  # the tool with the largest output
_KINDS: Final = {"integer": "int", "number": "double", "boolean": "bool"}


def message(path: str, method: str, params: Mapping[str, Any] | None = None) -> FuzzRequest:
    """Return one message to the endpoint."""
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": dict(params or {})}
    return FuzzRequest(MCP, "POST", path, headers=_HEADERS, body=body)


def read_result(body: bytes) -> dict[str, Any]:
    """Return the result of a message, as JSON or as a single event; empty if there is none."""
    text = body.decode("utf-8", "replace")
    for line in [text, *(one[5:] for one in text.splitlines() if one.startswith("data:"))]:
        try:
            found = json.loads(line)
        except ValueError:
            continue
        if isinstance(found, dict) and isinstance(found.get("result"), dict):
            result: dict[str, Any] = found["result"]
            return result
    return {}


class AgentMaker:
    """Generates calls of the tools that the caller is offered."""

    def __init__(
        self,
        path: str,
        tools: Iterable[Mapping[str, Any]],
        uri: str,
        queries: QueryMaker,
        random: Random,
        guesses: Guesses,
    ) -> None:
        self._path = path
        self._tools = sorted(tools, key=lambda one: one["name"] != _RUNNING)
        self._uri = uri
        self._queries = queries
        self._random = random
        self._guesses = guesses

    def make(self) -> FuzzRequest:
        """Return a random call."""
        return self._call(self._random.choice(self._tools), self._queries.make(), optional=0.5)

    def sweep(self) -> Iterator[FuzzRequest]:
        """Yield the lists, and every tool with every query."""
        for method in ("tools/list", "resources/list", "resources/templates/list"):
            yield message(self._path, method)
        for tool in self._tools:
            asks = "query" in _properties(tool)
            for query in self._queries.sweep() if asks else [Query("")]:
                yield self._call(tool, query)

    def _call(self, tool: Mapping[str, Any], query: Query, *, optional: float = 0) -> FuzzRequest:
        """Return a call of a tool, with a random part of its optional arguments."""
        arguments: dict[str, Any] = {}
        required = tool.get("inputSchema", {}).get("required", ())
        for name, schema in _properties(tool).items():
            if name == "app":
                arguments[name] = self._uri
            elif name == "query":
                arguments[name] = query.text
            elif name == "variables" and "query" in _properties(tool):
                arguments[name] = query.variables
            elif name in required or (name != "cursor" and happens(self._random, optional)):
                kind = schema.get("type", "string") if isinstance(schema, dict) else "string"
                arguments[name] = self._guesses.choose(_KINDS.get(str(kind), "string"))
        params = {"name": tool["name"], "arguments": arguments}
        return message(self._path, "tools/call", params)


def _properties(tool: Mapping[str, Any]) -> dict[str, Any]:
    schema = tool.get("inputSchema")
    found = schema.get("properties") if isinstance(schema, Mapping) else None
    return dict(found) if isinstance(found, Mapping) else {}
