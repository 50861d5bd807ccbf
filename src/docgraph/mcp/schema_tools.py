"""MCP schema tools: `list_apps`, `get_schema`, `search_schema`, in readable portions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from docgraph.exchange.errors import BodyError
from docgraph.graphql.apps.compiled_app import VisibleApp
from docgraph.graphql.apps.stored_definitions import StoredDefinition
from docgraph.graphql.http.app_access import AppAccess, AppSession
from docgraph.graphql.http.body import GraphqlRequest
from docgraph.graphql.schema_description import render_schema, render_types
from docgraph.graphql.schema_search import find_purposes, search_schema, split_words
from docgraph.mcp.cut import keep_first
from docgraph.mcp.rpc import McpCall
from docgraph.mcp.sections import Mcp
from docgraph.mcp.tool import Tool, ToolOutcome, as_json, build_tool
from docgraph.runtime import allocations

_APPS_PER_PAGE: Final = 100
_MAX_APPS_SEARCHED: Final = 20
_MAX_HITS: Final = 25
_LONGEST_TEXT: Final = 200
_LONGEST_SIGNATURE: Final = 500
_RESERVED: Final = 1_024  # bytes of a page for everything except apps
_SCHEMA_BYTES: Final = 32_768
_INTROSPECTION: Final = GraphqlRequest("{ __schema { queryType { name } } }")


class SchemaTools:
    """The tools that describe what can be queried."""

    def __init__(self, access: AppAccess, settings: Mcp) -> None:
        self._access = access
        self._settings = settings

    def list_tools(self) -> list[Tool]:
        tools = {
            "list_apps": self._list_apps,
            "get_schema": self._get_schema,
            "search_schema": self._search_schema,
        }
        return [build_tool(name, run, self._settings) for name, run in tools.items()]

    async def _list_apps(self, call: McpCall, arguments: Mapping[str, Any]) -> ToolOutcome:
        page: list[dict[str, Any]] = []
        room = self._settings.max_result_bytes
        async for entry in self._access.find_apps(
            call.exchange, after=arguments.get("after") or ""
        ):
            app = describe_app(entry)
            room -= len(allocations.dumps(app)) + 1
            if page and (room < _RESERVED or len(page) == _APPS_PER_PAGE):
                return as_json({"apps": page, "next": page[-1]["app"]})
            page.append(app)
        return as_json({"apps": page})

    async def _get_schema(self, call: McpCall, arguments: Mapping[str, Any]) -> ToolOutcome:
        session = await self._access.admit(call.exchange, arguments["app"])
        await require_introspection(self._access, session)
        schema, limit = (await self._access.view(session)).schema, self._settings.max_result_bytes
        limit = min(limit, _SCHEMA_BYTES)
        types = arguments.get("types")
        aside = self._access.graphql.work_aside
        if types:
            return ToolOutcome(await aside(render_types, schema, types, limit))
        return ToolOutcome(await aside(render_schema, schema, limit))

    async def _search_schema(self, call: McpCall, arguments: Mapping[str, Any]) -> ToolOutcome:
        words = split_words(arguments["words"])
        if not words:
            raise BodyError("the argument 'words' has no word in it")
        if arguments.get("app") is not None:
            sessions = [await self._access.admit(call.exchange, arguments["app"])]
            await require_introspection(self._access, sessions[0])
        else:
            sessions = []
            if self._access.graphql.may_introspect(call.exchange.account):
                async for session in self._access.admit_apps(call.exchange):
                    sessions.append(session)
                    if len(sessions) == _MAX_APPS_SEARCHED:
                        break
        views = [await self._access.view(session) for session in sessions]
        content = await self._access.graphql.work_aside(_collect_hits, views, words)
        content["hits"] = keep_first(content["hits"], self._settings.max_result_bytes - _RESERVED)
        if len(sessions) == _MAX_APPS_SEARCHED:
            content["note"] = f"only the first {_MAX_APPS_SEARCHED} apps were searched: name one"
        return as_json(content)


def describe_app(entry: StoredDefinition) -> dict[str, Any]:
    descriptor = entry.document.get("descriptor")
    text = descriptor.get("description") if isinstance(descriptor, dict) else None
    description = text if isinstance(text, str) else ""
    return {"app": entry.uri, "description": description[:_LONGEST_TEXT]}


async def require_introspection(access: AppAccess, session: AppSession) -> None:
    """Raise the error that the app's endpoint gives to callers who may not read its schema."""
    await access.graphql.plan(session.app, _INTROSPECTION, session.exchange)


def _collect_hits(views: Sequence[VisibleApp], words: Sequence[str]) -> dict[str, Any]:
    hits = []
    for view in views:
        purposes = find_purposes(view)
        for hit in search_schema(view.schema, words, purposes):
            hits.append((hit, view.app.definition.uri, purposes.get(hit.place)))
    hits.sort(key=lambda entry: -entry[0].score)
    shown = [
        {
            "app": app,
            "is": hit.signature[:_LONGEST_SIGNATURE],
            "description": hit.description[:_LONGEST_TEXT],
            **({"does": purpose} if purpose else {}),
        }
        for hit, app, purpose in hits[:_MAX_HITS]
    ]
    return {"hits": shown, "total": len(hits)}
