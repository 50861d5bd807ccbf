"""Timed commands: report duration, outcome and trace position of every database command."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Self

from docgraph.exchange.data import Document
from docgraph.exchange.errors import DocgraphError, PoolExhausted
from docgraph.observe import emit
from docgraph.observe.engine_events import CommandFinished
from docgraph.observe.tracing import find_command_place
from docgraph.store.driver.portions import RawTake, Take


class Observed:
    """Observes one command and reports its outcome.

    In a trace, the comment of the command has the trace position. Pass this `comment` to a command
    that is sent by a method of the driver; it is None without a trace. Readers set `documents`.
    """

    __slots__ = ("_command", "_db", "_place", "_started", "comment", "documents")

    def __init__(self, db: str, command: Document) -> None:
        self._db = db
        self._command = command
        self._place = place = find_command_place()
        if place is not None:
            given = command.get("comment") or {}
            members = given if isinstance(given, Mapping) else {"comment": given}  # from a plugin
            command["comment"] = {**members, "traceparent": place.traceparent}
        self.comment: Document | None = command.get("comment")
        self.documents: int | None = None
        self._started = time.perf_counter()

    def restart(self) -> None:
        """Begin to measure again: the command has waited for its turn, and is sent now."""
        self._started = time.perf_counter()

    def counting(self, take: Take) -> Take:
        """Return `take` with counting of the documents it receives."""

        async def count(documents: list[Document]) -> None:
            self.documents = (self.documents or 0) + len(documents)
            await take(documents)

        return RawTake.like(count, take)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, PoolExhausted):
            return  # it was never sent
        duration = time.perf_counter() - self._started
        name, collection = next(iter(self._command.items()))
        origin: Mapping[str, Any] = self.comment if type(self.comment) is dict else {}
        # `within` lets docgraph's errors and cancellations through.
        code = error.code if isinstance(error, DocgraphError) else "cancelled"
        emit(
            CommandFinished(
                name,
                self._db,
                collection if isinstance(collection, str) else "",  # 1 for `commitTransaction`
                duration,
                error is None,
                str(origin.get("request", "")),
                str(origin.get("app", "")),
                str(origin.get("operation", "")),
                str(origin.get("field", "")),
                "" if error is None else code,
                self.documents,
                self._place,
            )
        )
