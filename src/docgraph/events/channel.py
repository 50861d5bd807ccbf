"""Channels: what listeners with the same permissions, stages and format read from."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from docgraph.events.audiences import Audience
from docgraph.events.change_record import ResumeToken
from docgraph.events.encoded_event import EncodedEvent, Rendering
from docgraph.events.event_log import EventLog
from docgraph.events.event_shapes import EventShape
from docgraph.exchange import Subscription
from docgraph.exchange.close_reason import FAILED, HISTORY_LOST, CloseReason
from docgraph.exchange.errors import ResumePointLost
from docgraph.observe import emit
from docgraph.observe.stream_events import StreamFailed

Portion = tuple[list[EncodedEvent], ResumeToken]


class _Source(Protocol):
    @property
    def position(self) -> str: ...

    def flush(self, channel: Channel) -> None: ...

    def release(self, channel: Channel) -> None: ...

    def read_portion(self, channel: Channel, token: ResumeToken) -> Awaitable[Portion]: ...


class Channel:
    """An audience, a shape and a rendering; all its clients read from one log.

    Clients have everything up to `start`: the channel was opened after those events.
    """

    __slots__ = (
        "_source",
        "audience",
        "key",
        "log",
        "rendering",
        "shape",
        "start",
        "subscription",
        "users",
    )

    def __init__(
        self,
        source: _Source,
        key: bytes,
        subscription: Subscription,
        parts: tuple[Audience, EventShape, Rendering],
        log: EventLog,
    ) -> None:
        self.users = 0
        self.key = key
        self.subscription = subscription
        self.audience, self.shape, self.rendering = parts
        self.log = log
        self.start = log.floor
        self._source = source

    @property
    def position(self) -> str:
        """The token up to which all events are published, or published by the next `flush`."""
        return max(self._source.position, self.start)

    def append(self, notice: EncodedEvent) -> None:
        """Append an event to the log, unless it happened before the channel was opened."""
        if notice.token > self.start:
            self.log.append(notice)

    def flush(self) -> None:
        """Publish the pending events to clients immediately."""
        self._source.flush(self)

    def release(self) -> None:
        """Count one client less."""
        self.users -= 1
        self._source.release(self)

    async def read_portion(self, token: ResumeToken) -> Portion:
        """Return a bounded portion of the events after the token, and the token where it ends."""
        return await self._source.read_portion(self, token)

    def find_ending(self, error: Exception) -> CloseReason:
        """Return the close reason for an error that ends the stream; the error itself is logged."""
        asked = self.subscription
        emit(StreamFailed(asked.db, asked.collection, asked.uri, error))
        return HISTORY_LOST if isinstance(error, ResumePointLost) else FAILED

    def fail(self, error: Exception) -> None:
        """End the channel for all its clients because of an error."""
        if self.log.ending is None:
            self.log.end(self.find_ending(error))
