"""MCP prompts: one for each app, to explore it or to answer a question with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.http.app_access import AppAccess, AppSession
from docgraph.mcp.operation_tools import OperationTools
from docgraph.mcp.resources import Resources
from docgraph.mcp.rpc import INVALID_PARAMS, CompleteParams, McpCall, PromptRef, RpcError
from docgraph.mcp.tool import Tool

_PROMPTS_PER_PAGE: Final = 50  # apps
_MAX_VALUES: Final = 100
_LONGEST_ABOUT: Final = 1_000
_QUESTION: Final = "question"
_OPERATION: Final = "operation"
_EXPLORE: Final = (
    "Explore it: read its schema with get_schema, run a few small queries with run_query, and tell "
    "what can be asked, with three questions as examples."
)

_ANSWER: Final = (
    "Answer this question with it: find fields with search_schema, read the types that you need "
    "with get_schema, and run a query with run_query. For how many, most or per month use fields "
    "that count or group; a list that is named in `limits` is not complete."
)


class Prompts:
    """The prompts of callers, by the URI of their app."""

    def __init__(self, access: AppAccess, operations: OperationTools) -> None:
        self._access = access
        self._operations = operations

    async def list_page(
        self, call: McpCall, cursor: str | None
    ) -> tuple[list[dict[str, Any]], str | None]:
        """Return a page of prompts, and the cursor of the next page."""
        page: list[dict[str, Any]] = []
        async for session in self._access.admit_apps(call.exchange, after=cursor or ""):
            if len(page) == _PROMPTS_PER_PAGE:
                return page, page[-1]["name"]
            page.append(self._describe(session, await self._operations.find_all(session)))
        return page, None

    async def get(self, call: McpCall, name: str, arguments: Mapping[str, str]) -> dict[str, Any]:
        """Return the text of a prompt; raise `RpcError` if it does not exist for the caller."""
        session = await self._admit(call, name)
        tools = await self._operations.find_all(session)
        about = session.app.definition.description[:_LONGEST_ABOUT]
        parts = [f"The GraphQL app {name!r} is available with your tools. {about}".strip()]
        tool = next((each for each in tools if each.title == arguments.get(_OPERATION)), None)
        if tool is not None:
            enums = _find_enums([tool])
            values = [f"{key}: {value}" for key, value in arguments.items() if key in enums]
            given = ", ".join(values) or "as you need"
            parts.append(f"Use its tool {tool.name}: {tool.description} Arguments: {given}.")
        question = arguments.get(_QUESTION, "").strip()
        parts += [_ANSWER, f"Question: {question}"] if question else [] if tool else [_EXPLORE]
        content = {"type": "text", "text": "\n".join(parts)}
        return {
            "description": about or f"The app {name}",
            "messages": [{"role": "user", "content": content}],
        }

    async def complete(self, call: McpCall, params: CompleteParams) -> dict[str, Any]:
        """Return the values of an argument that begin as given."""
        name, begun = params.argument.name, params.argument.value.lower()
        values: Iterable[str] = ()
        if isinstance(params.ref, PromptRef):
            tools = await self._operations.find_all(await self._admit(call, params.ref.name))
            operations = [tool.title for tool in tools]
            values = operations if name == _OPERATION else _find_enums(tools).get(name, ())
        elif params.ref.uri not in [template.uri for template in Resources.templates]:
            raise RpcError(INVALID_PARAMS, "Unknown resource template")
        elif name == "app":
            values = [app.uri async for app in self._access.find_apps(call.exchange)]
        fitting = [value for value in values if value.lower().startswith(begun)]
        return {
            "values": fitting[:_MAX_VALUES],
            "total": len(fitting),
            "hasMore": len(fitting) > _MAX_VALUES,
        }

    async def _admit(self, call: McpCall, name: str) -> AppSession:
        try:
            return await self._access.admit(call.exchange, name, quietly=True)
        except DocgraphError as error:
            if error.status >= 500:  # noqa: PLR2004
                raise
            raise RpcError(INVALID_PARAMS, "Unknown prompt") from None

    def _describe(self, session: AppSession, tools: list[Tool]) -> dict[str, Any]:
        uri = session.app.definition.uri
        arguments = {_QUESTION: "what you want to know; without it the app is explored"}
        if tools:
            arguments[_OPERATION] = "one of its prepared queries, to be used for that"
        for name in _find_enums(tools):
            arguments.setdefault(name, "an argument of the prepared queries")
        return {
            "name": uri,
            "title": f"Ask or explore {uri}",
            "description": session.app.definition.description[:_LONGEST_ABOUT] or f"The app {uri}",
            "arguments": [
                {"name": name, "description": text, "required": False}
                for name, text in arguments.items()
            ],
        }


def _find_enums(tools: Iterable[Tool]) -> dict[str, list[str]]:
    """Return the arguments of tools that are enums, with their values."""
    enums: dict[str, list[str]] = {}
    for tool in tools:
        for name, schema in tool.input_schema["properties"].items():
            for choice in (schema, *schema.get("anyOf", ())):
                if "enum" in choice:
                    enums.setdefault(name, choice["enum"])
    return enums
