"""MCP call: one request of an agent."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from docgraph.exchange import Exchange
from docgraph.mcp.rpc import DEFAULT_REVISION

# The levels of the protocol, the most urgent first.
LEVELS: Final = (
    "emergency",
    "alert",
    "critical",
    "error",
    "warning",
    "notice",
    "info",
    "debug",
)

Notify = Callable[[str, dict[str, Any]], None]


@dataclass(slots=True)
class McpCall:
    """The exchange of the request, and the revision of the protocol that it uses.

    `notify` sends a notification while the request runs, where the transport can; `level` is the
    least urgent one of the messages that the client wants to have, if any.
    """

    exchange: Exchange
    revision: str = DEFAULT_REVISION
    notify: Notify | None = None
    progress_token: str | int | None = None
    level: str | None = None

    def report(self, progress: int, text: str) -> None:
        """Report progress to a client that wants to know."""
        if self.notify is not None and self.progress_token is not None:
            params = {"progressToken": self.progress_token, "progress": progress, "total": 1}
            self.notify("notifications/progress", {**params, "message": text})

    def log(self, level: str, data: dict[str, Any]) -> None:
        """Send a log message to a client that wants those of this level."""
        is_wanted = self.level is not None and LEVELS.index(level) <= LEVELS.index(self.level)
        if self.notify is not None and is_wanted:
            self.notify(
                "notifications/message", {"level": level, "logger": "docgraph", "data": data}
            )
