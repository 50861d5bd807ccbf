"""Queue between the task that reads a change stream and the one that delivers its events.

It is bounded in number and bytes: the reader waits while it is full, which is the backpressure on
the database.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final

from docgraph.events.change_record import ChangeRecord, ResumeToken

_MAX_RECORDS: Final = 2000
_MAX_BYTES: Final = 16 << 20
_PORTION: Final = 500  # records that are delivered together …
_PORTION_BYTES: Final = 8 << 20  # … unless their bytes are more than that


class RecordQueue:
    """The records that were read, and the token up to which everything was read."""

    def __init__(self) -> None:
        self.is_over = False
        self._records: deque[ChangeRecord] = deque()
        self._size = 0
        self._position: ResumeToken | None = None
        self._changed = asyncio.Event()
        self._has_room = asyncio.Event()

    async def put(self, record: ChangeRecord) -> None:
        """Append a record; wait while the queue is full."""
        self._records.append(record)
        self._size += record.size
        self._position = None
        self._changed.set()
        while len(self._records) >= _MAX_RECORDS or self._size >= _MAX_BYTES:
            self._has_room.clear()
            await self._has_room.wait()

    def advance(self, position: ResumeToken | None) -> None:
        """Record that everything up to this token was read."""
        if position is not None:
            self._position = position
            self._changed.set()

    def end(self) -> None:
        """Record that nothing follows."""
        self.is_over = True
        self._changed.set()

    async def read(self) -> tuple[list[ChangeRecord], ResumeToken | None]:
        """Wait for records; return a portion, and the token up to which everything was read.

        The portion is empty if only the token has changed, or nothing follows.
        """
        await self._changed.wait()
        portion: list[ChangeRecord] = []
        size = 0
        while self._records and len(portion) < _PORTION and size < _PORTION_BYTES:
            portion.append(self._records.popleft())
            size += portion[-1].size
        self._size -= size
        self._has_room.set()
        position = portion[-1].token if portion else None
        if not self._records:
            position, self._position = self._position or position, None
            if not self.is_over:
                self._changed.clear()
        return portion, position
