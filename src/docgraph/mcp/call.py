"""MCP call: one request of an agent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from docgraph.exchange import Exchange


@dataclass(slots=True)
class McpCall:
    """The exchange of the request, and what the protocol's library does not preserve exactly.

    `arguments` are those of the tool as they were written (no digit lost); None: as the library has
    parsed them. `failure` is an internal error for the pipeline to report.
    """

    exchange: Exchange
    arguments: Mapping[str, Any] | None = None
    failure: Exception | None = field(default=None, repr=False)

    def fail(self, error: Exception) -> None:
        """Record an error that no tool can describe."""
        self.failure = error
