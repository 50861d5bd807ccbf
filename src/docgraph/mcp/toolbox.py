"""MCP toolbox: the tools of a caller, and the outcome of running one."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Final

from docgraph.exchange import DocgraphError
from docgraph.exchange.errors import NotFound, StoreError
from docgraph.graphql.errors import Classification, OperationRefused
from docgraph.graphql.execute.report import report_failure
from docgraph.graphql.http.app_access import AppAccess
from docgraph.graphql.http.response_shape import render_error
from docgraph.mcp.hints import hint_at_apps
from docgraph.mcp.operation_tools import OperationTools
from docgraph.mcp.query_tools import QueryTools
from docgraph.mcp.rpc import McpCall
from docgraph.mcp.schema_tools import SchemaTools
from docgraph.mcp.sections import Mcp
from docgraph.mcp.tool import Tool, ToolOutcome, check_arguments
from docgraph.observe import emit
from docgraph.observe.events import ToolCalled

_MAX_TOOLS: Final = 40
_LONGEST_LIST: Final = 32_768  # bytes
# Rejected for callers whom `graphql.operations-only` restricts.
_FREE_QUERY_TOOLS: Final = frozenset(
    {"get_schema", "search_schema", "validate_query", "explain_query", "run_query"}
)


class Toolbox:
    """The built-in tools, and those that apps declare."""

    def __init__(self, access: AppAccess, settings: Mcp) -> None:
        queries = QueryTools(access, settings)
        self.operations = OperationTools(access, queries)
        always = [*SchemaTools(access, settings).list_tools(), *queries.list_tools()]
        self._access = access
        self._is_bound = access.graphql.is_bound
        self._largest = settings.max_result_bytes
        self._always = {tool.name: tool for tool in always}
        self._stand_in = {tool.name: tool for tool in self.operations.stand_in()}

    async def list_tools(self, call: McpCall) -> list[Tool]:
        """Return the tools of this caller; search tools in place of very many operations."""
        declared = (await self.operations.list_tools(call, _MAX_TOOLS)).values()
        always = list(self._always.values())
        if self._is_bound(call.exchange.account):
            always = [tool for tool in always if tool.name not in _FREE_QUERY_TOOLS]
        tools = [*always, *declared]
        if len(tools) > _MAX_TOOLS or sum(len(tool.rendered) for tool in tools) > _LONGEST_LIST:
            return [*always, *self._stand_in.values()]
        return tools

    async def find(self, call: McpCall, name: str) -> Tool | None:
        """Return the tool of that name; None also for an operation hidden from the caller."""
        tool = self._always.get(name) or self._stand_in.get(name)
        return await self.operations.find(call, name) if tool is None else tool

    async def use(self, call: McpCall, tool: Tool, arguments: Mapping[str, Any]) -> ToolOutcome:
        """Run the tool; a rejection is an outcome too, in the form of GraphQL errors."""
        started = time.perf_counter()
        code = ""
        call.report(0, f"running {tool.name}")
        try:
            if tool.name in self._always or tool.name in self._stand_in:
                check_arguments(tool.input_schema, arguments)
            outcome = await tool.run(call, arguments)
            if len(outcome.text.encode()) > self._largest:  # it could not be cut
                raise OperationRefused.because(
                    f"the result is larger than {self._largest} bytes",
                    "response-too-large",
                    Classification.ABORTED,
                )
        except NotFound as error:
            code = error.code
            if isinstance(uri := arguments.get("app"), str):
                error = await hint_at_apps(call, self._access, uri)
            outcome = _reject(error, call)
        except DocgraphError as error:
            code = error.errors[0].code if isinstance(error, OperationRefused) else error.code
            outcome = _reject(error, call)
        except Exception:
            _record(call, tool, "internal-error", started)
            raise
        _record(call, tool, code, started)
        call.report(1, "done")
        return outcome


def _record(call: McpCall, tool: Tool, code: str, started: float) -> None:
    exchange = call.exchange
    exchange.error = code
    user = exchange.account.name if exchange.account else ""
    seconds = time.perf_counter() - started
    emit(ToolCalled(exchange.id, tool.name, exchange.app, user, not code, seconds, code))
    outcome = {"tool": tool.name, "milliseconds": round(seconds * 1000), "code": code or "ok"}
    call.log("warning" if code else "info", outcome)


def _reject(error: DocgraphError, call: McpCall) -> ToolOutcome:
    if isinstance(error, StoreError):
        report_failure(error, call.exchange)
    return ToolOutcome(render_error(error).content.decode(), is_error=True)
