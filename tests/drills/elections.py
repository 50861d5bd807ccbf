"""How long a set itself needs to go on without its primary, as a client beside docgraph sees it."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

from pymongo import MongoClient

from docgraph.embedded.mongod_process import Mongod
from tests.replica_set import ReplicaSet

__all__ = ["LONGEST_WAIT", "MAX_ADDED", "Succession", "await_successor"]

LONGEST_WAIT = 15.0 + 4.0  # the bound on waiting, and until the driver has given a server up
MAX_ADDED = 2.0  # seconds that docgraph adds to what the set needs


class Succession(NamedTuple):
    """Seconds since the primary was lost, until …"""

    elected: float
    confirmed: float  # a majority confirms writes again

    @property
    def longest(self) -> float:
        """The most seconds that a write through docgraph may take."""
        return min(self.confirmed, LONGEST_WAIT) + MAX_ADDED

    def describe(self) -> str:
        elected, confirmed = f"{self.elected:.1f} s", f"{self.confirmed:.1f} s"
        return f"another is elected after {elected}, confirms writes after {confirmed}"


def await_successor(members: ReplicaSet, lost: Mongod, begun: float) -> Succession:
    """Wait until another primary is there, and a majority confirms a write at it."""
    other = members.await_primary(60.0, besides=lost)
    elected = time.monotonic() - begun
    with MongoClient[dict[str, Any]](other.host, directConnection=True, w="majority") as mongo:
        mongo["drill"]["others"].insert_one({})
    return Succession(elected, time.monotonic() - begun)
