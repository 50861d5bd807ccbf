"""What the connections of one process share, and what the workers of an instance count together."""

from __future__ import annotations

from collections.abc import MutableSequence

from uvicorn.server import ServerState

from docgraph.server.http.before.refuse import Refusals
from docgraph.server.settings import Limits

__all__ = ["ProcessState"]


class ProcessState(ServerState):
    """uvicorn's shared state, with our limits and the count of connections.

    `counts` has one cell per worker, each written by its own worker only: no lock is needed, and
    the sum is the number of connections of the instance.
    """

    def __init__(
        self, limits: Limits, refusals: Refusals, counts: MutableSequence[int], worker: int
    ) -> None:
        super().__init__()
        self.limits = limits
        self.refusals = refusals
        self._counts = counts
        self._worker = worker

    def count_connections(self) -> int:
        """Note how many connections this process has; returns those of the instance."""
        self._counts[self._worker] = len(self.connections)
        return sum(self._counts)
