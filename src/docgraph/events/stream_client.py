"""Change stream client: reads a snapshot or missed events, then the shared event log."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

from docgraph.codec import JsonMode, encode
from docgraph.codec.bson_types import Timestamp
from docgraph.events.audiences import Channel
from docgraph.events.encoded_event import EncodedEvent, Rendering, build_token, read_token
from docgraph.events.event_log import LogReader
from docgraph.exchange import DocgraphError, Document, NotifyWhen, SharedMessages, Snapshot
from docgraph.exchange.close_reason import TOO_SLOW, CloseReason, StreamClosed
from docgraph.exchange.errors import AnswerTooLarge, Overloaded, StoreUnavailable
from docgraph.runtime.backoff import GrowingPauses
from docgraph.store.change_stream import ResumeToken

_FIRST_PORTION: Final = 16  # documents; adapted to their size …
_MAX_PORTION: Final = 256  # … up to this
_SMALL: Final = 256 << 10  # bytes of a portion
_LARGE: Final = 1 << 20
_MAX_SECONDS: Final = 120.0  # the database stores the state of that time for five minutes
_WAIT_SECONDS: Final = 10.0  # before a client is rejected because others read, or it is too early
_FIRST_PAUSE: Final = 0.02  # seconds before it is read again because it was too early …
_LONGEST_PAUSE: Final = 0.5  # … growing up to this


@dataclass(eq=False)
class SnapshotReader:
    """Reads and encodes the documents of one client, before the events that follow them.

    The client has its position in the log first. The documents are read at a later cluster time,
    and events up to that time are left out: they are in the documents. So nothing is missing or
    sent twice. `reading` bounds concurrent reads.
    """

    _snapshot: Snapshot
    _rendering: Rendering
    _reading: asyncio.Semaphore
    _count: int = _FIRST_PORTION
    _time: Any = None
    _end_by: float = 0.0
    is_over: bool = False

    @property
    def is_late(self) -> bool:
        """Whether the client took so long that the state may no longer be stored."""
        return monotonic() > self._end_by

    async def open(self, earlier: str = "") -> str:
        """Find the documents; return the token after which the events follow them.

        It is not before the token `earlier`: events can arrive before the database reads at their
        time, after an election or when it is busy.
        """
        end_by = monotonic() + _WAIT_SECONDS
        for pause in GrowingPauses(_FIRST_PAUSE, _LONGEST_PAUSE):
            await self._find_documents()
            token = read_token(build_token(self._time))
            if token >= earlier:
                break
            if monotonic() > end_by:
                raise StoreUnavailable("the database cannot be read at this time yet, try again")
            await asyncio.sleep(pause)
        self._end_by = monotonic() + _MAX_SECONDS
        return token

    async def _find_documents(self) -> None:
        try:
            async with asyncio.timeout(_WAIT_SECONDS):
                await self._reading.acquire()
        except TimeoutError:
            raise Overloaded("too many snapshots of change streams are being read") from None
        try:
            self._time = await self._snapshot.open()
        finally:
            self._reading.release()

    async def read(self) -> list[EncodedEvent]:
        """Return a portion of the documents, which may be empty; the last one has the end."""
        try:
            async with self._reading:
                documents = await self._snapshot.read(self._count)
        except AnswerTooLarge:
            if self._count == 1:
                raise
            self._count = 1
            return []
        if documents is None:
            self.is_over = True
            return [self._build_end()]
        notices = [self._build(document) for document in documents]
        size = sum(notice.size for notice in notices)
        if size > _LARGE:
            self._count = max(1, self._count // 2)
        elif size < _SMALL:
            self._count = min(_MAX_PORTION, 2 * self._count)
        return notices

    def _build(self, document: Document) -> EncodedEvent:
        key = {"documentKey": {"_id": document["_id"]}} if "_id" in document else {}
        told: Document = {"fullDocument": document, **key, "operationType": "snapshot"}
        message = SharedMessages((encode(told, self._rendering.json_mode),))
        return EncodedEvent("", told, message, name=b"snapshot")

    def _build_end(self) -> EncodedEvent:
        """Build the end of the snapshot; its id is a time, and contains nothing of a document."""
        told: Document = {"operationType": "snapshot-end"}
        token, is_secret = build_token(self._time), self._rendering.hides_ids
        if self._rendering.with_ids:
            told = {**({} if is_secret else {"_id": token}), "clusterTime": self._time, **told}
        message = SharedMessages((encode(told, self._rendering.json_mode),))
        id = b"" if is_secret else encode(token, JsonMode.STANDARD)
        return EncodedEvent(read_token(token), told, message, id=id, name=b"snapshot-end")


_PAUSE: Final = 0.5  # seconds before another attempt to read past events


@dataclass(eq=False)
class Client:
    """Reads events in order, at its own pace. `past` bounds the concurrent reads of past events."""

    _channel: Channel
    _condition: NotifyWhen | None
    _token: ResumeToken | None  # the client has everything up to it; None: nothing was missed
    _past: asyncio.Semaphore
    ending: CloseReason | None = None
    on_end: Callable[[], object] | None = None
    # The id of the position where the client begins: a time, and nothing of a document. It is empty
    # if the client sent a token, and with a snapshot: until its end, a client that comes back has
    # to read it again.
    place: bytes = b""
    _portion: list[EncodedEvent] = field(default_factory=list)
    _reader: LogReader | None = None
    _offer: Callable[[SharedMessages], bool] | None = None
    _snapshot: SnapshotReader | None = None
    _has_left: bool = False

    async def begin(self) -> None:
        """Take a position in the log, so that no event is missed; reject an invalid token."""
        if self._token is None:
            self._begin_now()
            return
        resumed = read_token(self._token)
        is_known = self._channel.log.has(resumed) or resumed == self._channel.position
        if not is_known:  # it may be made up: the database decides
            await self._read_past(self._token)
        self._join_others()

    def begin_after(self, time: Timestamp | None) -> None:
        """Take the position after a time: the shared log may still receive earlier events."""
        if time is None:
            self._begin_now()
            return
        self._token = build_token(time)
        self.place = encode(self._token, JsonMode.STANDARD)
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
        log, resumed = self._channel.log, read_token(self._token)
        if resumed >= log.floor:
            self._reader = log.add_reader(self._condition, after=resumed, on_lag=self.end)
            self._reader.offer = self._offer
