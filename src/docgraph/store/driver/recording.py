"""The commands of a store as they are sent, to ask the database afterwards what each one took.

For a command line that runs one query: a server would record those of all its callers.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from docgraph.exchange.data import Consistency, Document
from docgraph.exchange.deadline import Deadline
from docgraph.store.driver.command import Commands
from docgraph.store.driver.portions import Take
from docgraph.store.explain import Execution, read_execution
from docgraph.store.store import Store

__all__ = ["RecordedCommands", "Sent", "recording"]

_OF_THE_REQUEST: Final = ("maxTimeMS", "readConcern", "comment")


@dataclass(frozen=True, slots=True)
class Sent:
    """A command with what it is for, and what carrying it out again took."""

    field: str
    kind: str
    namespace: str
    execution: Execution


class RecordedCommands(Commands):
    """Sends commands, and keeps them."""

    sent: list[tuple[str, Document]]

    async def fetch(
        self,
        db: str,
        command: Document,
        deadline: Deadline,
        consistency: Consistency | None = None,
        *,
        one_batch: bool = False,
        take: Take | None = None,
    ) -> list[Document]:
        """As always."""
        self.sent.append((db, dict(command)))
        return await super().fetch(
            db, command, deadline, consistency, one_batch=one_batch, take=take
        )

    async def explain_sent(self, deadline: Deadline) -> list[Sent]:
        """The database's account of each command; it carries them out once more for it."""
        return [await self._explain(db, command, deadline) for db, command in self.sent]

    async def _explain(self, db: str, command: Document, deadline: Deadline) -> Sent:
        comment: Any = command.get("comment")
        field = comment.get("field", "") if isinstance(comment, dict) else ""
        bare = {key: one for key, one in command.items() if key not in _OF_THE_REQUEST}
        reply = await self.explain(db, bare, deadline, "executionStats")
        kind, collection = next(iter(command.items()))
        return Sent(str(field), kind, f"{db}.{collection}", read_execution(reply))


@asynccontextmanager
async def recording(store: Store) -> AsyncIterator[RecordedCommands]:
    """Keep what the store sends meanwhile, with the bounds that it has."""
    before = store._commands
    commands = RecordedCommands(store.client, ceiling_ms=before.ceiling_ms, waits=store.waits)
    commands.sent = []
    store._commands = commands
    try:
        yield commands
    finally:
        store._commands = before
        await commands.stop()
        commands.close()
