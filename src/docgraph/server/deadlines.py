"""Request deadlines: when a request must end, and how long it may wait."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from math import inf
from typing import Any

from docgraph.exchange import Exchange
from docgraph.exchange.deadline import Deadline, Patience
from docgraph.exchange.errors import Overloaded, PoolExhausted, StoreError, StoreUnavailable
from docgraph.runtime.memory import AnswerBudget
from docgraph.runtime.timeouts import Timeout, TimeoutWheel, limit_waiting
from docgraph.server.routes import Route

_BRIEFLY = 1.0  # seconds: public responses do not wait long for authentication
_GRACE = 0.1  # seconds: the store ends a lookup in time by itself, and keeps its connection


class RequestDeadlines:
    """Time limit and waiting time of requests, both from their arrival; 0: no limit."""

    def __init__(
        self, wait_timeout_ms: int, was_pool_busy: Callable[[float], bool], memory: AnswerBudget
    ) -> None:
        self._memory = memory
        self._patience = wait_timeout_ms / 1000 if wait_timeout_ms > 0 else inf
        self._wheel = TimeoutWheel()
        self._was_pool_busy = was_pool_busy

    def close(self) -> None:
        self._wheel.close()

    def find_deadline(self, exchange: Exchange, route: Route | None) -> Deadline:
        """Return the deadline from the service's limit and what is left of the waiting time."""
        spent = time.perf_counter() - exchange.started
        patience = Patience(
            self._patience - spent, exchange.leave_queue, False, None, self._memory.open
        )
        limit = route.service.time_limit_ms(exchange) if route is not None else 0
        if limit <= 0:
            return Deadline(patience=patience)
        return Deadline(time.monotonic() - spent + limit / 1000, limit, patience=patience)

    async def limit_briefly(self, authentication: Coroutine[Any, Any, None]) -> None:
        """Limit the time of authentication on routes that answer the same to every caller."""
        with suppress(StoreError, Overloaded, TimeoutError):
            await limit_waiting(authentication, self._wait_briefly)

    def _wait_briefly(self) -> Timeout:
        return self._wheel.until(time.monotonic() + _BRIEFLY)

    def limit(
        self, exchange: Exchange, authorization: Coroutine[Any, Any, None]
    ) -> Awaitable[None]:
        """Return the authorization of a request, limited in time from its first wait on."""
        return limit_waiting(authorization, partial(self.limit_authorization, exchange))

    def limit_authorization(self, exchange: Exchange) -> Timeout:
        """Limit the time to look up users and rules by the waiting time and the time limit."""
        deadline = exchange.deadline
        until, now = inf if deadline.at is None else deadline.at, time.monotonic()
        if deadline.patience is not None:
            until = min(until, now + deadline.patience.left)
        was_busy = partial(self._was_pool_busy, now)
        return _Examination(self._wheel, until + _GRACE, deadline, was_busy)


class _Examination(Timeout):
    """A timeout that reports which limit has expired."""

    __slots__ = ("_deadline", "_was_pool_busy")

    def __init__(
        self,
        wheel: TimeoutWheel,
        until: float,
        deadline: Deadline,
        was_pool_busy: Callable[[], bool],
    ) -> None:
        super().__init__(wheel, until)
        self._deadline = deadline
        self._was_pool_busy = was_pool_busy

    def late(self) -> Exception:
        """Return the error of the limit that has expired."""
        if self._deadline.is_within(0):
            return self._deadline.exceeded()
        if self._was_pool_busy():
            return PoolExhausted()
        return StoreUnavailable("users and permissions could not be read in time")
