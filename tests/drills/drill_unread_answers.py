"""Clients that ask for long answers and do not read them: probes, and queries after they left.

    make drill-unread-answers       UNREAD_CLIENTS=1000 SECONDS=10 are the defaults

Each of them sends 4 pipelined queries of 1 MB each. Probes use a new connection each time, as an
orchestrator does.
"""

from __future__ import annotations

import http.client
import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from pymongo import MongoClient

from tests.drills import blog
from tests.drills.clients import Seen
from tests.drills.server import DrillServer, describe_load, serving, wait_until
from tests.logs import read_events

pytestmark = pytest.mark.timeout(300)

CLIENTS = int(os.environ.get("UNREAD_CLIENTS", "1000"))
SECONDS = float(os.environ.get("SECONDS", "10"))
PIPELINED = 4
LONG = blog.query("{posts(limit: 500) {id title}}")  # 1 MB
SHORT = "{posts(limit: 20) {id score kind}}"
PROBES = ("main", "/ping"), ("main", "/health/db"), ("probe", "/ping"), ("probe", "/health/db")


@pytest.fixture(scope="module")
def mongo(mongo_uri: str) -> Iterator[MongoClient[dict[str, Any]]]:
    with MongoClient[dict[str, Any]](mongo_uri) as mongo:
        blog.fill(mongo)
        mongo[blog.DB]["posts"].update_many({}, {"$set": {"title": "x" * 2048}})
        yield mongo


def probe(port: int, path: str, seen: Seen) -> str:
    """The status of one request on a new connection."""
    begun = time.monotonic()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        status = str(connection.getresponse().status)
    except OSError as error:
        status = type(error).__name__
    finally:
        connection.close()
    seen.times.append(time.monotonic() - begun)
    seen.answers[status] += 1
    return status


def run_probes(ports: dict[str, int], seconds: float) -> dict[tuple[str, str], Seen]:
    """Probe each path four times a second, one after the other as an orchestrator does."""
    seen, until = {one: Seen() for one in PROBES}, time.monotonic() + seconds

    def run(port: str, path: str) -> None:
        while time.monotonic() < until:
            probe(ports[port], path, seen[port, path])
            time.sleep(0.25)

    with ThreadPoolExecutor(len(PROBES)) as threads:
        for done in [threads.submit(run, *one) for one in PROBES]:
            done.result()
    return seen


def run_queries(server: DrillServer, seconds: float) -> Seen:
    seen, until = Seen(), time.monotonic() + seconds
    while time.monotonic() < until:
        status, _, took = server.ask("POST", "/graphql/blog", {"query": SHORT})
        seen.times.append(took)
        seen.answers[str(status)] += 1
        time.sleep(0.01)
    return seen


@contextmanager
def not_reading(port: int, count: int) -> Iterator[None]:
    """So many clients that send their queries and read nothing."""
    with ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(socket.socket())
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
            client.settimeout(30)
            client.connect(("127.0.0.1", port))
            client.sendall(LONG * PIPELINED)
        yield


def find_probe_port(server: DrillServer) -> int:
    (url,) = [
        event["url"] for event in read_events(server.log) if event["event"] == "probes-started"
    ]
    return int(url.rpartition(":")[2])


def read_memory(server: DrillServer) -> int:
    """MiB of the largest process."""
    processes = psutil.Process(server.process.pid).children(recursive=True)
    return int(max(one.memory_info().rss for one in processes)) >> 20


@pytest.mark.parametrize("bound", ["raised", "default"])
def test_l20_probes_beside_unread_answers(
    mongo: MongoClient[dict[str, Any]], mongo_uri: str, tmp_path: Path, bound: str
) -> None:
    options = {"mclient__connection_string": mongo_uri, **blog.OPTIONS}
    options["core__probe_listener__port"] = "0"
    if bound == "raised":
        options["connection_options__max_connections_per_address"] = "2000"
    with serving(tmp_path, **options) as server:
        ports = {"main": server.port, "probe": find_probe_port(server)}
        normal = run_queries(server, 3)
        with not_reading(server.port, CLIENTS):
            pressed = run_probes(ports, SECONDS)
            memory = read_memory(server)
        time.sleep(5)
        after = run_queries(server, 3)
    print(f"\nl20, {CLIENTS} clients do not read, bound per address {bound}")
    print(f"{memory} MiB; {describe_load()}")
    for (port, path), seen in pressed.items():
        print(f"{port} {path}: {seen.describe()}, longest {max(seen.times):.2f} s", end="")
        print(f", first {seen.times[0]:.2f} s")
    print(f"queries: {normal.describe()}; 5 s after they left: {after.describe()}")
    for (port, _), seen in pressed.items():
        assert set(seen.answers) == {"200"}
        assert max(seen.times) < (1.0 if port == "main" else 0.2)
    assert set(after.answers) == {"200"}
    assert after.p99 < max(2 * normal.p99, 0.05)


def test_l21_liveness_ends_when_every_event_loop_hangs(
    mongo: MongoClient[dict[str, Any]], mongo_uri: str, tmp_path: Path
) -> None:
    options = {"mclient__connection_string": mongo_uri, "core__probe_listener__port": "0"}
    with serving(tmp_path, **options, core__workers="2") as server:
        port, seen = find_probe_port(server), Seen()
        forkers = psutil.Process(server.process.pid).children()
        workers = [one for forker in forkers for one in forker.children()]
        assert len(workers) == 2
        workers[0].suspend()
        time.sleep(35)
        probe(port, "/ping", seen)
        workers[1].suspend()
        begun = time.monotonic()
        wait_until(lambda: probe(port, "/ping", seen) == "503")
        took = time.monotonic() - begun
        for one in workers:
            one.resume()
        wait_until(lambda: probe(port, "/ping", seen) == "200")
    print(f"\nl21, all event loops hang: 503 after {took:.0f} s; {seen.describe()}")
    assert seen.answers["200"] > 0
    assert 25 < took < 45
