"""Close reasons of streams: a WebSocket close code (RFC 6455 7.4) and a sentence.

Server-sent events have no close codes: their last event is named `close` and contains both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from time import monotonic
from typing import Final

import orjson

_MINUTE: Final = 60.0  # seconds for which messages of a client are counted


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


class MessageLimit:
    """Ends a client that sends too many messages; pings cost as much and count as well."""

    def __init__(
        self,
        most: int,
        end: Callable[[CloseReason], object],
        clock: Callable[[], float] = monotonic,
    ) -> None:
        self._end = end
        self._clock = clock
        self._arrivals: deque[float] = deque(maxlen=most)

    def __call__(self) -> tuple[int, str] | None:
        now, arrivals = self._clock(), self._arrivals
        if len(arrivals) == arrivals.maxlen and now - arrivals[0] < _MINUTE:
            self._end(TOO_MANY_MESSAGES)
            return TOO_MANY_MESSAGES.code, TOO_MANY_MESSAGES.reason
        arrivals.append(now)
        return None
