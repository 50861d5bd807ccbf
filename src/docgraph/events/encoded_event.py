"""Change events encoded and framed once for all clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from docgraph.codec import JsonMode, encode
from docgraph.codec.bson_types import Timestamp
from docgraph.exchange import Document, NotifyWhen, SharedMessages

_PARTS: Final = ("fullDocument", "documentKey", "updateDescription", "operationType")
_TIME: Final = "clusterTime"
_DESCRIPTION: Final = "updateDescription"
_TRUNCATED: Final = "truncatedArrays"
_ERROR: Final = b"error"
_FOR_ALL: Final = frozenset({_ERROR, b"snapshot-end"})
_STAGE_FAILED: Final = {
    "code": "stage-failed",
    "message": "a stage of the stream failed on this event; correct the stages of the stream",
}


@dataclass(slots=True)
class EncodedEvent:
    """One change event; `token` is its resume token and sorts in the order of the events.

    The token includes the `_id` of the document. `id`, the form that clients receive, also includes
    the types of numbers in the `_id`. Where ids are hidden there is no `id`, and clients cannot
    resume.
    """

    token: str
    event: Document
    message: SharedMessages
    happened_at: datetime | None = None
    id: bytes = b""
    name: bytes = b"change"
    holders: int = 0  # logs that retain it
    _chunk: bytes = b""

    @property
    def size(self) -> int:
        """The size of its JSON in bytes."""
        return self.message.size

    @property
    def chunk(self) -> bytes:
        """The event in the format of server-sent events."""
        if not self._chunk:
            line = b"id:%s\n" % self.id if self.id else b""
            data = self.message.contents[0]
            self._chunk = b"%sevent:%s\ndata:%s\n\n" % (line, self.name, data)
        return self._chunk

    def find_lag(self) -> float | None:
        """Return the seconds since the event happened by the clock of the database, if known."""
        if self.happened_at is None:
            return None
        return max((datetime.now(UTC) - self.happened_at).total_seconds(), 0.0)

    def concerns(self, condition: NotifyWhen | None) -> bool:
        """Return whether a client with this condition receives the event."""
        if condition is None or self.name in _FOR_ALL:
            return True
        value: Any = self.event
        for name in condition.path:
            value = value.get(name) if isinstance(value, dict) else None
        return value == condition.value or (isinstance(value, list) and condition.value in value)


@dataclass(frozen=True, slots=True)
class Rendering:
    """How events are written: all clients with the same one get the same bytes.

    `hides_ids`: the client may not see the `_id` of documents, and so none of events.
    """

    json_mode: JsonMode
    with_ids: bool = False
    hides_ids: bool = False
    before: bool = False


def build_notice(event: Document, rendering: Rendering, token: Mapping[str, Any]) -> EncodedEvent:
    """Build the JSON of a change event; `token` is its resume token."""
    parts = ("fullDocumentBeforeChange", *_PARTS) if rendering.before else _PARTS
    told: Document = {part: event[part] for part in parts if part in event}
    description = told.get(_DESCRIPTION)
    if isinstance(description, dict) and not description.get(_TRUNCATED):
        told[_DESCRIPTION] = {key: part for key, part in description.items() if key != _TRUNCATED}
    notice = _encode(event, told, rendering, token)
    time = event.get("wallTime")  # by the clock of the database, if the stages include it
    if isinstance(time, datetime):
        notice.happened_at = time if time.tzinfo else time.replace(tzinfo=UTC)
    return notice


def build_error(event: Document, rendering: Rendering, token: Mapping[str, Any]) -> EncodedEvent:
    """Build the message that the stages of the stream failed on this event."""
    notice = _encode(event, {"error": _STAGE_FAILED}, rendering, token)
    notice.name = _ERROR
    return notice


def _encode(
    event: Document, told: Document, rendering: Rendering, token: Mapping[str, Any]
) -> EncodedEvent:
    if rendering.with_ids:
        ids = {} if rendering.hides_ids else {"_id": render_id(token)}
        times = {_TIME: event[_TIME]} if _TIME in event else {}
        told = {**ids, **times, **told}
    message = SharedMessages((encode(told, rendering.json_mode),))
    id = b"" if rendering.hides_ids else encode(render_id(token), JsonMode.STANDARD)
    return EncodedEvent(read_token(token), told, message, id=id)


def render_id(token: Mapping[str, Any]) -> Document:
    """Return the form of a resume token for clients: one text that holds all of it.

    The types of the numbers in the token follow a point, if the database needs them.
    """
    types = token.get("_typeBits")
    return {"_data": f"{token['_data']}.{bytes(types).hex().upper()}" if types else token["_data"]}


def read_token(token: Mapping[str, Any] | None) -> str:
    """Return the text of a resume token; without a token, the empty text, which sorts first."""
    return str(token["_data"]) if token else ""


def build_token(time: Timestamp) -> dict[str, str]:
    """Return the resume token of the moment after a cluster time.

    It is the token that the database itself reports when there was no event: the time, the version
    of the format (1, which all servers accept) and the mark that it belongs to no event.
    """
    return {"_data": f"82{time.time:08X}{time.inc + 1:08X}2B0229296E04"}
