"""Close reasons of change streams: a WebSocket close code (RFC 6455 7.4) and a sentence.

Server-sent events have no close codes: their last event is named `close` and contains both.
"""

from __future__ import annotations

from dataclasses import dataclass

import orjson


@dataclass(frozen=True, slots=True)
class CloseReason:
    """The close code and text that the client receives; `word` is the label for metrics."""

    code: int
    reason: str
    word: str

    @property
    def chunk(self) -> bytes:
        """The last server-sent event of the stream."""
        told = orjson.dumps({"code": self.code, "reason": self.reason})
        return b"event:close\ndata:%s\n\n" % told


class StreamClosed(Exception):
    """Raised where a client waits for events of a stream that has ended."""

    def __init__(self, ending: CloseReason) -> None:
        super().__init__(ending.reason)
        self.ending = ending


LEFT = CloseReason(1000, "", "left")
STOPPED = CloseReason(1012, "the server stops, connect again", "stopped")
TOO_SLOW = CloseReason(1013, "too slow: unread events were dropped", "slow")
TOO_MANY_MESSAGES = CloseReason(1008, "too many messages, this stream takes none", "messages")
NOT_KNOWN = CloseReason(1008, "the credentials are no longer valid", "credentials")
NOT_ALLOWED = CloseReason(1008, "this is no longer allowed", "rights")
OTHER_RIGHTS = CloseReason(1008, "the rights have changed, connect again", "rights")
CHANGED = CloseReason(4000, "the stream was changed, connect again", "changed")
GONE = CloseReason(4001, "the stream or its collection no longer exists", "gone")
HISTORY_LOST = CloseReason(
    4002, "events were lost: connect again and read everything again", "history"
)
FAILED = CloseReason(1011, "the stream failed, the log of the server has the reason", "failed")
