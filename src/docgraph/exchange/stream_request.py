"""Change stream requests: the subscription of a client, and the interface that serves it.

The REST API parses which stream is requested, and its permissions; `events` has the cursors and the
connections. The two do not import each other and share these values.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from docgraph.exchange.data import Document
from docgraph.exchange.exchange import Exchange
from docgraph.exchange.response import Answer


@dataclass(frozen=True, slots=True)
class NotifyWhen:
    """The events of a cursor that one client wants: `value` is at `path`, or in it."""

    path: tuple[str, ...]
    value: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """A stream as one client sees it, with the variables of the request and its permissions.

    `row` and `shown` are the `readFilter` and `projectResponse` of the permission. `images`: the
    database stores documents as they were before and after a change. `with_ids`: events have their
    resume token and their time. `constant`: conditions of the first stages that are the same in
    every request. `before`: events have the document before the change. `row` and `stages` contain
    marks in place of the current time (`@now`).
    """

    db: str
    collection: str
    uri: str
    stages: tuple[Document, ...]
    json_mode: str
    row: Mapping[str, Any] | None = None
    shown: Mapping[str, int] | None = None
    images: bool = False
    with_ids: bool = False
    notify_when: NotifyWhen | None = None
    constant: tuple[Document, ...] = ()
    before: bool = False


# Returns the subscription that the same request would get now; raises its rejection.
Renew = Callable[[], Awaitable[Subscription]]


class WatchedIsGone(Exception):
    """Raised when the collection no longer exists: the stream itself reports it, and ends."""


class Snapshot(Protocol):
    """The documents that a client gets before the events, all at one cluster time."""

    async def open(self) -> Any:
        """Find the documents; return their cluster time. Raise if there are too many."""
        ...

    async def read(self, count: int) -> list[Document] | None:
        """Return the next documents, about so many; None when all were read."""
        ...


class EventStreams(Protocol):
    """The owner of the cursors and connections."""

    async def answer(
        self,
        exchange: Exchange,
        subscription: Subscription,
        renew: Renew,
        snapshot: Snapshot | None = None,
    ) -> Answer:
        """Open a WebSocket or server-sent events; raise the error that rejects the request."""
        ...
