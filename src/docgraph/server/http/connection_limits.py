"""How many connections there may be: of the instance, of one address, and for health checks.

Of `max-connections` the last few (`Limits.probe_connections`) answer health checks only. An address
that has all the connections it may have gets one of them, too: a health check may come from there.

Each worker counts in a row of cells of its own, which nobody else writes: no lock is needed. An
address is counted in three cells that its hash chooses (a count-min sketch). It has at most the
smallest of their sums, so that others count for it only where they share all three. Workers that
accept in the same moment may admit one connection each above a limit.
"""

from __future__ import annotations

from enum import IntEnum
from mmap import mmap
from typing import Final

from docgraph.auth.guard.attempts import group_address
from docgraph.server.proxies import TrustedProxies
from docgraph.server.settings import Limits

__all__ = ["Admitted", "Cells", "ConnectionLimits", "forget_worker", "make_cells"]

Cells = memoryview  # of C integers

_HASHES: Final = 3
_BITS: Final = 17
_KIND: Final = 1 + (_HASHES << _BITS)  # the total, then the addresses by each hash
_ROW: Final = 2 * _KIND  # cells of one worker


class Admitted(IntEnum):
    """What a connection may ask for."""

    ALL = 0
    PROBES = 1  # health checks
    NOTHING = 2  # it is one too many


def make_cells(workers: int = 1) -> Cells:
    """The counts of an instance, shared with forks; pages that nobody writes take no memory."""
    return memoryview(mmap(-1, 4 * _ROW * workers)).cast("i")


def forget_worker(cells: Cells, worker: int) -> None:
    """The connections of a worker are gone with it."""
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
        # By `Admitted`: how many in all, and how many of one address.
        self._bounds = (
            (limits.request_connections, limits.connections_of_address),
            (limits.probe_connections, limits.probe_connections_of_address),
        )

    def admit(self, address: str) -> Admitted:
        """Count a connection; whoever calls this calls `release` when it ends."""
        for kind in (Admitted.ALL, Admitted.PROBES):
            total, of_address = self._bounds[kind]
            # A proxy has the connections of all of its callers; a Unix socket has no address.
            is_exempt = kind is Admitted.ALL and (not address or self._proxies.trusts(address))
            places = self._find_places(kind, address)
            if self._sum(places[0]) < total and (
                is_exempt or min(map(self._sum, places[1:])) < of_address
            ):
                self._add(places, 1)
                return kind
        return Admitted.NOTHING

    def release(self, kind: Admitted, address: str) -> None:
        """A connection that was admitted as this has ended."""
        if kind is not Admitted.NOTHING:
            self._add(self._find_places(kind, address), -1)

    def count_own(self) -> int:
        """The connections that this worker has admitted."""
        return sum(self._cells[self._start + kind * _KIND] for kind in range(2))

    def _find_places(self, kind: Admitted, address: str) -> list[int]:
        """The cells of a row that count it."""
        # Nobody outside can choose the hash: it differs in each instance, and workers are forks.
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
