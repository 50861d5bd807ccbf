"""The protocol on standard input and output, for an agent on the same machine.

Every message is judged as one of a named user to the endpoint of agents: the user is read anew for
each, so that what he may do and see is what holds at that moment.
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
from docgraph.mcp.call import Call
from docgraph.mcp.desk import Desk
from docgraph.mcp.protocol import build_server
from docgraph.mcp.resources import Resources
from docgraph.mcp.toolbox import Toolbox

__all__ = ["serve_stdio"]

FindAccount = Callable[[], Awaitable[Account]]


async def serve_stdio(
    desk: Desk, authorization: Authorization, find_account: FindAccount, version: str
) -> None:
    """Answer until the other end closes."""

    async def find_call(context: Any) -> Call:
        try:
            exchange = await _imagine(desk, find_account)
            await _admit(exchange, authorization, secured=desk.settings.secured)
        except DocgraphError as error:
            raise MCPError(INVALID_REQUEST, error.message) from None
        return _LocalCall(exchange)

    server = build_server(Toolbox(desk), Resources(desk), find_call, version)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


class _LocalCall(Call):
    """Nobody but whoever started us hears of its faults."""

    def fail(self, error: Exception) -> None:
        """Clients show or keep what is written there."""
        traceback.print_exception(error, file=sys.stderr)


async def _imagine(desk: Desk, find_account: FindAccount) -> Exchange:
    account = await find_account()
    request = Request("POST", desk.settings.uri.encode())
    request.account = account
    return Exchange(request, uuid4().hex[:16], service="mcp", account=account)


async def _admit(exchange: Exchange, authorization: Authorization, *, secured: bool) -> None:
    decision = await authorization.find_veto(exchange)
    if decision is None:
        decision = await authorization.find_approval(exchange, secured=secured)
    if not decision.allowed:
        raise Forbidden(f"this user may not use {exchange.request.path}")
    exchange.permission = decision.permission
