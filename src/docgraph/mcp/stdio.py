"""MCP on standard input and output, for an agent on the same machine.

Every message is authorized as one of a named user to the MCP endpoint. The user is read again for
each, so that current roles and permissions apply.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import uuid4

from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST

from docgraph.access.authorize import Authorization
from docgraph.exchange import Account, Exchange, Request
from docgraph.exchange.errors import DocgraphError, Forbidden
from docgraph.graphql.http.app_access import AppAccess
from docgraph.mcp.call import McpCall
from docgraph.mcp.mcp_protocol import build_server
from docgraph.mcp.resources import Resources
from docgraph.mcp.sections import Mcp
from docgraph.mcp.toolbox import Toolbox

FindAccount = Callable[[], Awaitable[Account]]


async def serve_stdio(
    access: AppAccess,
    settings: Mcp,
    authorization: Authorization,
    find_account: FindAccount,
    version: str,
) -> None:
    """Answer until the client closes its end."""

    async def find_call(context: Any) -> McpCall:
        try:
            exchange = await _build_exchange(settings, find_account)
            await _admit(exchange, authorization, secured=settings.secured)
        except DocgraphError as error:
            raise MCPError(INVALID_REQUEST, error.message) from None
        return _LocalCall(exchange)

    server = build_server(
        Toolbox(access, settings), Resources(access, settings), find_call, version
    )
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


class _LocalCall(McpCall):
    """A call whose errors go only to the process that started docgraph."""

    def fail(self, error: Exception) -> None:
        """Write to stderr: clients show or log it."""
        traceback.print_exception(error, file=sys.stderr)


async def _build_exchange(settings: Mcp, find_account: FindAccount) -> Exchange:
    account = await find_account()
    request = Request("POST", settings.uri.encode())
    request.account = account
    return Exchange(request, uuid4().hex[:16], service="mcp", account=account)


async def _admit(exchange: Exchange, authorization: Authorization, *, secured: bool) -> None:
    decision = await authorization.find_veto(exchange)
    if decision is None:
        decision = await authorization.find_approval(exchange, secured=secured)
    if not decision.allowed:
        raise Forbidden(f"this user may not use {exchange.request.path}")
    exchange.permission = decision.permission
