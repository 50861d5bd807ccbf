"""Fuzz request: one request of a caller, and its smaller variants."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import quote

from docgraph_workbench.fuzz.random_queries import Query, shrink_query

GRAPHQL, REST, MCP, STREAMS = "GraphQL", "REST", "MCP", "streams"


@dataclass(frozen=True, slots=True)
class FuzzRequest:
    """A request through a `door`: the interface that it uses (GraphQL, REST, MCP, streams).

    `namespace` is the collection that it concerns, `base` the path of that collection.
    """

    door: str
    method: str
    path: str
    parameters: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None
    namespace: str = ""
    base: str = ""

    @property
    def way(self) -> str:
        """The method and the kind of resource, without the ids of documents and most parameters."""
        below = self.path.removeprefix(self.base) if self.base else self.path
        if self.base and below[:1] == "/" and below[1:2] not in ("_", "*"):
            below = "/{id}"
        return f"{self.method} {below}{'?shardkey' if 'shardkey' in self.parameters else ''}"

    @property
    def target(self) -> str:
        """Path and query string."""
        parts = (f"{name}={quote(_text(value))}" for name, value in self.parameters.items())
        query = "&".join(parts)
        return f"{self.path}?{query}" if query else self.path

    @property
    def writes(self) -> bool:
        """Whether it may change documents."""
        return self.door == REST and self.method not in ("GET", "HEAD", "OPTIONS")

    def render(self) -> bytes:
        """Return the bytes of the request."""
        content = b"" if self.body is None else json.dumps(self.body).encode()
        fields = {"Host": "localhost", "Connection": "close", "Accept": "application/json"}
        if self.body is not None:
            fields |= {"Content-Type": "application/json", "Content-Length": str(len(content))}
        lines = [f"{name}: {value}" for name, value in {**fields, **self.headers}.items()]
        head = "\r\n".join([f"{self.method} {self.target} HTTP/1.1", *lines])
        return f"{head}\r\n\r\n".encode() + content

    def describe(self) -> str:
        """Return the request for people, as short as possible."""
        shown = "&".join(f"{name}={_text(value)}" for name, value in self.parameters.items())
        said = f"{self.method} {self.path}{'?' if shown else ''}{shown}"
        told = {} if self.door == MCP else self.headers
        headers = "".join(f" -H '{name}: {value}'" for name, value in told.items())
        query = self._find_query()
        if query is None:
            return f"{said}{headers}" + (f" {json.dumps(self.body)}" if self.body else "")
        variables = f" {json.dumps(query.variables)}" if query.variables else ""
        tool = f" {self.body['params']['name']}" if self.door == MCP else ""
        return f"{said}{tool}{headers} {query.text}{variables}"

    @property
    def said(self) -> str:
        """Everything that the caller sends, decoded: a response may repeat it without a leak."""
        parts = [self.path, *(_text(value) for value in self.parameters.values())]
        return " ".join([*parts, *self.headers.values(), json.dumps(self.body)])

    def shrink(self) -> Iterator[FuzzRequest]:
        """Yield the operation without one part, for each part."""
        for name, value in self.parameters.items():
            others = {key: kept for key, kept in self.parameters.items() if key != name}
            yield replace(self, parameters=others)
            for smaller in _shrink_json(value):
                yield replace(self, parameters={**self.parameters, name: smaller})
        for name in self.headers if self.door == REST else ():
            others = {key: kept for key, kept in self.headers.items() if key != name}
            yield replace(self, headers=others)
        query = self._find_query()
        if query is not None:
            for smaller_query in shrink_query(query):
                yield self._with_query(smaller_query)
        elif self.door == REST:
            for smaller in _shrink_json(self.body):
                yield replace(self, body=smaller)

    def _find_query(self) -> Query | None:
        holder = self._find_holder()
        if "query" not in holder:
            return None
        return Query(holder["query"], dict(holder.get("variables") or {}))

    def _find_holder(self) -> dict[str, Any]:
        """Return the part of the body that has query and variables."""
        if not isinstance(self.body, dict):
            return {}
        if self.door == MCP:
            arguments: dict[str, Any] = self.body.get("params", {}).get("arguments") or {}
            return arguments
        return self.body

    def _with_query(self, query: Query) -> FuzzRequest:
        holder = {**self._find_holder(), "query": query.text}
        if query.variables:
            holder["variables"] = query.variables
        else:
            holder.pop("variables", None)
        if self.door != MCP:
            return replace(self, body=holder)
        params = {**self.body["params"], "arguments": holder}
        return replace(self, body={**self.body, "params": params})


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _shrink_json(value: Any) -> Iterator[Any]:
    """Yield a value without one part, at any depth."""
    if isinstance(value, dict):
        for key, inner in value.items():
            if len(value) > 1:
                yield {name: kept for name, kept in value.items() if name != key}
            elif key in ("$and", "$or") and isinstance(inner, list) and len(inner) == 1:
                yield inner[0]
            for smaller in _shrink_json(inner):
                yield {**value, key: smaller}
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            if len(value) > 1:
                yield [*value[:number], *value[number + 1 :]]
            for smaller in _shrink_json(inner):
                yield [*value[:number], smaller, *value[number + 1 :]]
