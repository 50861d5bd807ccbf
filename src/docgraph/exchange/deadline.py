"""A point in time by which a request, and every database command of it, must be done."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

from docgraph.exchange.errors import TimeLimitExceeded

__all__ = ["Deadline", "Patience"]


@dataclass(slots=True, eq=False)
class Patience:
    """How many seconds a request may still spend in waiting: for its turn, for a server, ….

    What is being done for it meanwhile does not use it up.
    """

    left: float


class Deadline(NamedTuple):
    """`at` is on the clock of `time.monotonic`; None: no end of its own.

    `enforced`: whoever set it ends the work that is late himself, so that nobody below needs a
    timer of its own for that. `patience` is that of the request, where there is one.
    """

    at: float | None = None
    limit_ms: int = 0
    enforced: bool = False
    patience: Patience | None = None

    @classmethod
    def never(cls) -> Deadline:
        """No end but the ceilings that the store puts on every command."""
        return cls()

    @classmethod
    def after_ms(cls, limit_ms: int) -> Deadline:
        """Ends `limit_ms` from now; 0 or less means no end."""
        if limit_ms <= 0:
            return cls()
        return cls(time.monotonic() + limit_ms / 1000, limit_ms)

    def without_end(self) -> Deadline:
        """The same patience, and no end."""
        return self if self.at is None else Deadline(patience=self.patience)

    def remaining(self) -> float | None:
        """Seconds left, or None without an end. Raises when nothing is left."""
        if self.at is None:
            return None
        left = self.at - time.monotonic()
        if left <= 0:
            raise self.exceeded()
        return left

    def exceeded(self) -> TimeLimitExceeded:
        """What a caller hears whose time is up."""
        return TimeLimitExceeded(f"maximum query time limit of {self.limit_ms}ms exceeded")

    def is_within(self, seconds: float) -> bool:
        """Whether it comes within so many seconds, or has passed."""
        return self.at is not None and self.at - time.monotonic() < seconds
