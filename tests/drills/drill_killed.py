"""SIGKILL under load, for a worker and for the parent of the workers.

    make drill-killed

With a worker the requests on its connections are lost, and no others; another one takes its place.
The workers of a parent that was killed end within two seconds.
"""

from __future__ import annotations

import http.client
import threading
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from tests.drills.server import DrillServer, serving

pytestmark = pytest.mark.timeout(300)

CALLERS = 16
NOWHERE = "mongodb://127.0.0.1:9/"
LONGEST = 2.0  # seconds


def find_workers(server: DrillServer) -> list[psutil.Process]:
    parent = psutil.Process(server.process.pid)
    return [one for forker in parent.children() for one in forker.children()]


def call(server: DrillServer, seen: Counter[str], is_over: threading.Event) -> None:
    """Ask on one connection, and on a new one after it was lost."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    while not is_over.is_set():
        try:
            connection.request("GET", "/ping")
            response = connection.getresponse()
            response.read()
            seen[str(response.status)] += 1
        except (OSError, http.client.HTTPException) as error:
            seen[type(error).__name__] += 1
            connection.close()
    connection.close()


def test_with_a_worker_only_the_requests_on_its_connections_are_lost(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    is_over = threading.Event()
    with serving(tmp_path, mclient__connection_string=NOWHERE, core__workers="2") as server:
        threads = [
            threading.Thread(target=call, args=(server, seen, is_over)) for _ in range(CALLERS)
        ]
        for thread in threads:
            thread.start()
        time.sleep(2)
        lost, other = find_workers(server)
        connections = len(lost.net_connections("tcp")) - 1  # one of them listens
        lost.kill()
        time.sleep(4)
        is_over.set()
        for thread in threads:
            thread.join()
        workers = find_workers(server)
    failed = sum(count for name, count in seen.items() if name != "200")
    print(f"\nworker: {seen['200']} answered, {failed} lost of {connections} connections")
    assert failed <= connections
    assert len(workers) == 2
    assert other.pid in {one.pid for one in workers}


def test_workers_end_soon_after_their_parent(tmp_path: Path) -> None:
    seen: Counter[str] = Counter()
    is_over = threading.Event()
    with serving(tmp_path, mclient__connection_string=NOWHERE, core__workers="2") as server:
        workers = find_workers(server)
        thread = threading.Thread(target=call, args=(server, seen, is_over))
        thread.start()
        time.sleep(1)
        begun = time.monotonic()
        server.process.kill()
        _, alive = psutil.wait_procs(workers, timeout=60)
        took = time.monotonic() - begun
        is_over.set()
        thread.join()
    print(f"\nparent: its workers ended after {took:.2f} s")
    assert not alive
    assert took < LONGEST
