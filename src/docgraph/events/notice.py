"""An event as clients get it, encoded and framed once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from docgraph.codec import JsonMode, encode
from docgraph.exchange import Document, NotifyWhen, Prepared, Subscription
from docgraph.store.guard.event_ids import hides_ids

__all__ = ["Notice", "build_notice", "read_token"]

_PARTS: Final = ("fullDocument", "documentKey", "updateDescription", "operationType")
_IDENTITY: Final = ("_id", "clusterTime")
_DESCRIPTION: Final = "updateDescription"
_TRUNCATED: Final = "truncatedArrays"


@dataclass(slots=True)
class Notice:
    """One event; `token` says where to go on after it, and sorts as events do.

    It holds the `_id` of the document, and `id`, as clients get it, also the type of one that is a
    number. Where those are secret there is no `id`, and clients cannot resume.
    """

    token: str
    event: Document
    message: Prepared
    happened_at: datetime | None = None
    id: bytes = b""
    _chunk: bytes = b""

    @property
    def size(self) -> int:
        """The bytes of its JSON."""
        return self.message.size

    @property
    def chunk(self) -> bytes:
        """The event in the form of server-sent events."""
        if not self._chunk:
            line = b"id:%s\n" % self.id if self.id else b""
            self._chunk = b"%sevent:change\ndata:%s\n\n" % (line, self.message.contents[0])
        return self._chunk

    def find_lag(self) -> float | None:
        """Seconds since it happened, by the clock of the database, where that is known."""
        if self.happened_at is None:
            return None
        return max((datetime.now(UTC) - self.happened_at).total_seconds(), 0.0)

    def concerns(self, condition: NotifyWhen | None) -> bool:
        """Whether a client with this condition wants it."""
        if condition is None:
            return True
        found: Any = self.event
        for name in condition.path:
            found = found.get(name) if isinstance(found, dict) else None
        return found == condition.value or (isinstance(found, list) and condition.value in found)


def build_notice(event: Document, subscription: Subscription) -> Notice:
    """What of a change event is told, in the JSON that the subscription asks for."""
    is_secret = hides_ids(subscription.shown)
    parts = (*_IDENTITY[is_secret:], *_PARTS) if subscription.with_ids else _PARTS
    told = {part: event[part] for part in parts if part in event}
    description = told.get(_DESCRIPTION)
    if isinstance(description, dict) and not description.get(_TRUNCATED):
        told[_DESCRIPTION] = {key: one for key, one in description.items() if key != _TRUNCATED}
    content = encode(told, JsonMode(subscription.json_mode))
    token = event["_id"]
    id = b"" if is_secret else encode(token, JsonMode.STANDARD)
    return Notice(read_token(token), told, Prepared((content,)), _find_time(event), id)


def read_token(token: Mapping[str, Any] | None) -> str:
    """The text of a resume token; empty, before all others, where there is none yet."""
    return str(token["_data"]) if token else ""


def _find_time(event: Document) -> datetime | None:
    """When it happened, by the clock of the database, if the stages have left it there."""
    time = event.get("wallTime")
    if not isinstance(time, datetime):
        return None
    return time if time.tzinfo else time.replace(tzinfo=UTC)
