"""Change events encoded and framed once for all clients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from docgraph.codec import JsonMode, encode
from docgraph.exchange import Document, NotifyWhen, SharedMessages, Subscription
from docgraph.store.guard.event_ids import hides_ids

__all__ = ["EncodedEvent", "build_notice", "read_token"]

_PARTS: Final = ("fullDocument", "documentKey", "updateDescription", "operationType")
_IDENTITY: Final = ("_id", "clusterTime")
_DESCRIPTION: Final = "updateDescription"
_TRUNCATED: Final = "truncatedArrays"


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
            self._chunk = b"%sevent:change\ndata:%s\n\n" % (line, self.message.contents[0])
        return self._chunk

    def find_lag(self) -> float | None:
        """Return the seconds since the event happened by the clock of the database, if known."""
        if self.happened_at is None:
            return None
        return max((datetime.now(UTC) - self.happened_at).total_seconds(), 0.0)

    def concerns(self, condition: NotifyWhen | None) -> bool:
        """Return whether a client with this condition receives the event."""
        if condition is None:
            return True
        found: Any = self.event
        for name in condition.path:
            found = found.get(name) if isinstance(found, dict) else None
        return found == condition.value or (isinstance(found, list) and condition.value in found)


def build_notice(event: Document, subscription: Subscription) -> EncodedEvent:
    """Build the JSON of a change event in the format that the subscription requests."""
    is_secret = hides_ids(subscription.shown)
    parts = (*_IDENTITY[is_secret:], *_PARTS) if subscription.with_ids else _PARTS
    told = {part: event[part] for part in parts if part in event}
    if _IDENTITY[0] in told:
        told[_IDENTITY[0]] = render_id(event["_id"])
    description = told.get(_DESCRIPTION)
    if isinstance(description, dict) and not description.get(_TRUNCATED):
        told[_DESCRIPTION] = {key: one for key, one in description.items() if key != _TRUNCATED}
    content = encode(told, JsonMode(subscription.json_mode))
    token = event["_id"]
    id = b"" if is_secret else encode(render_id(token), JsonMode.STANDARD)
    return EncodedEvent(read_token(token), told, SharedMessages((content,)), _find_time(event), id)


def render_id(token: Mapping[str, Any]) -> Document:
    """Return the form of a resume token for clients: one text that holds all of it.

    The types of the numbers in the token follow a point, if the database needs them.
    """
    types = token.get("_typeBits")
    return {"_data": f"{token['_data']}.{bytes(types).hex().upper()}" if types else token["_data"]}


def read_token(token: Mapping[str, Any] | None) -> str:
    """Return the text of a resume token; without a token, the empty text, which sorts first."""
    return str(token["_data"]) if token else ""


def _find_time(event: Document) -> datetime | None:
    """Return when the event happened by the clock of the database, if the stages include it."""
    time = event.get("wallTime")
    if not isinstance(time, datetime):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
