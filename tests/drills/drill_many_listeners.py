"""L15: hundreds of clients of one change stream, and a hundred writes a second.

    make drill-l15                  LISTENERS=500 WRITES=100 SECONDS=60 is L15 in full

Each client gets every event, in order. The lag of an event is the time from the moment before its
document is written until a client has read it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.drills.server import describe_load, serving, wait_until

LISTENERS = int(os.environ.get("LISTENERS", "500"))
WRITES = int(os.environ.get("WRITES", "100"))  # per second
SECONDS = float(os.environ.get("SECONDS", "20"))
LONGEST_LAG = 0.5  # seconds, 99 of 100
STREAM = {"streams": [{"uri": "all", "stages": []}]}

pytestmark = pytest.mark.timeout(SECONDS * 3 + 240)


def write(mongo: MongoClient[dict[str, Any]], events: int) -> float:
    """Numbered documents at a steady pace; how many seconds that took."""
    things, begun = mongo["drill"]["things"], time.monotonic()
    for number in range(events):
        time.sleep(max(0.0, begun + number / WRITES - time.monotonic()))
        things.insert_one({"_id": number, "at": time.monotonic()})
    return time.monotonic() - begun


def test_l15_hundreds_of_listeners_get_every_event_in_order(mongo_uri: str, tmp_path: Path) -> None:
    events = int(SECONDS * WRITES)
    options = {
        "mclient__connection_string": mongo_uri,
        "mongo__mongo_mounts": json.dumps([{"what": "/drill", "where": "/drill"}]),
        "events__max_connections_per_address": str(LISTENERS + 10),
    }
    with (
        MongoClient[dict[str, Any]](mongo_uri) as mongo,
        serving(tmp_path, **options) as server,
    ):
        mongo.drop_database("drill")
        wait_until(lambda: server.ask("PUT", "/drill")[0] in (200, 201))
        assert server.ask("PUT", "/drill/things", STREAM)[0] in (200, 201)
        arguments = (server.port, "/drill/things/_streams/all", LISTENERS, events, SECONDS)
        command = [sys.executable, "-m", "tests.drills.listeners", *map(str, arguments)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as listening:
            assert listening.stdout is not None
            assert listening.stdout.readline() == "ready\n"
            before = server.read_cpu()
            took = write(mongo, events)
            seen = json.loads(listening.stdout.read())
            cpu = server.read_cpu() - before
    told = f"{seen['delivered']} of {events * LISTENERS} delivered"
    print(f"\nl15, {LISTENERS} clients, {events} writes in {took:.0f} s: {told}", end="")
    print(f", lag p50 {seen['p50'] * 1000:.0f} ms, p99 {seen['p99'] * 1000:.0f} ms", end="")
    print(f"; CPU {cpu:.1f} s, of the clients {seen['cpu']:.1f} s; {describe_load()}")
    assert seen["delivered"] == events * LISTENERS
    assert seen["is_in_order"]
    assert not seen["odd"]
    assert seen["p99"] < LONGEST_LAG
