"""Budgets of a process: bytes of the event logs, and slots for different filters and shapes.

A log retains events that its clients have read, for those who come back. With thousands of logs
that would be much: beyond the budget such events are dropped first, then the clients that are
furthest behind are closed.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from docgraph.events.encoded_event import EncodedEvent
from docgraph.exchange.errors import Overloaded


class _Log(Protocol):
    @property
    def size(self) -> int: ...

    def drop_read(self) -> None: ...

    def drop_slowest(self) -> None: ...


class LogBudget:
    """Counts the retained events once, however many logs retain them."""

    def __init__(self, most_bytes: int | None = None) -> None:
        self.size = 0
        self._most = most_bytes
        self._logs: dict[_Log, None] = {}  # that retain events, the one with the oldest news first

    def add(self, log: _Log, notices: Iterable[EncodedEvent]) -> None:
        """Count the events that a log has published."""
        self._logs.pop(log, None)
        self._logs[log] = None
        for notice in notices:
            notice.holders += 1
            if notice.holders == 1:
                self.size += notice.size

    def remove(self, log: _Log, notice: EncodedEvent) -> None:
        """Count an event that a log has dropped."""
        notice.holders -= 1
        if not notice.holders:
            self.size -= notice.size
        if not log.size:
            self.forget(log)

    def forget(self, log: _Log) -> None:
        """Forget a log that retains nothing, or has ended."""
        self._logs.pop(log, None)

    @property
    def is_exceeded(self) -> bool:
        """Whether the logs retain more than they may."""
        return self._most is not None and self.size > self._most

    def enforce(self) -> None:
        """Drop what all clients of a log have read; then end the clients furthest behind."""
        for log in list(self._logs) if self.is_exceeded else ():
            log.drop_read()
            if not self.is_exceeded:
                return
        while self.is_exceeded and self._logs:
            max(self._logs, key=lambda one: one.size).drop_slowest()


class FilterSlots:
    """Counts the filters and shapes of this process about which the database decides."""

    def __init__(self, most: int) -> None:
        self.count = 0
        self._most = most

    def acquire(self) -> None:
        """Count one more; raise `Overloaded` if there are too many."""
        if self.count >= self._most:
            raise Overloaded(
                "too many different filters and stages of change streams need the database, "
                "events.max-filters bounds them"
            )
        self.count += 1

    def release(self) -> None:
        """Count one less."""
        self.count -= 1
