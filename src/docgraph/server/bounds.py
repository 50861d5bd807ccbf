"""The time of a request: when it has to be over, and how long it may wait."""

from __future__ import annotations

import time
from math import inf

from docgraph.exchange import Exchange
from docgraph.exchange.deadline import Deadline, Patience
from docgraph.exchange.errors import StoreUnavailable
from docgraph.runtime.patrol import Patrol, Watched
from docgraph.server.routes import Route

__all__ = ["Bounds"]

_GRACE = 0.1  # seconds: the store ends a look-up in time by itself, and its connection stays


class Bounds:
    """Both count from the arrival of a request on; 0 for the waiting means that it has no end."""

    def __init__(self, wait_timeout_ms: int) -> None:
        self._patience = wait_timeout_ms / 1000 if wait_timeout_ms > 0 else inf
        self._patrol = Patrol()

    def close(self) -> None:
        """End nothing any more."""
        self._patrol.close()

    def find_deadline(self, exchange: Exchange, route: Route | None) -> Deadline:
        """What its service says, and what is left of its patience."""
        spent = time.perf_counter() - exchange.started
        patience = Patience(self._patience - spent)
        limit = route.service.time_limit_ms(exchange) if route is not None else 0
        if limit <= 0:
            return Deadline(patience=patience)
        return Deadline(time.monotonic() - spent + limit / 1000, limit, patience=patience)

    def examining(self, exchange: Exchange) -> Watched:
        """Around looking for users and rules, which is waiting, and counts in the time limit."""
        deadline = exchange.deadline
        until = inf if deadline.at is None else deadline.at
        if deadline.patience is not None:
            until = min(until, time.monotonic() + deadline.patience.left)
        return _Examination(self._patrol, until + _GRACE, deadline)


class _Examination(Watched):
    """Says what has come to its end."""

    __slots__ = ("_deadline",)

    def __init__(self, patrol: Patrol, until: float, deadline: Deadline) -> None:
        super().__init__(patrol, until)
        self._deadline = deadline

    def late(self) -> Exception:
        """Whose end it was."""
        if self._deadline.is_within(0):
            return self._deadline.exceeded()
        return StoreUnavailable("who may do this could not be found out in time")
