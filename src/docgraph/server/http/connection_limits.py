"""Connection limits per instance and address, with a reserve for health checks; overload pauses.

Of `max-connections` the last few (`Limits.probe_connections`) answer health checks only. An address
that has reached its limit gets one of them, too: a health check may come from there.

Each worker counts in a row of cells that no other worker writes: no lock is needed. An address is
counted in three cells that its hash chooses (a count-min sketch). Its count is at most the smallest
of their sums, so that others are counted for it only where they share all three. Workers that
accept at the same moment may each admit one connection above a limit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from enum import IntEnum
from itertools import islice
from typing import Final, Protocol

from docgraph.exchange.hosts import group_address
from docgraph.runtime.shared_memory import share_numbers
from docgraph.server.proxies import UNIX, TrustedProxies
from docgraph.server.settings import Limits

Cells = memoryview  # of C integers

_HASHES: Final = 3
_BITS: Final = 17
_KIND: Final = 1 + (_HASHES << _BITS)  # the total, then the addresses by each hash
COUNT: Final = 2 * _KIND  # all its connections, see `connection_share.py`
TURN: Final = COUNT + 1  # when its event loop last ran
ROW: Final = TURN + 1  # cells of one worker


class Admitted(IntEnum):
    """The requests that a connection may send."""

    ALL = 0
    PROBES = 1  # health checks
    NOTHING = 2  # it exceeds the limit


def make_cells(workers: int = 1) -> Cells:
    """Allocate the counts of an instance, shared with forks; unwritten pages take no memory."""
    return share_numbers("i", ROW * workers)


def forget_worker(cells: Cells, worker: int) -> None:
    """Clear the counts of a worker that ended."""
    cells[worker * ROW : (worker + 1) * ROW] = memoryview(bytes(4 * ROW)).cast("i")


class ConnectionLimits:
    """The connections of an instance, as one of its workers counts them."""

    def __init__(
        self, limits: Limits, proxies: TrustedProxies, cells: Cells | None = None, worker: int = 0
    ) -> None:
        self.trusts = proxies.trusts
        self._cells = make_cells() if cells is None else cells
        self._start = worker * ROW
        # By `Admitted`: the total limit, and the limit of one address.
        self._bounds = (
            (limits.request_connections, limits.connections_of_address),
            (limits.probe_connections, limits.probe_connections_of_address),
        )

    def admit(self, address: str) -> Admitted:
        """Count a connection; call `release` when it ends."""
        for kind in (Admitted.ALL, Admitted.PROBES):
            total, of_address = self._bounds[kind]
            # A proxy has the connections of all its callers; a Unix socket has no address.
            is_exempt = kind is Admitted.ALL and (address in ("", UNIX) or self.trusts(address))
            places = self._find_places(kind, address)
            if self._sum(places[0]) < total and (
                is_exempt or min(map(self._sum, places[1:])) < of_address
            ):
                self._add(places, 1)
                return kind
        return Admitted.NOTHING

    def release(self, kind: Admitted, address: str) -> None:
        """Count down a connection that was admitted as this kind."""
        if kind is not Admitted.NOTHING:
            self._add(self._find_places(kind, address), -1)

    def count_own(self) -> int:
        """Return the number of connections that this worker has admitted."""
        return sum(self._cells[self._start + kind * _KIND] for kind in range(2))

    def _find_places(self, kind: Admitted, address: str) -> list[int]:
        """Return the cells of a row that count the address."""
        # Clients cannot predict the hash: it differs per instance, and workers are forks.
        hashed, place = hash(group_address(address)), kind * _KIND
        places = [place]
        for number in range(_HASHES):
            places.append(place + 1 + (number << _BITS) + hashed % (1 << _BITS))
            hashed >>= _BITS
        return places

    def _sum(self, place: int) -> int:
        return sum(self._cells[place::ROW])

    def _add(self, places: list[int], by: int) -> None:
        for place in places:
            self._cells[self._start + place] += by


_REST: Final = 0.5  # seconds; clients are asked to wait for 1 s
_TICK: Final = 0.005  # seconds between two checks
AT_ONCE: Final = 8  # connections per check; rejecting 1 600 a second takes a fifth of a core


class _Rested(Protocol):
    def go_on(self) -> None:
        """Resume reading."""


class OverloadPause:
    """The paused connections of this process, with the end of each pause.

    Connections whose request got a 503 stay open, and are not read for a moment. Rejected clients
    retry. If all of them were read immediately, rejections would fill every iteration of the event
    loop, and delay admitted requests. If their connections were closed, each retry would cost a new
    connection. So they pause, and are read again in order: a few at a time, and as many as there is
    room for.
    """

    def __init__(self, count_room: Callable[[], int]) -> None:
        self._count_room = count_room  # how many requests would be admitted now
        self._until: dict[_Rested, float] = {}  # the oldest first
        self._next: asyncio.TimerHandle | None = None  # check

    def enter(self, connection: _Rested, loop: asyncio.AbstractEventLoop) -> None:
        """Pause; `go_on` is called at the end."""
        self._until[connection] = loop.time() + _REST
        if self._next is None:
            self._next = loop.call_later(_TICK, self._resume_due, loop)

    def leave(self, connection: _Rested) -> None:
        """End the pause: the connection has ended, or is needed."""
        self._until.pop(connection, None)

    def _resume_due(self, loop: asyncio.AbstractEventLoop) -> None:
        now, room = loop.time(), self._count_room()
        first = list(islice(self._until.items(), room + AT_ONCE))
        try:
            for place, (connection, until) in enumerate(first):
                if place < room or until <= now:
                    self.leave(connection)
                    connection.go_on()
        finally:  # whatever happens to one of them, the others are read again
            self._next = loop.call_later(_TICK, self._resume_due, loop) if self._until else None
