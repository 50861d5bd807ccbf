"""Change records: events of the database as a source reads them, and how readers may see them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import Any, Final

from docgraph.exchange import Document
from docgraph.store.change_stream import RawEvent, ResumeToken, decode_token
from docgraph.store.driver.malformed import reading_reply
from docgraph.store.exact import decode_exactly
from docgraph.store.guard.event_stages import AFTER, BEFORE

DecodeEvent = Callable[[RawEvent], Document]

_UPDATE: Final = "updateDescription"
_NEVER: Final = frozenset({"to", BEFORE})  # the new name of a renamed collection is another's


class EventVisibility(Enum):
    """How a reader sees an event: the state of the document that its row filter admits."""

    WHOLE = auto()  # before and after the change, or there is no row filter
    FOUND = auto()  # as it is now; the state before is not known
    ENTERED = auto()  # only after it: an insertion
    LEFT = auto()  # only before it: a deletion


_HIDDEN: Final = {
    EventVisibility.WHOLE: _NEVER,
    EventVisibility.FOUND: _NEVER | {_UPDATE},
    EventVisibility.ENTERED: _NEVER | {_UPDATE},
    EventVisibility.LEFT: _NEVER | {_UPDATE, AFTER},
}
_SHOWING_BEFORE: Final = frozenset({EventVisibility.WHOLE, EventVisibility.LEFT})
_KINDS: Final = {EventVisibility.ENTERED: "insert", EventVisibility.LEFT: "delete"}


@dataclass(eq=False, slots=True)
class ChangeRecord:
    """One event, decoded when it is needed; `position` is its token as text."""

    raw: RawEvent
    _decode: DecodeEvent
    token: ResumeToken = field(init=False)
    position: str = field(init=False)
    kind: str = field(init=False)
    size: int = field(init=False)
    _decoded: Document | None = None
    _is_exact: bool | None = None
    _images: dict[str, Document | None] = field(default_factory=dict)
    _shown: dict[tuple[EventVisibility, bool], Document] = field(default_factory=dict)

    def __post_init__(self) -> None:
        with reading_reply():
            self.token = decode_token(self.raw)
            self.position = str(self.token["_data"])
            self.kind = str(self.raw["operationType"])
        self.size = len(self.raw.raw)

    @property
    def decoded(self) -> Document:
        if self._decoded is None:
            self._decoded = self._decode(self.raw)
        return self._decoded

    @property
    def is_exact(self) -> bool:
        """Whether the decoded event is the stored one; else only the database can compare it."""
        if self._is_exact is None:
            exact = decode_exactly(bytes(self.raw.raw))
            self._is_exact = exact is not None
            self._decoded = self._decoded or exact
        return self._is_exact

    def has_image(self, part: str) -> bool:
        """Return whether the document before or after the change is known."""
        return isinstance(self.raw.get(part), Mapping)

    def find_image(self, part: str) -> Document | None:
        """Return the document before or after the change, if it can be compared in memory."""
        if part not in self._images:
            image: Any = self.raw.get(part)
            self._images[part] = (
                decode_exactly(bytes(image.raw)) if isinstance(image, RawEvent) else None
            )
        return self._images[part]

    def show(self, visibility: EventVisibility, *, before: bool = False) -> Document:
        """Return the decoded event as readers see it; `before`: they request the image before."""
        shown = self._shown.get((visibility, before))
        if shown is None:
            shown = _show(self.decoded, visibility, before=before)
            self._shown[visibility, before] = shown
        return shown

    def show_raw(self, visibility: EventVisibility, *, before: bool = False) -> Document:
        """Return the same event with its documents as the database sent them."""
        return _show(self.raw, visibility, before=before)


def _show(event: Mapping[str, Any], visibility: EventVisibility, *, before: bool) -> Document:
    hidden = _HIDDEN[visibility]
    if before and visibility in _SHOWING_BEFORE:
        hidden -= {BEFORE}
    shown = {key: value for key, value in event.items() if key not in hidden}
    if visibility in _KINDS:
        shown["operationType"] = _KINDS[visibility]
    return shown


_MAX_RECORDS: Final = 2000
_MAX_BYTES: Final = 16 << 20
_PORTION: Final = 500  # records that are delivered together …
_PORTION_BYTES: Final = 8 << 20  # … unless their bytes are more than that


class RecordQueue:
    """The records that were read, and the token up to which everything was read.

    It is between the task that reads a change stream and the one that delivers its events. It is
    bounded in number and bytes: the reader waits while it is full, which is the backpressure on the
    database.
    """

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
        """Mark the end: no record follows."""
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
