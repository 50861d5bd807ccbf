"""The share of connections of one worker: new connections go to the worker with the fewest.

All workers wait at the same listening sockets, and a new connection wakes all of them. A worker
leaves it to the others while one of them has fewer connections. Each worker writes its number to
shared memory, so that neither a lock nor passing on a socket is needed. A worker whose event loop
does not run, or that accepts nothing, does not count: its share is accepted by the others.
"""

from __future__ import annotations

import time
from typing import Final

from docgraph.server.http.connection_limits import COUNT, ROW, TURN, Cells

_TENTHS: Final = 10  # a second; a cell of 32 bits then lasts for years since the machine started
_HANGS_AFTER: Final = 5  # tenths; an event loop writes its turn a few times a second
_SHED_PAUSE: Final = 0.02  # seconds between two connections that an overloaded worker ends


class ConnectionShare:
    """The connections of this worker, compared with those of the others."""

    def __init__(self, cells: Cells | None = None, worker: int = 0) -> None:
        self._cells = cells
        self._start = worker * ROW
        self.is_shared = cells is not None  # there are other workers
        self._count = 0
        self._next_shed = 0.0

    def add(self, by: int = 1) -> None:
        """Count a connection that was accepted, or with -1 one that has ended."""
        self._count += by
        if self._cells is not None:
            self._cells[self._start + COUNT] = self._count

    def record_turn(self) -> None:
        """Show the others that this worker accepts connections."""
        if self._cells is not None:
            self._cells[self._start + TURN] = int(time.monotonic() * _TENTHS) or 1

    def leave(self) -> None:
        """Let the others accept all connections: this worker cannot."""
        if self._cells is not None:
            self._cells[self._start + TURN] = 0

    def may_accept(self) -> bool:
        """Return whether the next connection is for this worker.

        With many connections an eighth more than the fewest is fine: workers then accept several at
        a time.
        """
        fewest = self._find_fewest()
        return fewest is None or self._count <= fewest + fewest // 8

    def must_shed(self) -> bool:
        """Return whether to end a connection after its answer, so that its client makes a new one.

        That is so while another worker has far fewer, such as one that has just replaced another.
        """
        now = time.monotonic()
        if self._cells is None or now < self._next_shed:
            return False
        self._next_shed = now + _SHED_PAUSE
        fewest = self._find_fewest()
        return fewest is not None and self._count > fewest + max(1, fewest // 4)

    def _find_fewest(self) -> int | None:
        """Return the fewest connections of the other workers that accept; None without any."""
        if self._cells is None:
            return None
        since = int(time.monotonic() * _TENTHS) - _HANGS_AFTER
        counts = self._cells[COUNT::ROW]
        turns = self._cells[TURN::ROW]
        own_row = self._start // ROW
        return min(
            (
                counts[worker]
                for worker in range(len(turns))
                if worker != own_row and turns[worker] and turns[worker] >= since
            ),
            default=None,
        )
