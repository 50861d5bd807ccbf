"""MCP tools of declared operations (persisted queries), if the caller may see all of their fields.

If a list of them would be too long for an agent's context, two tools replace them: one that
searches them and one that runs them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from docgraph.exchange.errors import BodyError
from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.apps.stored_definitions import StoredDefinition
from docgraph.graphql.definition.definition import DeclaredOperation
from docgraph.graphql.definition.definition_schema import JsonSchema
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.http.app_access import AppAccess, AppSession
from docgraph.graphql.http.body import GraphqlRequest, check_variables
from docgraph.graphql.http.plan_cache import may_introspect
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.schema_description import describe_result, describe_variables
from docgraph.graphql.schema_search import score, split_words
from docgraph.mcp.cut import keep_first, measure
from docgraph.mcp.query_tools import QueryArguments, QueryTools
from docgraph.mcp.rpc import McpCall
from docgraph.mcp.tool import TOOLS, Tool, ToolOutcome, as_json, build_tool
from docgraph.runtime import allocations

_CURSOR: Final = "_cursor"  # next to the variables, whose names the author chose
_LONGEST_PREFIX: Final = 22  # with an operation of 40, 64 characters: what all clients accept
_LONGEST_SCHEMA: Final = 8_192  # bytes of the schema of a result
_MAX_FOUND: Final = 10
_MAX_LISTED: Final = 1_000
_LONGEST_TEXT: Final = 500
_RESERVED: Final = 256  # bytes of a result for everything except operations
_PLAIN: Final = re.compile(r"[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*")
_OTHER: Final = re.compile(r"[^A-Za-z0-9-]+")


def name_tool(uri: str, operation: str) -> str:
    """Return `movies__topRated`; with a digest if the URI is too long or not a valid name."""
    prefix = uri
    if not _PLAIN.fullmatch(uri) or len(uri) > _LONGEST_PREFIX:
        digest = hashlib.blake2b(uri.encode(), digest_size=4).hexdigest()
        plain = _OTHER.sub("_", uri)[: _LONGEST_PREFIX - len(digest) - 1].strip("_")
        prefix = f"{plain or 'app'}-{digest}"
    return f"{prefix}__{operation}"


class _Described(NamedTuple):
    """The names of the variables of an operation, and the schemas of arguments and result."""

    variables: Collection[str]
    arguments: JsonSchema
    outcome: JsonSchema


class OperationTools:
    """The tools that authors of apps declare.

    They depend on the schema that a caller sees, and on nothing else of the caller: they are
    cached with that schema. Whether the caller may use the app is decided for each request.
    """

    def __init__(self, access: AppAccess, queries: QueryTools) -> None:
        self._access = access
        self._queries = queries
        self._known: WeakKeyDictionary[VisibleApp, dict[bool, dict[str, Tool]]] = (
            WeakKeyDictionary()
        )

    async def list_tools(self, call: McpCall, most: int = _MAX_LISTED) -> dict[str, Tool]:
        """Return one tool per operation, by name; stop at one more than `most`."""
        tools: dict[str, Tool] = {}
        async for session in self._access.admit_apps(call.exchange, _declares):
            for name, tool in (await self._find_tools(session)).items():
                tools.setdefault(name, tool)
                if len(tools) > most:
                    return tools
        return tools

    async def find(self, call: McpCall, name: str) -> Tool | None:
        """Return the tool of that name, if it exists for the caller."""

        def is_meant(entry: StoredDefinition) -> bool:
            return _declares(entry) and name.startswith(name_tool(entry.uri, ""))

        async for session in self._access.admit_apps(call.exchange, is_meant):
            tool = (await self._find_tools(session)).get(name)
            if tool is not None:
                return tool
        return None

    async def find_all(self, session: AppSession) -> list[Tool]:
        return list((await self._find_tools(session)).values())

    def stand_in(self) -> list[Tool]:
        """Return the search tools that replace operations which are too many to list."""
        tools = {"search_operations": self._search, "run_operation": self._run_named}
        return [build_tool(name, run, self._queries.settings) for name, run in tools.items()]

    async def _find_tools(self, session: AppSession) -> dict[str, Tool]:
        """Return the tools of the operations of which the caller may see every field."""
        graphql = self._access.graphql
        tools_of = self._known.setdefault(await self._access.view(session), {})
        # As for the plan of an operation.
        introspects = may_introspect(graphql.config.introspection, session.exchange.account)
        if introspects not in tools_of:
            uri, tools = session.app.definition.uri, dict[str, Tool]()
            for operation in session.app.definition.operations:
                request = GraphqlRequest(operation.query, operation=operation.name)
                try:
                    plan = await graphql.plan(session.app, request, session.exchange)
                except OperationRefused:
                    continue
                described = await graphql.work_aside(_describe, plan)
                name = name_tool(uri, operation.name)
                tools[name] = Tool(
                    name,
                    operation.name,
                    operation.description or f"The query {operation.name} of the app {uri}.",
                    described.arguments,
                    partial(self._run, uri, operation, described.variables),
                    described.outcome,
                )
            tools_of[introspects] = tools
        return tools_of[introspects]

    async def _run(
        self,
        uri: str,
        operation: DeclaredOperation,
        names: Collection[str],
        call: McpCall,
        arguments: Mapping[str, Any],
    ) -> ToolOutcome:
        variables = dict(arguments)
        cursor = None if _CURSOR in names else variables.pop(_CURSOR, None)
        if not (cursor is None or isinstance(cursor, str)):
            raise BodyError(f"the argument {_CURSOR!r} must be a string")
        for name in variables:
            if name not in names:
                given = ", ".join(sorted(names)) or "none"
                raise BodyError(
                    f"unknown argument {name[:100]!r}", hint=f"the arguments are: {given}"
                )
        check_variables(variables)
        request = GraphqlRequest(operation.query, variables, operation=operation.name)
        outcome = await self._queries.carry_out(call, QueryArguments(uri, request, cursor))
        return replace(outcome, is_structured=True)

    async def _search(self, call: McpCall, arguments: Mapping[str, Any]) -> ToolOutcome:
        words = split_words(arguments["words"])
        tools = list((await self.list_tools(call)).values())
        scored = [(score(words, tool.name, tool.description), tool) for tool in tools]
        hits = sorted((hit for hit in scored if hit[0]), key=lambda hit: (-hit[0], hit[1].name))
        room = self._queries.settings.max_result_bytes - _RESERVED
        operations = [_describe_found(tool, room) for _, tool in hits[:_MAX_FOUND]]
        return as_json({"operations": keep_first(operations, room), "total": len(hits)})

    async def _run_named(self, call: McpCall, arguments: Mapping[str, Any]) -> ToolOutcome:
        tool = await self.find(call, arguments["name"])
        if tool is None:
            raise BodyError("unknown operation", hint="search_operations finds them")
        outcome = await tool.run(call, arguments.get("arguments") or {})
        return ToolOutcome(outcome.text, is_error=outcome.is_error)


def _describe_found(tool: Tool, room: int) -> dict[str, Any]:
    """Return an operation with its arguments, and with the types that they refer to if they fit."""
    schema = tool.input_schema
    content: dict[str, Any] = {
        "name": tool.name,
        "description": tool.description[:_LONGEST_TEXT],
        "arguments": schema["properties"],
        "required": schema["required"],
    }
    described = {**content, "$defs": schema["$defs"]} if "$defs" in schema else content
    return described if measure(described) < room else content


def _declares(entry: StoredDefinition) -> bool:
    descriptor = entry.document.get("descriptor")
    return isinstance(descriptor, dict) and bool(descriptor.get("operations"))


def _describe(plan: Plan) -> _Described:
    arguments = describe_variables(plan)
    variables = frozenset(arguments["properties"])
    arguments["properties"].setdefault(_CURSOR, TOOLS["run_query"].arguments["cursor"])
    data: JsonSchema = describe_result(plan)
    if len(allocations.dumps(data)) > _LONGEST_SCHEMA:
        data = {"type": "object"}
    outcome = {
        "type": "object",
        "properties": {
            "data": {"anyOf": [data, {"type": "null"}]},
            "errors": {"type": "array", "items": {"type": "object"}},
            "limits": {"type": "array", "items": {"type": "object"}},
            "limitsHint": {"type": "string"},
            "cut": {"type": "array", "items": {"type": "object"}},
            "moreCuts": {"type": "integer"},
            "cursor": {"type": "string"},
            "hint": {"type": "string"},
        },
        "required": ["data"],
    }
    return _Described(variables, arguments, outcome)
