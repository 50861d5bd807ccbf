"""MCP query tools: `validate_query`, `explain_query`, `run_query`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from docgraph.graphql.apps.compiled_app import App
from docgraph.graphql.errors import OperationRefused, count_more, reject_length
from docgraph.graphql.execute.result import encode_data
from docgraph.graphql.http.app_access import AppAccess
from docgraph.graphql.http.body import GraphqlRequest, check_variables
from docgraph.graphql.http.response_shape import Ran, list_errors
from docgraph.mcp.cut import (
    AT_LIMIT,
    CutPosition,
    Fitted,
    describe_limits,
    fit,
    keep_first,
    measure,
    read_cursor,
    render_cursor,
)
from docgraph.mcp.hints import add_hint
from docgraph.mcp.rpc import McpCall
from docgraph.mcp.sections import Mcp
from docgraph.mcp.tool import Tool, ToolOutcome, as_json, build_tool
from docgraph.runtime import allocations
from docgraph.runtime.allocations import embed_json

_CHEAPER: Final = (
    "ask for less: smaller limits, fewer levels of lists, or a filter; explain_query shows which "
    "fields cost most"
)
_RESERVED: Final = 1_024  # bytes for what accompanies the data: the cuts, the cursor
_MAX_CUTS: Final = 10  # reported; others are counted
_SHARES: Final = 8  # of a result: one each for errors, limits and cuts at most
_TRIES: Final = 4


@dataclass(frozen=True, slots=True)
class QueryArguments:
    """A query of an agent, and where to continue in its result."""

    app: Any
    request: GraphqlRequest
    cursor: str | None = None

    @classmethod
    def read(cls, arguments: Mapping[str, Any]) -> QueryArguments:
        variables = arguments.get("variables") or {}
        check_variables(variables)
        request = GraphqlRequest(arguments["query"], variables, arguments.get("operation"))
        return cls(arguments["app"], request, arguments.get("cursor"))


class QueryTools:
    """The tools that accept the text of a query."""

    def __init__(self, access: AppAccess, settings: Mcp) -> None:
        self._access = access
        self.settings = settings

    def list_tools(self) -> list[Tool]:
        tools = {
            "validate_query": self._validate,
            "explain_query": self._explain,
            "run_query": self._run,
        }
        return [build_tool(name, run, self.settings) for name, run in tools.items()]

    async def _validate(self, call: McpCall, arguments: Mapping[str, Any]) -> ToolOutcome:
        wanted = QueryArguments.read(arguments)
        session = await self._access.admit(call.exchange, wanted.app, wanted.request)
        try:
            plan = await self._access.graphql.plan(session.app, wanted.request, session.exchange)
            if arguments.get("variables") is not None:
                plan.variables.read(wanted.request.variables)
        except OperationRefused as refusal:
            raised = await add_hint(refusal, self._access, session)
            return as_json({"valid": False, "errors": list_errors(raised)})
        return as_json({"valid": True})

    async def _explain(self, call: McpCall, arguments: Mapping[str, Any]) -> ToolOutcome:
        wanted = QueryArguments.read(arguments)
        session = await self._access.admit(call.exchange, wanted.app, wanted.request)
        graphql = self._access.graphql
        most = self._find_budget(session.app)
        try:
            outlook = await graphql.estimate_cost(
                session.app, wanted.request, session.exchange, most
            )
        except OperationRefused as refusal:
            raise await add_hint(refusal, self._access, session) from None
        privileged = graphql.may_explain(session.exchange.account)
        described = outlook.as_dict(privileged=privileged)
        budget = {"maxDocuments": most, "maxResultBytes": self.settings.max_result_bytes}
        estimated = described.pop("estimatedDocuments")
        content = {"estimatedDocuments": estimated, "budget": budget, **described}
        if privileged:
            plan = await graphql.plan(session.app, wanted.request, session.exchange)
            content["plan"] = plan.explain()
        return as_json(content)

    async def _run(self, call: McpCall, arguments: Mapping[str, Any]) -> ToolOutcome:
        return await self.carry_out(call, QueryArguments.read(arguments))

    async def carry_out(self, call: McpCall, wanted: QueryArguments) -> ToolOutcome:
        """Run a query within the limits of agents; cut the response to a readable size."""
        session = await self._access.admit(call.exchange, wanted.app, wanted.request)
        uri = session.app.definition.uri
        cursor = wanted.cursor
        position = None if cursor is None else read_cursor(cursor, uri, wanted.request)
        limits = session.app.limits
        budget = self._find_budget(session.app)
        try:
            ran = await self._access.graphql.run(
                session.app,
                replace(wanted.request, limits=True),
                session.exchange,
                msgspec.structs.replace(limits, fetched_documents=budget),
            )
        except OperationRefused as refusal:
            if any(error.code == "too-many-documents" for error in refusal.errors):
                refusal.hint = _CHEAPER
            raise await add_hint(refusal, self._access, session) from None
        result = ran.result
        data = encode_data(result.data, limits.response_bytes)
        if data is None:
            refused = reject_length(limits.response_bytes)
            refused.hint = _CHEAPER
            raise refused
        plain = b'{"data":' + data + b"}"
        is_large = len(plain) > self.settings.max_result_bytes
        if position is not None or is_large or result.errors or result.limits:
            arguments = (ran, uri, wanted.request, position)
            aside = self._access.graphql.work_aside
            content = (
                await aside(self._compose, *arguments) if is_large else self._compose(*arguments)
            )
        else:
            content = plain
        fields = [] if result.data is None else result.data.values()
        has_data = any(value is not None for value in fields)
        has_failed = result.data is None or (bool(result.errors) and not has_data)
        return ToolOutcome(content.decode(), is_error=has_failed)

    def _find_budget(self, app: App) -> int:
        """Return how many documents a query of an agent may fetch."""
        return min(app.limits.fetched_documents, self.settings.max_documents)

    def _compose(
        self, ran: Ran, uri: str, request: GraphqlRequest, position: CutPosition | None
    ) -> bytes:
        """Return the data with everything that accompanies it, within the limit in bytes."""
        result = ran.result
        limit = self.settings.max_result_bytes
        entries = [error.as_dict() for error in result.errors]
        errors = keep_first(entries, limit // _SHARES)
        if len(errors) < len(entries):
            errors.append(count_more(result.total_errors - len(errors)).as_dict())
        limits = keep_first(describe_limits(ran.plan, result.limits), limit // _SHARES)
        reserved = measure((errors, limits)) + _RESERVED
        for _ in range(_TRIES):
            fitted = fit(result.data, limit, reserved, position)
            content: dict[str, Any] = {"data": fitted.data}
            if errors:
                content["errors"] = errors
            if limits:
                content |= {"limits": limits, "limitsHint": AT_LIMIT}
            if fitted.cuts:
                content |= _describe_cuts(fitted, uri, request, limit // _SHARES)
            text = allocations.dumps(content, embed_json)
            if len(text) <= limit:
                break
            reserved += len(text) - limit
        return text


def _describe_cuts(fitted: Fitted, uri: str, request: GraphqlRequest, room: int) -> dict[str, Any]:
    cuts = keep_first((cut.as_dict() for cut in fitted.cuts[:_MAX_CUTS]), room)
    content: dict[str, Any] = {"cut": cuts}
    if len(fitted.cuts) > len(cuts):
        content["moreCuts"] = len(fitted.cuts) - len(cuts)
    if fitted.position is None:
        content["hint"] = "parts are missing: ask for fewer fields, or for smaller lists"
    else:
        content["cursor"] = render_cursor(uri, request, fitted.position)
        content["hint"] = (
            "this is a part: call again with the same arguments and this cursor for the next "
            "one, or ask for less"
        )
    return content
