"""A set of three behind relays, under reads and writes: what goes wrong with it reaches nobody.

    make drill-set-faults           make drill-f01 for one of them

The election timeout is MongoDB's own (10 s). The members reach each other through the relays, too,
so that a silent relay is a member that has fallen silent: connections stay open, nothing comes.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from docgraph.embedded.mongod_process import Mongod
from tests.drills.callers import Callers, calling
from tests.drills.elections import await_successor
from tests.drills.relays import RelayedSet, relayed_set
from tests.drills.server import DrillServer, serving, wait_until
from tests.replica_set import kill

pytestmark = pytest.mark.timeout(600)

LONGEST_STALL = 13.0  # seconds
GOOD = {200, 201}


@pytest.fixture
def members(tmp_path: Path) -> Iterator[RelayedSet]:
    with relayed_set(tmp_path) as members:
        with MongoClient[dict[str, Any]](members.uri) as mongo:
            mongo["drill"]["things"].insert_one({"n": 0})
        yield members


@pytest.fixture
def server(members: RelayedSet, tmp_path: Path) -> Iterator[DrillServer]:
    options = {
        "mclient__connection_string": members.uri,
        "mongo__mongo_mounts": '[{"what": "/drill", "where": "/drill"}]',
    }
    with serving(tmp_path, **options) as server:
        wait_until(lambda: server.ask("POST", "/drill/things", {"n": 1})[0] == 201)
        yield server


def check(callers: Callers, start: float, name: str, longest: float) -> None:
    """Nobody saw an error, and nobody waited for too long."""
    print(f"\n{name}: {callers.describe(start)}")
    assert {one.status for one in callers.since(start)} <= GOOD
    assert max(one.seconds for one in callers.since(start)) < longest


def freeze(node: Mongod) -> None:
    assert node.pid is not None
    os.kill(node.pid, signal.SIGSTOP)


def thaw(node: Mongod) -> None:
    assert node.pid is not None
    os.kill(node.pid, signal.SIGCONT)


def test_f01_the_primary_steps_down(members: RelayedSet, server: DrillServer) -> None:
    with calling(server) as callers:
        time.sleep(1)
        begun = time.monotonic()
        for _ in range(3):
            members.step_down(seconds=5)
            members.await_primary()
            time.sleep(6)
    check(callers, begun, "f01, the primary steps down 3 times", 2.0)


def test_f02_the_primary_is_killed(members: RelayedSet, server: DrillServer) -> None:
    with calling(server) as callers:
        time.sleep(1)
        begun = time.monotonic()
        for _ in range(2):
            kill(members.await_primary())
            time.sleep(16)
            members.start()
    check(callers, begun, "f02, the primary is killed 2 times", LONGEST_STALL)


def test_f03_reads_of_those_who_take_a_secondary_ride_a_dead_primary(
    members: RelayedSet, tmp_path: Path
) -> None:
    options = {
        "mclient__connection_string": members.uri + "&readPreference=primaryPreferred",
        "mongo__mongo_mounts": '[{"what": "/drill", "where": "/drill"}]',
    }
    with serving(tmp_path, **options) as server:
        wait_until(lambda: server.ask("POST", "/drill/things", {"n": 1})[0] == 201)
        with calling(server) as callers:
            time.sleep(1)
            begun = time.monotonic()
            kill(members.await_primary())
            time.sleep(16)
    reads = [one for one in callers.since(begun) if one.kind == "read"]
    longest = max(one.seconds for one in reads)
    print(f"\nf03, the primary is killed, primaryPreferred: {len(reads)} reads", end="")
    print(f", longest {longest:.2f} s; {callers.describe(begun)}")
    assert {one.status for one in callers.since(begun)} <= GOOD
    assert longest < 2.0


def test_f04_a_secondary_is_killed(members: RelayedSet, server: DrillServer) -> None:
    with calling(server) as callers:
        time.sleep(1)
        primary = members.await_primary()
        begun = time.monotonic()
        kill(next(node for node in members.nodes if node is not primary))
        time.sleep(10)
    check(callers, begun, "f04, a secondary is killed", 2.0)


def test_f08_the_primary_falls_silent(members: RelayedSet, server: DrillServer) -> None:
    """The set needs its time: for the election, and for a majority that confirms writes again."""
    with calling(server) as callers:
        time.sleep(1)
        primary = members.await_primary()
        begun = time.monotonic()
        members.silence(primary, True)
        freeze(primary)  # nothing comes from it, either
        try:
            succession = await_successor(members, primary, begun)
            time.sleep(max(0.0, 45 - succession.confirmed))
            well = begun + succession.confirmed + 10
            last = [one for one in callers.seen if one.begun > well]
        finally:
            members.silence(primary, False)
            thaw(primary)
        time.sleep(5)
    seen = callers.since(begun)
    print(f"\nf08, a silent primary: {succession.describe()}; {callers.describe(begun)}")
    assert max(one.seconds for one in seen) < succession.longest
    in_time = succession.confirmed < LONGEST_STALL
    assert {one.status for one in seen} <= (GOOD if in_time else {*GOOD, 500})
    assert max(one.seconds for one in last) < 2.0


def test_f09_connections_are_reset(members: RelayedSet, server: DrillServer) -> None:
    with calling(server) as callers:
        begun = time.monotonic()
        resets = 0
        while time.monotonic() < begun + 30:
            resets += members.reset(0.01)
            time.sleep(0.1)
    check(callers, begun, f"f09, {resets} connections to the database are reset", LONGEST_STALL)
    assert resets > 0


def test_f10_the_database_is_far_away(members: RelayedSet, server: DrillServer) -> None:
    try:
        members.delay(0.1)
        wait_until(lambda: server.ask("POST", "/drill/things", {"n": 1})[0] == 201)
        time.sleep(5)
        with calling(server) as callers:
            begun = time.monotonic()
            time.sleep(15)
    finally:
        members.delay(0.0)
    check(callers, begun, "f10, 100 ms to the database and 100 ms back", 3.0)


def test_f21_members_restart_in_turn(members: RelayedSet, server: DrillServer) -> None:
    with calling(server) as callers:
        time.sleep(1)
        begun = time.monotonic()
        for node in members.nodes:
            node.request_stop()
            node.stop()
            members.start()
            time.sleep(2)
    check(callers, begun, "f21, each member restarts", LONGEST_STALL)
