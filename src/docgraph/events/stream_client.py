"""Change stream client: reads missed events from the database, then the shared event log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from docgraph.codec import JsonMode, encode
from docgraph.codec.bson_types import Timestamp
from docgraph.events.change_record import ResumeToken
from docgraph.events.channel import Channel
from docgraph.events.close_reason import TOO_SLOW, CloseReason, StreamClosed
from docgraph.events.encoded_event import EncodedEvent, build_token, read_token
from docgraph.events.event_log import LogReader
from docgraph.events.stream_snapshot import SnapshotReader
from docgraph.exchange import DocgraphError, NotifyWhen, SharedMessages
from docgraph.exchange.errors import StoreUnavailable

_PAUSE: Final = 0.5  # seconds before another attempt to read past events


class Client:
    """Reads events in order, at its own pace. `past` bounds the concurrent reads of past events."""

    def __init__(
        self,
        channel: Channel,
        condition: NotifyWhen | None,
        token: ResumeToken | None,
        past: asyncio.Semaphore,
    ) -> None:
        self.ending: CloseReason | None = None
        self.on_end: Callable[[], object] | None = None
        self._channel = channel
        self._condition = condition
        self._token = token  # the client has everything up to it; None: nothing was missed
        self._past = past
        self._portion: list[EncodedEvent] = []
        self._reader: LogReader | None = None
        self._offer: Callable[[SharedMessages], bool] | None = None
        self._snapshot: SnapshotReader | None = None
        self._place = b""
        self._has_left = False

    async def begin(self) -> None:
        """Take a position in the log, so that no event is missed; reject an invalid token."""
        if self._token is None:
            self._begin_now()
            return
        known = read_token(self._token)
        is_known = self._channel.log.has(known) or known == self._channel.position
        if not is_known:  # it may be made up: the database decides
            await self._read_past(self._token)
        self._join_others()

    def begin_after(self, time: Timestamp | None) -> None:
        """Take the position after a time: the shared log may still receive earlier events."""
        if time is None:
            self._begin_now()
            return
        self._token = build_token(time)
        self._place = encode(self._token, JsonMode.STANDARD)
        self._join_others()

    def _begin_now(self) -> None:
        self._channel.flush()
        self._reader = self._channel.log.add_reader(self._condition, on_lag=self.end)

    async def begin_snapshot(self, snapshot: SnapshotReader) -> None:
        """Send documents before the events; events that are in the documents are left out."""
        reader = self._reader
        assert reader is not None  # noqa: S101 - without a token the client has a reader
        reader.known = await snapshot.open(reader.known)
        self._snapshot = snapshot

    @property
    def place(self) -> bytes:
        """The id of the position where the client begins: a time, and nothing of a document.

        It is empty if the client sent a token, and with a snapshot: until its end, a client that
        comes back has to read it again.
        """
        return self._place

    @property
    def is_up_to_date(self) -> bool:
        """Whether the past is read: from then on, a `read` that is cancelled loses no events."""
        return self._reader is not None and self._snapshot is None

    async def read(self) -> list[EncodedEvent]:
        """Return the next events, at least one; raise `StreamClosed` when there are no more."""
        while True:
            if self.ending is not None:
                raise StreamClosed(self.ending)
            if self._snapshot is not None:
                await self._read_snapshot(self._snapshot)
            portion, self._portion = self._portion, []
            wanted = [notice for notice in portion if notice.concerns(self._condition)]
            if wanted:
                return wanted
            if self.is_up_to_date and self._reader is not None:
                return await self._reader.read()
            if self._snapshot is None:
                await self._read_on()

    def pass_to(self, offer: Callable[[SharedMessages], bool]) -> None:
        """Pass events to `offer` while `read` waits; `read` returns the rejected ones."""
        self._offer = offer
        if self._reader is not None:
            self._reader.offer = offer

    def end(self, ending: CloseReason) -> None:
        """End the stream of this client and send it the reason."""
        if self.ending is None:
            self.ending = ending
            if self._reader is not None:
                self._reader.end(ending)
            if self.on_end is not None:
                self.on_end()

    def leave(self) -> None:
        """End the client after its connection is closed; a second call does nothing."""
        if self._has_left:
            return
        self._has_left = True
        if self._reader is not None:
            self._reader.leave()
        self._channel.release()

    async def _read_snapshot(self, snapshot: SnapshotReader) -> None:
        """Read more documents; pause during an outage of the database."""
        if snapshot.is_late:
            self.end(TOO_SLOW)
            return
        try:
            self._portion = await snapshot.read()
        except StoreUnavailable:
            await asyncio.sleep(_PAUSE)
        except DocgraphError as error:
            self.end(self._channel.find_ending(error))
        if snapshot.is_over:
            self._snapshot = None

    async def _read_on(self) -> None:
        """Read more of the past; pause during an outage of the database, like all clients."""
        assert self._token is not None  # noqa: S101 - else there is a reader
        try:
            await self._read_past(self._token)
        except StoreUnavailable:
            await asyncio.sleep(_PAUSE)
        except DocgraphError as error:
            self.end(self._channel.find_ending(error))
        else:
            self._join_others()

    async def _read_past(self, token: ResumeToken) -> None:
        async with self._past:
            self._portion, self._token = await self._channel.read_portion(token)

    def _join_others(self) -> None:
        """Switch to the shared log if it begins no later than this client's last event."""
        self._channel.flush()  # or unpublished events push out the events that it begins with
        log, known = self._channel.log, read_token(self._token)
        if known >= log.floor:
            self._reader = log.add_reader(self._condition, after=known, on_lag=self.end)
            self._reader.offer = self._offer
