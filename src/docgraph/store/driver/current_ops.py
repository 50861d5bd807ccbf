"""Current operations: running database commands of GraphQL operations, of all instances.

Every command of an operation has a comment with its origin. Only that comment, the database's plan
summary and the time are read: no filter, no value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from docgraph.exchange.data import Document
from docgraph.exchange.deadline import Deadline
from docgraph.store.driver.command import Commands
from docgraph.store.store import Store

_CEILING_MS: Final = 10_000
_MAX_LISTED: Final = 1000
_COMMENTS: Final = ("command.comment", "cursor.originatingCommand.comment")


@dataclass(frozen=True, slots=True)
class Running:
    """One command: its app, operation and field, its collection, its plan and its duration."""

    app: str
    operation: str
    field: str
    request: str
    namespace: str
    plan: str
    milliseconds: float


async def list_running(store: Store, deadline: Deadline) -> list[Running]:
    """Return the running commands of our database user for operations, the longest first."""
    pipeline: list[Document] = [
        {"$currentOp": {"idleConnections": False}},
        {
            "$match": {
                "active": True,
                "$or": [{f"{path}.app": {"$exists": True}} for path in _COMMENTS],
            }
        },
        {"$project": {**dict.fromkeys((*_COMMENTS, "ns", "planSummary", "microsecs_running"), 1)}},
        {"$sort": {"microsecs_running": -1}},
        {"$limit": _MAX_LISTED},
    ]
    commands = Commands(store.client, ceiling_ms=_CEILING_MS, waits=store.waits)
    command: Document = {"aggregate": 1, "pipeline": pipeline, "cursor": {"batchSize": _MAX_LISTED}}
    return [_read(operation) for operation in await commands.fetch("admin", command, deadline)]


def _read(document: Mapping[str, Any]) -> Running:
    comment = _find_comment(document)
    return Running(
        app=str(comment.get("app", "")),
        operation=str(comment.get("operation", "")),
        field=str(comment.get("field", "")),
        request=str(comment.get("request", "")),
        namespace=str(document.get("ns", "")),
        plan=str(document.get("planSummary", "")),
        milliseconds=float(document.get("microsecs_running", 0)) / 1000,
    )


def _find_comment(document: Mapping[str, Any]) -> Mapping[str, Any]:
    for path in _COMMENTS:
        value: Any = document
        for name in path.split("."):
            value = value.get(name) if isinstance(value, Mapping) else None
        if isinstance(value, Mapping):
            return value
    return {}
