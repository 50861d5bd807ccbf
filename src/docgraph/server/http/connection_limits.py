"""Connection limits: per instance, per address, and reserved for health checks.

Of `max-connections` the last few (`Limits.probe_connections`) answer health checks only. An address
that has reached its limit gets one of them, too: a health check may come from there.

Each worker counts in a row of cells that no other worker writes: no lock is needed. An address is
counted in three cells that its hash chooses (a count-min sketch). Its count is at most the smallest
of their sums, so that others are counted for it only where they share all three. Workers that
accept at the same moment may each admit one connection above a limit.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

from docgraph.auth.guard.attempts import group_address
from docgraph.runtime.shared import share_numbers
from docgraph.server.proxies import UNIX, TrustedProxies
from docgraph.server.settings import Limits

Cells = memoryview  # of C integers

_HASHES: Final = 3
_BITS: Final = 17
_KIND: Final = 1 + (_HASHES << _BITS)  # the total, then the addresses by each hash
_ROW: Final = 2 * _KIND  # cells of one worker


class Admitted(IntEnum):
    """The requests that a connection may send."""

    ALL = 0
    PROBES = 1  # health checks
    NOTHING = 2  # it exceeds the limit


def make_cells(workers: int = 1) -> Cells:
    """Allocate the counts of an instance, shared with forks; unwritten pages take no memory."""
    return share_numbers("i", _ROW * workers)


def forget_worker(cells: Cells, worker: int) -> None:
    """Clear the counts of a worker that ended."""
    cells[worker * _ROW : (worker + 1) * _ROW] = memoryview(bytes(4 * _ROW)).cast("i")


class ConnectionLimits:
    """The connections of an instance, as one of its workers counts them."""

    def __init__(
        self,
        limits: Limits,
        proxies: TrustedProxies,
        cells: Cells | None = None,
        worker: int = 0,
    ) -> None:
        self._proxies = proxies
        self._cells = make_cells() if cells is None else cells
        self._start = worker * _ROW
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
            is_exempt = kind is Admitted.ALL and (
                address in ("", UNIX) or self._proxies.trusts(address)
            )
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
        return sum(self._cells[place::_ROW])

    def _add(self, places: list[int], by: int) -> None:
        for place in places:
            self._cells[self._start + place] += by
