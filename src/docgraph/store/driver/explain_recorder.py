"""Explain recorder: record sent commands and explain each of them afterwards.

For a command line that runs one query: a server would record the commands of all its callers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from docgraph.exchange.data import Document
from docgraph.exchange.deadline import Deadline
from docgraph.store.driver.command import Commands
from docgraph.store.query_plan import Execution, read_execution
from docgraph.store.store import Store

_OF_THE_REQUEST: Final = ("maxTimeMS", "readConcern", "comment")


@dataclass(frozen=True, slots=True)
class Sent:
    """A command with its purpose, and its execution statistics."""

    field: str
    kind: str
    namespace: str
    execution: Execution


class RecordedCommands(Commands):
    """Sends commands and records them."""

    sent: list[tuple[str, Document]]

    async def fetch(self, db: str, command: Document, *rest: Any, **options: Any) -> list[Document]:
        self.sent.append((db, dict(command)))
        return await super().fetch(db, command, *rest, **options)

    async def explain_sent(self, deadline: Deadline) -> list[Sent]:
        """Return the database's explanation of each command, which executes them again."""
        explained = []
        for db, command in self.sent:
            comment: Any = command.get("comment")
            field = comment.get("field", "") if isinstance(comment, dict) else ""
            bare = {key: value for key, value in command.items() if key not in _OF_THE_REQUEST}
            reply = await self.explain(db, bare, deadline, "executionStats")
            kind, collection = next(iter(command.items()))
            namespace = f"{db}.{collection}"
            explained.append(Sent(str(field), kind, namespace, read_execution(reply)))
        return explained


@asynccontextmanager
async def recording(store: Store) -> AsyncIterator[RecordedCommands]:
    """Record what the store sends inside this context, with the store's time limits."""
    before = store.reads.commands
    commands = RecordedCommands(store.client, ceiling_ms=before.ceiling_ms, waits=store.waits)
    commands.sent = []
    store.reads.commands = commands
    try:
        yield commands
    finally:
        store.reads.commands = before
        await commands.stop()
        commands.close()
