"""Live query of one client: runs again when its answer may have changed, and offers the newest one.

Changes that come while a run waits or is in progress are merged into one further run. The client
reads at its own pace: an answer that it has not read is replaced by a newer one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from math import inf
from time import monotonic
from typing import Final, NamedTuple

from docgraph.exchange import DocgraphError
from docgraph.exchange.close_reason import (
    FAILED,
    GONE,
    NOT_ALLOWED,
    NOT_KNOWN,
    CloseReason,
    StreamClosed,
)
from docgraph.exchange.errors import (
    Forbidden,
    NotFound,
    Overloaded,
    SecurityViolation,
    StoreError,
    StoreForbidden,
    StoreRejected,
    TooManyRequests,
    Unauthenticated,
)
from docgraph.graphql.live.run_schedule import SHARED_COST, RunSchedule
from docgraph.graphql.live.shared_answers import LiveAnswer, SharedAnswer
from docgraph.observe import emit
from docgraph.observe.engine_events import LiveQueryRun
from docgraph.observe.events import UnattendedFailed
from docgraph.runtime.backoff import GrowingPauses

_PAUSE: Final = 0.5  # seconds before another attempt, doubled …
_LONGEST_PAUSE: Final = 60.0  # … up to this


_PASSING: Final = (TooManyRequests, StoreError, Overloaded)
_REFUSING: Final = (SecurityViolation, StoreForbidden, StoreRejected)


class Worked(NamedTuple):
    """The result of a run; `is_own`: the answer was executed for this query, not for another."""

    answer: LiveAnswer
    is_own: bool = True


RunLiveQuery = Callable[["LiveQuery"], Awaitable[Worked]]


@dataclass(eq=False)
class LiveQuery:
    """A live query; `work` authorizes its request again and returns the current answer."""

    user: str
    _work: RunLiveQuery
    _schedule: RunSchedule
    _interval: float
    clock: Callable[[], float] = field(default=monotonic, kw_only=True)
    shared: SharedAnswer | None = None
    ending: CloseReason | None = None
    error: DocgraphError | None = None  # what ended it, if it was an error
    on_news: Callable[[], object] | None = None
    _digest: bytes = b""
    _newest: bytes | None = None
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _is_changed: bool = False
    _is_busy: bool = False
    _ran_at: float = -inf
    _paused_until: float = -inf
    _timer: asyncio.TimerHandle | None = None  # of the next run
    _retry: asyncio.TimerHandle | None = None  # of an answer with errors

    def __post_init__(self) -> None:
        self._pauses = GrowingPauses(_PAUSE, _LONGEST_PAUSE, least=1)

    def begin(self, answer: LiveAnswer) -> None:
        self._ran_at = self.clock()
        self._receive(answer)

    def mark_changed(self) -> None:
        """Run again, as soon as the interval and the schedule allow it."""
        if self.ending is None:
            self._is_changed = True
            self._plan()

    async def read(self) -> bytes:
        """Return the newest answer that was not read yet; raise `StreamClosed` at the end."""
        while True:
            content = self.pop()
            if content is not None:
                return content
            if self.ending is not None:
                raise StreamClosed(self.ending)
            self._news.clear()
            await self._news.wait()

    def pop(self) -> bytes | None:
        """Return the newest answer if it was not read yet."""
        content, self._newest = self._newest, None
        return content

    def end(self, ending: CloseReason) -> None:
        """End the query, with the reason; it does not run again."""
        if self.ending is not None:
            return
        self.ending = ending
        for timer in (self._timer, self._retry):
            if timer is not None:
                timer.cancel()
        self._schedule.remove(self)
        self._notify()

    async def run(self) -> float:
        """Run once, and offer the answer; return the cost."""
        self._is_changed = False
        self._ran_at = self.clock()
        try:
            cost = await self._run()
        finally:
            self._is_busy = False
        if self._is_changed:
            self._plan()
        return cost

    async def _run(self) -> float:
        if self.ending is not None:
            return 0.0
        try:
            worked = await self._work(self)
        except Exception as error:
            self._fail(error)
            is_limited = isinstance(error, TooManyRequests)
            emit(LiveQueryRun("limited" if is_limited else "failed"))
            return 0.0 if is_limited else 1.0
        outcome = "sent" if self._receive(worked.answer) else "unchanged"
        emit(LiveQueryRun(outcome, "own" if worked.is_own else "shared"))
        return 1.0 if worked.is_own else SHARED_COST

    def _fail(self, error: Exception) -> None:
        """Try again later if that can help; else end the query."""
        is_passing = isinstance(error, _PASSING) and not isinstance(error, _REFUSING)
        if is_passing:
            limit = find_retry_after(error) if isinstance(error, TooManyRequests) else 0.0
            self._paused_until = self.clock() + max(next(self._pauses), limit)
            self._is_changed = True
        elif isinstance(error, DocgraphError):
            self.error = error
            self.end(find_ending(error))
        else:
            emit(UnattendedFailed("a run of a live query", error))
            self.end(FAILED)

    def _receive(self, answer: LiveAnswer) -> bool:
        """Offer an answer if it differs from the previous one; return whether it does.

        An answer with errors is executed again later: no change event shows that an error is over.
        """
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if not answer.is_lasting:
            loop = asyncio.get_running_loop()
            self._retry = loop.call_later(next(self._pauses), self.mark_changed)
        else:
            self._pauses.reset()
        if answer.digest == self._digest:
            return False
        self._digest, self._newest = answer.digest, answer.content
        self._notify()
        return True

    def _notify(self) -> None:
        self._news.set()
        if self.on_news is not None:
            self.on_news()

    def _plan(self) -> None:
        """Enqueue the next run, now or when the interval has passed."""
        if self._is_busy or self.ending is not None:
            return
        self._is_busy = True
        delay = max(self._ran_at + self._interval, self._paused_until) - self.clock()
        if delay > 0:
            self._timer = asyncio.get_running_loop().call_later(delay, self._enqueue)
        else:
            self._enqueue()

    def _enqueue(self) -> None:
        self._timer = None
        self._schedule.add(self)


def find_ending(error: DocgraphError) -> CloseReason:
    """Return the close reason of a query that is rejected when it runs again."""
    match error:
        case Unauthenticated():
            return NOT_KNOWN
        case Forbidden():
            return NOT_ALLOWED
        case NotFound():
            return GONE
    return FAILED


def find_retry_after(error: DocgraphError) -> float:
    """Return the seconds after which a rate limit admits the next request."""
    values = [value for name, value in error.headers if name.lower() == "retry-after"]
    return float(values[0]) if values and values[0].isdigit() else 0.0
