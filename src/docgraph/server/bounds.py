"""The time of a request: when it has to be over, and how long it may wait."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from math import inf

from docgraph.exchange import Exchange
from docgraph.exchange.deadline import Deadline, Patience
from docgraph.exchange.errors import Overloaded, StoreError, StoreUnavailable
from docgraph.runtime.patrol import Patrol, Watched
from docgraph.server.routes import Route

__all__ = ["Bounds"]

_BRIEFLY = 1.0  # seconds: what is told to everybody does not wait long for who asks
_GRACE = 0.1  # seconds: the store ends a look-up in time by itself, and its connection stays
_NEEDED = nullcontext()


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

    def asking_who(self, route: Route | None) -> AbstractContextManager[None]:
        """Around looking for the caller, which what is told to everybody can do without."""
        if route is None or not route.is_for_everybody:
            return _NEEDED
        return self._asking_briefly()

    @contextmanager
    def _asking_briefly(self) -> Iterator[None]:
        unknown = (StoreError, Overloaded, TimeoutError)
        with suppress(*unknown), self._patrol.until(time.monotonic() + _BRIEFLY):
            yield

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
