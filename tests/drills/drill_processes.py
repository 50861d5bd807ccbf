"""Processes: twenty workers, SIGKILL while batches are being written, few descriptors.

make drill-processes
"""

from __future__ import annotations

import http.client
import random
import signal
import socket
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.drills.server import DrillServer, describe_load, serving, wait_until

pytestmark = pytest.mark.timeout(300)

WORKERS = 20
NOWHERE = "mongodb://127.0.0.1:9/"
CALLERS = 6
ENTRIES = 40  # of a batch
KILLS = 6


def find_workers(server: DrillServer) -> list[psutil.Process]:
    parent = psutil.Process(server.process.pid)
    return [one for forker in parent.children() for one in forker.children()]


def count_events(server: DrillServer, name: str) -> int:
    return server.log.read_text().count(f'"event":"{name}"')


def test_twenty_workers_start_reload_and_end(tmp_path: Path) -> None:
    begun = time.monotonic()
    options = {"mclient__connection_string": NOWHERE, "core__workers": str(WORKERS)}
    with serving(tmp_path, **options) as server:
        took = time.monotonic() - begun
        workers = find_workers(server)
        assert len(workers) == WORKERS
        memory = sum(one.memory_full_info().pss for one in workers)
        for _ in range(3):
            server.process.send_signal(signal.SIGHUP)
            assert server.ask("GET", "/ping")[0] == 200
        wait_until(lambda: count_events(server, "server-reloaded") >= 1)
        killed = workers[:5]
        for one in killed:
            one.kill()
        wait_until(lambda: count_events(server, "worker-started") == WORKERS + len(killed))
        assert server.ask("GET", "/ping")[0] == 200
        begun = time.monotonic()
        server.process.terminate()
        assert server.process.wait(60) == 0
        end = time.monotonic() - begun
    assert count_events(server, "worker-lost") == len(killed)
    print(
        f"\n{WORKERS} workers: ready after {took:.1f} s, {memory / WORKERS / 2**20:.0f} MiB each, "
        f"ended after {end:.1f} s ({describe_load()})"
    )


def build_batch(name: str) -> list[dict[str, Any]]:
    """Entries that insert documents of one name."""
    return [
        {"method": "POST", "path": "/drill", "body": {"batch": name, "number": number}}
        for number in range(ENTRIES)
    ]


def write_batches(
    server: DrillServer, caller: int, answered: set[str], is_over: threading.Event
) -> None:
    """Write batches until the server is gone; record those that it acknowledged."""
    for number in range(100_000):
        name = f"{caller}-{number}"
        try:
            status, _, _ = server.ask("POST", "/_batch", build_batch(name))
        except (OSError, http.client.HTTPException):
            if is_over.is_set():
                return
            continue
        if status == 200:
            answered.add(name)


def test_batches_are_whole_or_absent_after_a_kill(
    tmp_path: Path, mongo_uri: str, mongo_client: Any, database: str
) -> None:
    stored = mongo_client[database]["drill"]
    mongo_client[database].create_collection("drill")
    options = {
        "mclient__connection_string": mongo_uri,
        "core__workers": "2",
        "mongo__mongo_mounts": f'[{{"what": "/{database}", "where": "/"}}]',
    }
    answered: set[str] = set()
    with serving(tmp_path, **options) as server:
        is_over = threading.Event()
        threads = [
            threading.Thread(target=write_batches, args=(server, caller, answered, is_over))
            for caller in range(CALLERS)
        ]
        for thread in threads:
            thread.start()
        wait_until(lambda: len(answered) >= CALLERS)
        for _ in range(KILLS):
            time.sleep(random.uniform(0.1, 0.5))
            random.choice(find_workers(server)).kill()
            known = len(answered)
            wait_until(lambda known=known: len(answered) > known)  # type: ignore[misc]
        is_over.set()
        server.process.kill()
        for thread in threads:
            thread.join()
    with serving(tmp_path, **options) as server:
        # Transactions that were cut hold locks until the database ends them.
        status, answer, took = server.ask("POST", "/_batch", build_batch("after"))
        assert status == 200, answer
    answered.add("after")
    counts = Counter(one["batch"] for one in stored.find({}, {"batch": 1}))
    print(f"\n{len(answered)} batches acknowledged, {len(counts)} stored, next after {took:.2f} s")
    assert set(counts.values()) == {ENTRIES}
    assert answered <= counts.keys()
    repeated = stored.aggregate(
        [
            {"$group": {"_id": ["$batch", "$number"], "n": {"$sum": 1}}},
            {"$match": {"n": {"$gt": 1}}},
        ]
    )
    assert list(repeated) == []


def probe(server: DrillServer, path: str = "/ping", address: str = "127.0.0.2") -> str:
    """The status of a health check on a new connection, or why there is none."""
    source = (address, 0)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, 10, source_address=source)
    try:
        connection.request("GET", path)
        return str(connection.getresponse().status)
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__
    finally:
        connection.close()


@pytest.mark.parametrize("workers", ["1", "2"])
def test_few_descriptors_and_idle_clients(tmp_path: Path, mongo_uri: str, workers: str) -> None:
    options = {"mclient__connection_string": mongo_uri, "core__workers": workers}
    files = ("prlimit", "--nofile=64:64")
    with serving(tmp_path, before=files, **options) as server, ExitStack() as stack:
        wait_until(lambda: server.ask("GET", "/health/db")[0] == 200)
        for _ in range(200):
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port)))
        probes = Counter(probe(server) for _ in range(40))
        ready = probe(server, "/health/db")
        near = wait_until(lambda: probe(server, address="127.0.0.1") == "200")
        stack.close()
        recovered = wait_until(lambda: server.ask("GET", "/")[0] != 503)
        statuses = Counter(probe(server, "/health/db", "127.0.0.1") for _ in range(40))
    reported = count_events(server, "few-descriptors")
    print(f"\n64 files, {workers} workers, 200 idle clients: /ping {dict(probes)}, ready: {ready}")
    print(f"from the address of the clients after {near:.1f} s; {describe_load()}")
    print(f"after they left: {dict(statuses)}, {recovered:.1f} s; reported {reported} times")
    assert set(probes) == {"200"}
    assert ready == "200"
    assert near < 15
    assert set(statuses) == {"200"}
    assert reported >= 1
