"""Snapshots: the documents of a collection for one client, then the events after them.

The client has its position in the log first. The documents are read at a later cluster time, and
events up to that time are left out: they are in the documents. So nothing is missing or sent twice.
"""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any, Final

from docgraph.codec import JsonMode, encode
from docgraph.events.encoded_event import EncodedEvent, Rendering, build_token, read_token
from docgraph.exchange import Document, SharedMessages, Snapshot
from docgraph.exchange.errors import AnswerTooLarge, Overloaded, StoreUnavailable
from docgraph.runtime.tasks import growing_pauses

_FIRST_PORTION: Final = 16  # documents; adapted to their size …
_MAX_PORTION: Final = 256  # … up to this
_SMALL: Final = 256 << 10  # bytes of a portion
_LARGE: Final = 1 << 20
_MAX_SECONDS: Final = 120.0  # the database stores the state of that time for five minutes
_WAIT_SECONDS: Final = 10.0  # before a client is rejected because others read, or it is too early
_FIRST_PAUSE: Final = 0.02  # seconds before it is read again because it was too early …
_LONGEST_PAUSE: Final = 0.5  # … growing up to this
_NAME: Final = b"snapshot"
_END: Final = b"snapshot-end"


class SnapshotReader:
    """Reads and encodes the documents of one client; `reading` bounds concurrent reads."""

    def __init__(
        self, snapshot: Snapshot, rendering: Rendering, reading: asyncio.Semaphore
    ) -> None:
        self._snapshot = snapshot
        self._rendering = rendering
        self._reading = reading
        self._count = _FIRST_PORTION
        self._time: Any = None
        self._end_by = 0.0
        self.is_over = False

    @property
    def is_late(self) -> bool:
        """Whether the client took so long that the state may no longer be stored."""
        return monotonic() > self._end_by

    async def open(self, known: str = "") -> str:
        """Find the documents; return the token after which the events follow them.

        It is not before the token `known`: events can arrive before the database reads at their
        time, after an election or when it is busy.
        """
        end_by = monotonic() + _WAIT_SECONDS
        for pause in growing_pauses(_FIRST_PAUSE, _LONGEST_PAUSE):
            await self._find_documents()
            token = read_token(build_token(self._time))
            if token >= known:
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
        return EncodedEvent("", told, message, name=_NAME)

    def _build_end(self) -> EncodedEvent:
        """Build the end of the snapshot; its id is a time, and contains nothing of a document."""
        told: Document = {"operationType": "snapshot-end"}
        token, is_secret = build_token(self._time), self._rendering.hides_ids
        if self._rendering.with_ids:
            told = {**({} if is_secret else {"_id": token}), "clusterTime": self._time, **told}
        message = SharedMessages((encode(told, self._rendering.json_mode),))
        id = b"" if is_secret else encode(token, JsonMode.STANDARD)
        return EncodedEvent(read_token(token), told, message, id=id, name=_END)
