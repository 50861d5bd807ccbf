"""Limits for callers over real processes: two workers share them, and one that dies holds nothing.

The server stands behind a proxy, so that what is counted has an address of its own.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.process.harness import Server, Wire, eventually, request, run_server

BURST, PLACES = 100, 2
SETTINGS: dict[str, Any] = {
    "core": {"trusted-proxies": ["127.0.0.1"]},
    "caller-limits": {
        "enabled": True,
        "limits": [
            {
                "name": "address",
                "per": "address",
                "requests-per-second": 0.001,
                "burst": BURST,
                "concurrent": PLACES,
            }
        ],
    },
}
_addresses = (f"10.0.{number >> 8}.{number & 255}" for number in range(1 << 16))


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """Tests may kill a worker, but not the server."""
    with run_server(SETTINGS, workers=2) as server:
        yield server


@pytest.fixture
def wires(server: Server) -> Iterator[dict[int, list[Wire]]]:
    """Two connections to each worker, by its process, that it has no reason to end."""
    with ExitStack() as stack:
        found: dict[int, list[Wire]] = {}

        def has_enough() -> bool:
            return len(found) == 2 and all(len(some) >= PLACES for some in found.values())

        def ask(wires: list[Wire]) -> None:
            """A worker that has more connections than the other ends some after an answer."""
            for wire in wires:
                response = wire.get("/ping", x_forwarded_for=next(_addresses))
                if response["connection"] != "close":
                    found.setdefault(response.json["pid"], []).append(wire)

        def connect() -> bool:
            ask([stack.enter_context(server.connect())])
            if not has_enough():
                return False
            for surplus in (wire for some in found.values() for wire in some[PLACES:]):
                surplus.socket.close()
            kept = [wire for some in found.values() for wire in some[:PLACES]]
            found.clear()
            ask(kept)  # with the answer, the worker has noticed what was closed
            return has_enough()

        eventually(connect)
        yield found


def test_two_workers_admit_just_as_many_as_one(wires: dict[int, list[Wire]]) -> None:
    """Each client waits for its answer: then its place is free, wherever it asks next."""
    address = next(_addresses)
    statuses: Counter[int] = Counter()
    lock = threading.Lock()

    def ask(first: Wire, second: Wire) -> None:
        for number in range(BURST):
            wire = (first, second)[number % 2]
            status = wire.get("/ping", x_forwarded_for=address).status
            with lock:
                statuses[status] += 1

    (one, two), (three, four) = (some[:2] for some in wires.values())
    threads = [threading.Thread(target=ask, args=pair) for pair in ((one, three), (two, four))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert statuses == {200: BURST, 429: BURST}


def test_places_of_a_worker_that_is_killed_are_given_back(
    server: Server, wires: dict[int, list[Wire]], tmp_path: Path
) -> None:
    address, until = next(_addresses), tmp_path / "until"
    (victim, held), (_, free) = wires.items()
    before = len(server.named("request-started"))
    for wire in held[:PLACES]:
        wire.send(request("GET", f"/hold?until={until}", x_forwarded_for=address))
    eventually(lambda: len(server.named("request-started")) >= before + PLACES)
    eventually(lambda: free[0].get("/ping", x_forwarded_for=address).status == 429)
    refused = free[0].get("/ping", x_forwarded_for=address)
    assert refused["ratelimit"] == '"address-concurrent";r=0;t=1'

    psutil.Process(victim).kill()

    eventually(lambda: free[0].get("/ping", x_forwarded_for=address).status == 200)
    # And nobody can tell that they were ever held.
    for wire in free[:PLACES]:
        wire.send(request("GET", f"/hold?until={until}", x_forwarded_for=address))
    until.touch()
    assert [wire.read().status for wire in free[:PLACES]] == [200] * PLACES
