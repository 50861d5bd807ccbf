"""MCP call: one request of an agent."""

from __future__ import annotations

from dataclasses import dataclass

from docgraph.exchange import Exchange
from docgraph.mcp.rpc import DEFAULT_REVISION


@dataclass(slots=True)
class McpCall:
    """The exchange of the request, and the revision of the protocol that it uses."""

    exchange: Exchange
    revision: str = DEFAULT_REVISION
