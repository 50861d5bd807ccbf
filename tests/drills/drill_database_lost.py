"""The only `mongod` dies under load, for good, and comes back later: every wait has its end.

    make drill-database-lost

Callers read and write without a pause. What was under way when the database died is answered within
a few seconds, what comes later at once; after the return of the database traffic flows again.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from docgraph.embedded.mongod_setup import MongodOptions
from tests.drills.callers import calling
from tests.drills.server import serving, wait_until
from tests.replica_set import ReplicaSet, kill

pytestmark = pytest.mark.timeout(300)

CALLERS = 8
LONGEST_UNDER_WAY = 15.0  # seconds
LONGEST_WHEN_KNOWN = 0.5
LONGEST_UNTIL_FLOWING = 1.5  # a second, and the time of asking


def test_a_database_that_is_lost_keeps_nobody_waiting(tmp_path: Path) -> None:
    members = ReplicaSet(tmp_path, MongodOptions(cache_gb=0.25, oplog_mb=64), members=1)
    uri = members.start()
    with MongoClient[dict[str, Any]](uri) as mongo:
        mongo["drill"]["things"].insert_one({"n": 0})
    options = {
        "mclient__connection_string": uri,
        "mongo__mongo_mounts": '[{"what": "/drill", "where": "/drill"}]',
    }
    try:
        with serving(tmp_path, **options) as server:
            wait_until(lambda: server.ask("GET", "/drill/things")[0] == 200)
            with calling(server, CALLERS, 0.01) as callers:
                time.sleep(2)
                lost = time.monotonic()
                kill(members.nodes[0])
                time.sleep(20)
                metrics = server.ask("GET", "/metrics")
                health = server.ask("GET", "/health/db")
                members.start()
                back = time.monotonic()
                flowing = wait_until(lambda: server.ask("GET", "/drill/things")[0] == 200)
    finally:
        members.stop()

    under_way = [one for one in callers.between(0, lost + 1) if one.begun + one.seconds > lost]
    known = callers.between(lost + 3, back)
    print(f"\nunder way: longest {max(one.seconds for one in under_way):.2f} s", end="")
    print(f", {sorted({str(one.code) for one in under_way})}")
    print(
        f"known to be away: {len(known)} answers, longest {max(one.seconds for one in known):.3f} s"
    )
    print(
        f"/metrics {metrics[0]} in {metrics[2]:.3f} s, /health/db {health[0]} in {health[2]:.3f} s"
    )
    print(f"flowing again {flowing:.2f} s after its return")

    assert max(one.seconds for one in under_way) < LONGEST_UNDER_WAY
    assert max(one.seconds for one in known) < LONGEST_WHEN_KNOWN
    assert {one.status for one in known} == {500}
    assert max(metrics[2], health[2]) < LONGEST_WHEN_KNOWN
    assert flowing < LONGEST_UNTIL_FLOWING
