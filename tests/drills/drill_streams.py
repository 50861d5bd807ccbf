"""W04: a thousand numbered writes while the primary steps down, and while it is killed.

    make drill-streams

Clients that stay get every event once, in order. One that is cut every few events, and goes on
after the last id it got, loses none and gets none twice; from an older id there are repeats, in
order. Clients that nobody cuts see an outage as silence, never as an end.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pymongo import MongoClient
from websockets.exceptions import InvalidStatus
from websockets.sync.client import ClientConnection, connect

from docgraph.embedded.mongod_setup import MongodOptions
from tests.drills.server import DrillServer, serving, wait_until
from tests.numbered import write_numbers
from tests.replica_set import ReplicaSet, kill

pytestmark = pytest.mark.timeout(400)

WRITES = 1000
STAYING = 20
CUT_AFTER = 17  # events
PATH = "/drill/things/_streams/all?event-ids=true"
STREAMS = {"streams": [{"uri": "all", "stages": []}]}

Event = dict[str, Any]


def listening(url: str) -> ClientConnection:
    """A WebSocket whose queue is not bounded: with events left in a full one it closes slowly."""
    return connect(url, open_timeout=60, max_size=None, max_queue=None)


class Listener(threading.Thread):
    """Collects events, with the moment of each, until it has all of them."""

    def __init__(self, port: int, *, cut_after: int = WRITES) -> None:
        super().__init__()
        self.seen: list[tuple[float, Event]] = []
        self.connections = 0
        self.failure: Exception | None = None
        self._url = f"ws://127.0.0.1:{port}{PATH}"
        self._cut_after = cut_after
        self.start()

    @property
    def events(self) -> list[Event]:
        return [event for _, event in self.seen]

    def run(self) -> None:
        try:
            while len(self.seen) < WRITES:
                self._listen()
        except Exception as error:
            self.failure = error

    def _listen(self) -> None:
        token = f"&resume-after={quote(json.dumps(self.events[-1]['_id']))}" if self.seen else ""
        try:
            with listening(self._url + token) as socket:
                self.connections += 1
                for _ in range(min(self._cut_after, WRITES - len(self.seen))):
                    self.seen.append((time.monotonic(), json.loads(socket.recv(timeout=60))))
        except InvalidStatus as refused:
            if refused.response.status_code not in (500, 503):
                raise

    def longest_silence(self) -> float:
        moments = [moment for moment, _ in self.seen]
        return max(later - earlier for earlier, later in itertools.pairwise(moments))


def numbers_of(events: list[Event]) -> list[int]:
    return [one["documentKey"]["_id"] for one in events]


def faults(members: ReplicaSet) -> Iterator[tuple[int, Callable[[], None]]]:
    """What happens after so many writes."""
    yield WRITES // 3, members.step_down
    yield 2 * WRITES // 3, lambda: kill(members.await_primary())


def write_amid_faults(collection: Any, members: ReplicaSet) -> None:
    begun = 0
    breaking: list[threading.Thread] = []
    for number, fault in faults(members):
        write_numbers(collection, range(begun, number))
        breaking.append(threading.Thread(target=fault))
        breaking[-1].start()
        begun = number
    write_numbers(collection, range(begun, WRITES))
    for thread in breaking:
        thread.join()


def repeat(server: DrillServer, token: Any, count: int) -> list[Event]:
    url = f"ws://127.0.0.1:{server.port}{PATH}&resume-after={quote(json.dumps(token))}"
    with listening(url) as socket:
        return [json.loads(socket.recv(timeout=60)) for _ in range(count)]


def test_elections_and_a_dead_primary_lose_no_event_and_double_none(tmp_path: Path) -> None:
    members = ReplicaSet(tmp_path, MongodOptions(cache_gb=0.25, oplog_mb=64))
    uri = members.start()
    options = {
        "mclient__connection_string": uri,
        "mongo__mongo_mounts": json.dumps([{"what": "/drill", "where": "/drill"}]),
    }
    try:
        with MongoClient[Event](uri) as mongo, serving(tmp_path, **options) as server:
            wait_until(lambda: server.ask("PUT", "/drill")[0] in (200, 201))
            assert server.ask("PUT", "/drill/things", STREAMS)[0] in (200, 201)
            staying = [Listener(server.port) for _ in range(STAYING)]
            cut = Listener(server.port, cut_after=CUT_AFTER)
            wait_until(lambda: all(one.connections for one in (*staying, cut)))
            write_amid_faults(mongo["drill"]["things"], members)
            for one in (*staying, cut):
                one.join()
            repeated = repeat(server, cut.events[WRITES // 2]["_id"], WRITES // 2 - 1)
    finally:
        members.stop()
    silence = max(one.longest_silence() for one in staying)
    print(f"\n{STAYING} clients that stayed: {WRITES} events each, longest silence {silence:.1f} s")
    print(f"one that was cut: {cut.connections} connections, {len(cut.seen)} events")
    for one in (*staying, cut):
        assert one.failure is None
        assert numbers_of(one.events) == list(range(WRITES))
    assert {one.connections for one in staying} == {1}
    assert repeated == cut.events[WRITES // 2 + 1 :]
