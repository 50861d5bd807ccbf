"""Why a stream ends for a client: a code of WebSocket (RFC 6455 7.4) and a sentence.

Server-sent events have no codes: their last event is called `close` and has both.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson

__all__ = [
    "CHANGED",
    "FAILED",
    "GONE",
    "HISTORY_LOST",
    "LEFT",
    "MOVED",
    "NOT_ALLOWED",
    "NOT_KNOWN",
    "OTHER_RIGHTS",
    "TOO_MANY_MESSAGES",
    "TOO_SLOW",
    "Ended",
    "Ending",
]


@dataclass(frozen=True, slots=True)
class Ending:
    """What the client is told; `word` is for metrics."""

    code: int
    reason: str
    word: str

    @property
    def chunk(self) -> bytes:
        """The last of its server-sent events."""
        told = orjson.dumps({"code": self.code, "reason": self.reason})
        return b"event:close\ndata:%s\n\n" % told


class Ended(Exception):
    """Raised where a client waits for events that will not come."""

    def __init__(self, ending: Ending) -> None:
        super().__init__(ending.reason)
        self.ending = ending


LEFT = Ending(1000, "", "left")
MOVED = Ending(1000, "", "moved")  # of a cursor only: the client goes on with another one
TOO_SLOW = Ending(1013, "too slow: events that were not read are gone", "slow")
TOO_MANY_MESSAGES = Ending(1008, "too many messages, this stream takes none", "messages")
NOT_KNOWN = Ending(1008, "the credentials are no longer valid", "credentials")
NOT_ALLOWED = Ending(1008, "this is no longer allowed", "rights")
OTHER_RIGHTS = Ending(1008, "the rights have changed, connect again", "rights")
CHANGED = Ending(4000, "the stream was changed, connect again", "changed")
GONE = Ending(4001, "the stream or its collection is gone", "gone")
HISTORY_LOST = Ending(4002, "events were lost, connect again and read everything anew", "history")
FAILED = Ending(1011, "the stream failed, the log of the server has the reason", "failed")
