"""Random requests to the REST API and to MCP, with every parameter that could leak something."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final
from urllib.parse import quote

from docgraph.tools.data import JsonMode, to_json
from docgraph_workbench.fuzz.fuzz_values import POOL, Canary, Guesses, happens, pool_value
from docgraph_workbench.fuzz.random_queries import Query, QueryMaker
from docgraph_workbench.fuzz.surface import PropertyShape
from docgraph_workbench.leak_check.operation import MCP, REST, FuzzRequest

_ID_TYPES: Final = {"int": "NUMBER", "long": "NUMBER", "double": "NUMBER", "string": "STRING"}
_MAX_PATHS: Final = 60


@dataclass(slots=True)
class ServedCollection:
    """A collection and its path; `strangers` are ids of excluded rows.

    `excluded` are secrets in excluded rows that a filter can compare with, with the rows' ids.
    `aggregations` has the variables of each.
    """

    namespace: str
    path: str
    shape: PropertyShape
    aggregations: dict[str, list[str]] = field(default_factory=dict)
    strangers: list[Any] = field(default_factory=list)
    excluded: list[tuple[Any, Canary]] = field(default_factory=list)

    @property
    def id_kind(self) -> str:
        """The kind of its ids."""
        return self.shape.at(("_id",)).kind

    def list_paths(self) -> list[str]:
        """Return its properties, hidden ones first."""
        leaves = sorted(self.shape.leaves(), key=lambda leaf: not leaf[1].hidden_by)
        return [".".join(path) for path, _ in leaves][:_MAX_PATHS]


class RestMaker:
    """Generates requests about some collections; `batch` is the path of batches, if enabled."""

    def __init__(
        self,
        collections: list[ServedCollection],
        random: Random,
        guesses: Guesses,
        batch: str | None = None,
    ) -> None:
        self._collections = collections
        self._random = random
        self._guesses = guesses
        self._batch = batch

    def make(self) -> FuzzRequest:
        """Return a random request."""
        collection = self._random.choice(self._collections)
        if happens(self._random, 0.25):  # reads reveal most
            return self._write(collection)
        return self._read(collection)

    def sweep(self) -> Iterator[FuzzRequest]:
        """Yield the obvious requests, for every collection and each of its properties."""
        for collection in self._collections:
            yield self._get(collection, "", pagesize=100)
            yield self._get(collection, "", pagesize=100, format="csv")
            yield self._get(collection, "/_size")
            yield self._get(collection, "", count="exact", pagesize=1)
            yield self._get(collection, "", count="estimated", pagesize=1)
            for name in collection.aggregations:
                yield self._get(collection, f"/_aggrs/{quote(name)}")
            for id in (
                *(pool_value(collection.id_kind, n) for n in range(POOL)),
                *collection.strangers,
            ):
                path, parameters = self._locate(collection, id)
                yield self._get(collection, path, **parameters)
            yield from self._fail(collection)
            for steps, node in collection.shape.leaves():
                if node.hidden_by:
                    name = ".".join(steps)
                    yield self._get(collection, "", sort=name, keys={"_id": 1})
                    yield self._get(collection, "", filter={name: {"$gt": self._value(node)}})

    def _fail(self, collection: ServedCollection) -> Iterator[FuzzRequest]:
        """Yield every request that accepts a filter, with one that fails for an excluded row."""
        for id, canary in collection.excluded[:1]:
            value = to_json(canary.value, JsonMode.STANDARD)
            first, *others = build_failing_filters(canary.path, value)
            path, parameters = self._locate(collection, id)
            given = {**parameters, "filter": first}
            change = {"$set": {"a": 1}}
            yield self._get(collection, "", filter=first)
            yield self._get(collection, "/_size", filter=first)
            yield self._get(collection, path, **given)
            yield self._get(collection, path, **parameters, shardkey=first)
            for where, sent in ((path, given), ("/*", {"filter": first})):
                yield self._change(collection, "PATCH", where, sent, change)
                yield self._change(collection, "DELETE", where, sent)
            if self._batch is not None:
                for where, sent in ((path, given), ("/*", {"filter": first})):
                    entry = self._change(collection, "PATCH", where, sent, change)
                    entries = [{"method": "PATCH", "path": entry.target, "body": change}]
                    yield replace(
                        entry, method="POST", path=self._batch, parameters={}, body=entries
                    )
            for name, variables in collection.aggregations.items():
                for variable in variables:
                    avars = dict.fromkeys(variables, 1) | {variable: first}
                    yield self._get(collection, f"/_aggrs/{quote(name)}", avars=avars)
            failing = _FAILING[0](_compare(canary.path, value))
            yield self._get(collection, "", keys={"a": failing})
            for other in others:
                yield self._get(collection, "", filter=other)

    def _change(
        self,
        collection: ServedCollection,
        method: str,
        path: str,
        parameters: dict[str, Any],
        body: Any = None,
    ) -> FuzzRequest:
        return replace(self._get(collection, path, **parameters), method=method, body=body)

    def _get(self, collection: ServedCollection, path: str, **parameters: Any) -> FuzzRequest:
        whole = collection.path + path
        return FuzzRequest(
            REST, "GET", whole, parameters, namespace=collection.namespace, base=collection.path
        )

    def _read(self, collection: ServedCollection) -> FuzzRequest:
        random = self._random
        parameters: dict[str, Any] = {"pagesize": random.choice([1, 3, 100])}
        path = random.choice(["", "", "", "/_size"])
        if happens(random, 0.2):  # each of these sometimes
            ids = [pool_value(collection.id_kind, random.randrange(POOL)), *collection.strangers]
            path, parameters = self._locate(collection, random.choice(ids))
        elif collection.aggregations and happens(random, 0.25):
            path = f"/_aggrs/{quote(random.choice(list(collection.aggregations)))}"
            parameters["avars"] = {"limit": 5, "name": self._guesses.choose("string")}
        for chance, name, make in (
            (0.6, "filter", self._filter),
            (0.4, "sort", self._sort),
            (0.3, "keys", self._keys),
            (0.2, "count", lambda collection: random.choice(["exact", "estimated"])),
            (0.15, "page", lambda collection: random.choice([1, 2, 3])),
            (0.15, "after", lambda collection: ""),
            (0.1, "format", lambda collection: "csv"),
            (
                0.1,
                "hint",
                lambda collection: {random.choice(collection.list_paths() or ["_id"]): 1},
            ),
        ):
            if random.random() < chance:
                parameters[name] = make(collection)
        if "after" in parameters:
            parameters.pop("page", None)
        method = "HEAD" if happens(random, 0.05) else "GET"
        return replace(self._get(collection, path, **parameters), method=method)

    def _write(self, collection: ServedCollection) -> FuzzRequest:
        random = self._random
        path, parameters = self._locate(
            collection, pool_value(collection.id_kind, random.randrange(POOL))
        )
        headers = {}
        if happens(random, 0.3):  # as if it had been read before
            headers["If-Match"] = "0" * 24
        if happens(random, 0.5):
            parameters["filter"] = self._filter(collection)
        new = {
            "_id": to_json(
                pool_value(collection.id_kind, random.randrange(POOL)), JsonMode.STANDARD
            )
        }
        method, where, body = random.choice(
            [
                ("PATCH", path, self._update(collection)),
                ("PATCH", "/*", self._update(collection)),
                ("DELETE", path, None),
                ("DELETE", "/*", None),
                ("PUT", path, {"a": 1}),
                ("POST", "", new),
                ("POST", "", [new, {"a": 1}]),
            ]
        )
        if where == "/*":
            parameters = {"filter": parameters.get("filter") or self._filter(collection)}
        elif not where:
            parameters = {"wm": random.choice(["insert", "update", "upsert"])}
        return replace(self._change(collection, method, where, parameters, body), headers=headers)

    def _locate(self, collection: ServedCollection, id: Any) -> tuple[str, dict[str, Any]]:
        parameters = (
            {"id_type": _ID_TYPES[collection.id_kind]} if collection.id_kind in _ID_TYPES else {}
        )
        return f"/{quote(str(id), safe='')}", parameters

    def _value(self, node: PropertyShape) -> Any:
        value = self._guesses.choose(node.kind, node.values)
        return to_json(value, JsonMode.STANDARD)

    def _filter(self, collection: ServedCollection, depth: int = 0) -> dict[str, Any]:
        random = self._random
        if collection.excluded and happens(random, 0.1):  # one that fails for an excluded row
            _, canary = random.choice(collection.excluded)
            value = to_json(canary.value, JsonMode.STANDARD)
            return random.choice(list(build_failing_filters(canary.path, value)))
        if depth == 0 and happens(random, 0.2):
            branches = [self._filter(collection, 1) for _ in range(random.choice([1, 2]))]
            return {random.choice(["$and", "$or", "$nor"]): branches}
        leaves = list(collection.shape.leaves())
        path, node = random.choice(leaves)
        name = ".".join(path)
        value = self._value(node)
        if happens(random, 0.1):  # operators that read more than one property
            whole: list[dict[str, Any]] = [
                {"$expr": {"$gt": [f"${name}", {"$literal": value}]}},
                {"$jsonSchema": {"required": [path[0]]}},
                {"$where": f"this.{name} > 'm'"},
            ]
            return random.choice(whole)
        conditions: list[Any] = [
            *(value, {"$gt": value}, {"$lt": value}, {"$ne": value}, {"$exists": True}),
            *({"$in": [value, None]}, {"$regex": "^[a-m]"}, {"$type": "string"}, {"$size": 1}),
            *({"$not": {"$gt": value}}, {"$elemMatch": {"$gt": value}}),
        ]
        return {name: random.choice(conditions)}

    def _sort(self, collection: ServedCollection) -> str:
        sign: str = self._random.choice(["", "-"])
        return sign + self._random.choice(collection.list_paths() or ["_id"])

    def _keys(self, collection: ServedCollection) -> dict[str, Any]:
        name = self._random.choice(collection.list_paths() or ["_id"])
        shown: Any = self._random.choice([1, 0, f"${name}", {"$slice": 1}, {"$meta": "indexKey"}])
        return {self._random.choice([name, "other"]): shown}

    def _update(self, collection: ServedCollection) -> dict[str, Any]:
        leaves = [(path, node) for path, node in collection.shape.leaves() if path[0] != "_id"]
        if not leaves:
            return {"$set": {"a": 1}}
        path, node = self._random.choice(leaves)
        name = ".".join(path)
        updates: list[dict[str, Any]] = [
            {"$set": {"a": 1}},
            {"$rename": {name: "other"}},
            {"$max": {name: self._value(node)}},
            {"$inc": {name: 1}},
            {"$push": {name: {"$each": [1], "$slice": 1}}},
            {"$pull": {name: {"$gt": self._value(node)}}},
        ]
        return self._random.choice(updates)


# Each fails if the test is true.
_FAILING: Final[tuple[Callable[[Any], dict[str, Any]], ...]] = (
    lambda test: {"$divide": [1, {"$cond": [test, 0, 1]}]},
    lambda test: {"$toInt": {"$cond": [test, "x", "1"]}},
    lambda test: {"$arrayElemAt": [{"$cond": [test, 1, {"$literal": [1]}]}, 0]},
    lambda test: {"$sqrt": {"$cond": [test, -1, 1]}},
)
_NEVER: Final = {"_id": None}
# Forms that run before a row filter: `$or` before equality, each form before some others.
_FORMS: Final[tuple[Callable[[dict[str, Any]], dict[str, Any]], ...]] = (
    lambda condition: {"$or": [condition, _NEVER]},
    lambda condition: condition,
    lambda condition: {"$nor": [{"$or": [condition, _NEVER]}]},
    lambda condition: {"$and": [{"$or": [condition, _NEVER]}, {"_id": {"$ne": None}}]},
)


def build_failing_filters(path: str, value: Any) -> Iterator[dict[str, Any]]:
    """Yield filters that fail for documents with that value at a path; the likeliest first.

    They fail for one hidden row, and for no other. MongoDB reorders the conditions of a filter. A
    condition of the caller that is evaluated before the row filter also runs on hidden rows, and
    the failure of the request reveals something about them.
    """
    test = _compare(path, value)
    for form in _FORMS:
        yield form({"$expr": _FAILING[0](test)})
    for fail in _FAILING[1:]:
        yield _FORMS[0]({"$expr": fail(test)})


def _compare(path: str, value: Any) -> dict[str, Any]:
    return {"$eq": [f"${path}", {"$literal": value}]}


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
    for line in [text, *(line[5:] for line in text.splitlines() if line.startswith("data:"))]:
        try:
            decoded = json.loads(line)
        except ValueError:
            continue
        if isinstance(decoded, dict) and isinstance(decoded.get("result"), dict):
            result: dict[str, Any] = decoded["result"]
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
        self._tools = sorted(tools, key=lambda tool: tool["name"] != _RUNNING)
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
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return dict(properties) if isinstance(properties, Mapping) else {}
