"""Change streams: what a client wants to be told of, and who tells it.

The REST API reads which stream is asked for, and under which rights; `events` keeps the cursors and
the connections. They do not know each other and meet in these values.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from docgraph.exchange.data import Document
from docgraph.exchange.exchange import Exchange
from docgraph.exchange.response import Answer

__all__ = ["EventStreams", "NotifyWhen", "Renew", "Subscription", "WatchedIsGone"]


@dataclass(frozen=True, slots=True)
class NotifyWhen:
    """Of all events of a cursor, those that one client wants: `value` is at `path`, or in it."""

    path: tuple[str, ...]
    value: str


@dataclass(frozen=True, slots=True)
class Subscription:
    """A stream as one client sees it: with the variables of the request and the caller's rights.

    `row` and `shown` are the `readFilter` and `projectResponse` of the permission; `images`: the
    database keeps documents as they were before and after a change. `with_ids`: events carry their
    resume token and their time. `is_momentary`: the time is in `row`, so that it does not stay as
    it is.
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
    is_momentary: bool = False


# The subscription that the same request would get now; raises what would refuse it.
Renew = Callable[[], Awaitable[Subscription]]


class WatchedIsGone(Exception):
    """There is nothing to renew: the stream itself tells of the end of its collection, and ends."""


class EventStreams(Protocol):
    """Whoever keeps the cursors and the connections."""

    async def answer(self, exchange: Exchange, subscription: Subscription, renew: Renew) -> Answer:
        """A WebSocket or server-sent events, as the request asks; raises what refuses it."""
        ...
