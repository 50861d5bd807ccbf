"""A set of three under load: its primary falls silent; later two of three are gone.

    make drill-replica-set

The election timeout is MongoDB's own (10 s). A silent primary is frozen: its connections stay open
and nothing comes back; a write takes at most 2 s longer than the set itself needs until a majority
confirms writes at another primary. Without a majority writes have no server, and are answered
within the bound on waiting; after the restart of the two they are done again.
"""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from docgraph.embedded.mongod_process import Mongod
from docgraph.embedded.mongod_setup import MongodOptions
from tests.drills.elections import await_successor
from tests.drills.server import DrillServer, serving, wait_until
from tests.replica_set import ReplicaSet, kill

pytestmark = pytest.mark.timeout(400)

CALLERS = 4
LONGEST_ALONE = 16.0  # seconds
LONGEST_UNTIL_WELL = 5.0

Seen = list[tuple[float, int, float, Any]]


def write(server: DrillServer, seen: Seen, is_over: threading.Event) -> None:
    while not is_over.is_set():
        begun = time.monotonic()
        status, content, took = server.ask("POST", "/drill/things", {"n": 1})
        code = content.get("code") if isinstance(content, dict) else None
        seen.append((begun, status, took, code))
        time.sleep(0.02)


def test_writes_ride_a_silent_primary_and_have_an_end_without_a_majority(  # noqa: PLR0915
    tmp_path: Path,
) -> None:
    members = ReplicaSet(tmp_path, MongodOptions(cache_gb=0.25, oplog_mb=64))
    uri = members.start()
    members.be_patient()
    with MongoClient[dict[str, Any]](uri) as mongo:
        mongo["drill"]["things"].insert_one({"n": 0})
    options = {
        "mclient__connection_string": uri,
        "mongo__mongo_mounts": json.dumps([{"what": "/drill", "where": "/drill"}]),
    }
    seen: Seen = []
    is_over = threading.Event()
    try:
        with serving(tmp_path, **options) as server:
            wait_until(lambda: server.ask("GET", "/drill/things")[0] == 200)
            threads = [
                threading.Thread(target=write, args=(server, seen, is_over)) for _ in range(CALLERS)
            ]
            for thread in threads:
                thread.start()
            try:
                time.sleep(2)
                silent = members.await_primary()
                pid = freeze(silent)
                before = time.monotonic()
                succession = await_successor(members, silent, before)
                wait_until(lambda: any(one[1] == 201 and one[0] > before + 1 for one in seen))
                os.kill(pid, signal.SIGCONT)
                time.sleep(5)
                stalls = [one for one in seen if one[0] > before - 20]
                primary = members.await_primary()
                gone = [primary, next(node for node in members.nodes if node is not primary)]
                alone = time.monotonic()
                for node in gone:
                    kill(node)
                time.sleep(20)
                again = time.monotonic()
                members.start()
                up = time.monotonic()
                well = wait_until(lambda: any(one[1] == 201 and one[0] > again for one in seen))
            finally:
                is_over.set()
                for thread in threads:
                    thread.join()
    finally:
        members.stop()
    waits = [one for one in seen if alone - 20 < one[0] < again]
    longest = max(one[2] for one in stalls)
    print(f"\nsilent primary: {succession.describe()}; longest write {longest:.1f} s", end="")
    print(f", failed {sorted({str(one[3]) for one in stalls if one[1] != 201})}")
    print(f"two of three gone: longest answer {max(one[2] for one in waits):.1f} s", end="")
    print(f", {sorted({str(one[3]) for one in waits})}")
    print(f"well {well:.1f} s after they were up again ({up - again:.1f} s)")
    assert longest < succession.longest
    if succession.confirmed < LONGEST_ALONE - 1:
        assert {one[1] for one in stalls} == {201}
    assert max(one[2] for one in waits) < LONGEST_ALONE
    assert well < LONGEST_UNTIL_WELL


def freeze(node: Mongod) -> int:
    pid = node.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)
    return pid
