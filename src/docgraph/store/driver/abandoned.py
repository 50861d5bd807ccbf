"""Abandoned reads: kill the database operations of cancelled commands (`killOp`).

A cancelled read closes its connection, and the server ends a read whose client has disconnected. It
checks twice a second, and it cannot see the disconnect behind a proxy that keeps its own connection
open. So docgraph sends `killOp` for the commands that have the mark of the read in their comment.
That needs no privileges: every user may list and kill their own operations, and those of other
users are not listed.

The mark is unique. The id of the request would not do: several reads and operations of a WebSocket
have the same one, and with `core.tracing-headers` callers choose it. Comments of writes have no
mark: writes are never killed.
"""

from __future__ import annotations

import asyncio
import secrets
from itertools import count
from typing import Final

import pymongo
from pymongo.asynchronous.mongo_client import AsyncMongoClient
from pymongo.errors import OperationFailure

from docgraph.exchange.data import Document
from docgraph.observe import emit
from docgraph.observe.events import UnattendedFailed
from docgraph.store.driver.driver_internals import ServerMode
from docgraph.store.driver.errors import DRIVER_ERRORS

_LOOKS: Final = 2  # the first may run before the command that was just sent
_PAUSE_SECONDS: Final = 0.3
_TIMEOUT_SECONDS: Final = 5.0
_MAX_MARKS: Final = 1000
_MARK: Final = "read"  # the member of the comment
# A database that rejects the command with one of these codes will reject it again.
_NEVER: Final = frozenset(
    {
        13,  # Unauthorized
        59,  # CommandNotFound
        115,  # CommandNotSupported
        323,  # APIStrictError
        8000,  # MongoDB Atlas: the operation is not allowed
        40324,  # an unknown stage
    }
)


class AbandonedReads:
    """Ends the reads of cancelled requests, all of them with one list of operations."""

    def __init__(self, client: AsyncMongoClient[Document]) -> None:
        self._client = client
        self._looks: dict[tuple[str, int], int] = {}
        self._preferences: dict[int, ServerMode] = {}  # by their mode: they are not hashable
        self._task: asyncio.Task[None] | None = None
        self._is_off = False
        self._prefix = secrets.token_hex(8)
        self._numbers = count()

    def mark(self, command: Document) -> None:
        """Mark a command in its comment, if that names a request, so that `add` can end it."""
        comment = command.get("comment")
        if isinstance(comment, dict) and "request" in comment:
            command["comment"] = {**comment, _MARK: f"{self._prefix}-{next(self._numbers)}"}

    def add(self, command: Document, preference: ServerMode) -> None:
        """Kill a marked command in the background; return immediately."""
        comment = command.get("comment")
        mark = comment.get(_MARK) if isinstance(comment, dict) else None
        if not mark or self._is_off or len(self._looks) >= _MAX_MARKS:
            return
        self._preferences[preference.mode] = preference
        self._looks[mark, preference.mode] = _LOOKS
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._run(), name="end abandoned reads")

    async def close(self) -> None:
        self._is_off = True
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while self._looks and not self._is_off:
            by_mode: dict[int, list[str]] = {}
            for mark, mode in self._looks:
                by_mode.setdefault(mode, []).append(mark)
            self._looks = {key: left - 1 for key, left in self._looks.items() if left > 1}
            for mode, marks in by_mode.items():
                await self._end(marks, self._preferences[mode])
            if self._looks:
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _end(self, marks: list[str], preference: ServerMode) -> None:
        """Kill the operations of our own user with these marks."""
        places = [f"{part}.comment.{_MARK}" for part in ("command", "cursor.originatingCommand")]
        stages: list[Document] = [
            {"$currentOp": {}},
            {"$match": {"$or": [{place: {"$in": marks}} for place in places]}},
            {"$project": {"opid": 1}},
        ]
        admin = self._client.get_database("admin", read_preference=preference)
        try:
            with pymongo.timeout(_TIMEOUT_SECONDS):
                cursor = await admin.aggregate(stages)
                for operation in await cursor.to_list():
                    kill = {"killOp": 1, "op": operation["opid"]}
                    await admin.command(kill, read_preference=preference)
        except DRIVER_ERRORS as error:
            self._is_off = isinstance(error, OperationFailure) and error.code in _NEVER
            emit(UnattendedFailed("end abandoned reads", error))
