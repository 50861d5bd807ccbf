"""Deadline of a request and of each of its database commands (timeout).

A deadline is a value: when the work of a request must end, and how long it may still wait. It ends
nothing by itself. Three things do:

* `TimeoutWheel` (`runtime/timeouts.py`) for what every request needs, such as each of its commands:
  one timer for all, and an error of its own for each.
* `asyncio.timeout` for everything else in one task: rare waits with a fixed bound.
* `pymongo.timeout` for writes, transactions and `killOp`: only the driver can divide the time among
  its retries, and it sends `maxTimeMS`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf
from typing import NamedTuple, Protocol

from docgraph.exchange.errors import TimeLimitExceeded


def keep_place() -> None:
    """Do nothing: work without a connection occupies no place in the admission queue."""


class AnswerMemory(Protocol):
    """The memory that the answer to a request may use."""

    size: int

    async def acquire(
        self, size: int, longest: float | None, on_wait: Callable[[], None] = keep_place
    ) -> None:
        """Hold so many bytes more, after a wait of at most `longest` seconds."""

    def shrink(self, size: int) -> None:
        """Hold at most so many bytes."""


@dataclass(slots=True, eq=False)
class Patience:
    """How many seconds a request may still wait: for its turn, for a server and so on.

    Time in which work is done for the request does not count. `leave_queue` releases its place
    among the requests in flight, for a wait that is bounded in another way; `has_begun`: the
    database has worked for it. `open_memory` opens the `memory` of its answer when that is needed.
    """

    left: float
    leave_queue: Callable[[], None] = keep_place
    has_begun: bool = False
    memory: AnswerMemory | None = None  # None: it holds nothing
    open_memory: Callable[[], AnswerMemory] | None = None  # None: it is not counted


class Deadline(NamedTuple):
    """`at` is a time of `time.monotonic`; None: no deadline of its own.

    `patience` is that of the request, if it has one.
    """

    at: float | None = None
    limit_ms: int = 0
    patience: Patience | None = None

    @classmethod
    def never(cls) -> Deadline:
        """Return a deadline with no end except the store's time limit for every command."""
        return cls()

    @classmethod
    def after_ms(cls, limit_ms: int) -> Deadline:
        """Return the deadline in `limit_ms` from now; 0 or less means no end."""
        if limit_ms <= 0:
            return cls()
        return cls(time.monotonic() + limit_ms / 1000, limit_ms)

    def without_end(self) -> Deadline:
        """Return a deadline with the same patience and no end."""
        return self if self.at is None else Deadline(patience=self.patience)

    def remaining(self) -> float | None:
        """Return the seconds left, or None without an end; raise when none are left."""
        if self.at is None:
            return None
        left = self.at - time.monotonic()
        if left <= 0:
            raise self.exceeded()
        return left

    def find_patience(self, longest: float | None) -> float | None:
        """Return how many seconds the request may wait now, at most `longest`; None: no limit."""
        ends = [] if longest is None else [longest]
        if self.patience is not None:
            ends.append(self.patience.left)
        if self.at is not None:
            ends.append(self.at - time.monotonic())
        left = max(0.0, min(ends, default=inf))
        return None if left == inf else left

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Deduct the time inside from the patience; waits of the same request may overlap."""
        patience, since = self.patience, time.monotonic()
        left = inf if patience is None else patience.left
        try:
            yield
        finally:
            if patience is not None:
                patience.left = min(patience.left, left - (time.monotonic() - since))

    async def acquire(self, size: int) -> None:
        """Wait until the answer to the request may use so many bytes more of memory."""
        patience = self.patience
        if patience is None:
            return
        if patience.memory is None:
            if patience.open_memory is None:
                return
            patience.memory = patience.open_memory()
        with self.waiting():
            await patience.memory.acquire(size, self.find_patience(None), patience.leave_queue)

    def release(self, size: int) -> None:
        """Return so many bytes of the memory of the request."""
        if size and self.patience is not None and self.patience.memory is not None:
            self.patience.memory.shrink(self.patience.memory.size - size)

    async def correct(self, held: int, needed: int) -> None:
        """Hold what turned out to be needed instead of what was expected."""
        if needed > held:
            await self.acquire(needed - held)
        else:
            self.release(held - needed)

    def exceeded(self) -> TimeLimitExceeded:
        """Return the error for a caller whose time is up."""
        return TimeLimitExceeded(f"maximum query time limit of {self.limit_ms}ms exceeded")

    def is_within(self, seconds: float) -> bool:
        """Return whether the deadline is within that many seconds, or has passed."""
        return self.at is not None and self.at - time.monotonic() < seconds
