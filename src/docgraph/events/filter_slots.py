"""Filter slots: how many different filters and shapes of streams may use the database."""

from __future__ import annotations

from docgraph.exchange.errors import Overloaded


class FilterSlots:
    """Counts the filters and shapes of this process about which the database decides."""

    def __init__(self, most: int) -> None:
        self.count = 0
        self._most = most

    def acquire(self) -> None:
        """Count one more; raise `Overloaded` if there are too many."""
        if self.count >= self._most:
            raise Overloaded(
                "too many different filters and stages of change streams need the database, "
                "events.max-filters bounds them"
            )
        self.count += 1

    def release(self) -> None:
        """Count one less."""
        self.count -= 1
