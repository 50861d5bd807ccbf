"""Clients that ask for long answers and do not read them: probes, and queries after they left.

    make drill-unread-answers       UNREAD_CLIENTS=1000 is the default

Each of them sends 4 pipelined queries of 1 MB each. Probes use a new connection each time, as an
orchestrator does.
"""

from __future__ import annotations

import http.client
import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.drills import blog
from tests.drills.clients import Seen
from tests.drills.server import DrillServer, describe_load, serving

pytestmark = pytest.mark.timeout(300)

CLIENTS = int(os.environ.get("UNREAD_CLIENTS", "1000"))
SECONDS = float(os.environ.get("SECONDS", "15"))
PIPELINED = 4
LONG = blog.query("{posts(limit: 500) {id text}}")  # 1 MB
SHORT = "{posts(limit: 20) {id title score kind}}"


@pytest.fixture(scope="module")
def mongo(mongo_uri: str) -> Iterator[MongoClient[dict[str, Any]]]:
    with MongoClient[dict[str, Any]](mongo_uri) as mongo:
        blog.fill(mongo)
        mongo[blog.DB]["posts"].update_many({}, {"$set": {"text": "x" * 2048}})
        app = mongo[blog.DB]["gql-apps"]
        schema = app.find_one({"_id": "blog"})["schema"]
        app.update_one(
            {"_id": "blog"},
            {"$set": {"schema": schema.replace("title: String", "title: String text: String")}},
        )
        yield mongo


def probe(port: int, path: str) -> tuple[str, float]:
    begun = time.monotonic()
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request("GET", path)
        status = str(connection.getresponse().status)
        connection.close()
    except OSError as error:
        status = type(error).__name__
    return status, time.monotonic() - begun


def run_probes(port: int, seconds: float, path: str = "/ping") -> Seen:
    """Probe ten times a second, whether or not the earlier ones were answered."""
    seen, until = Seen(), time.monotonic() + seconds
    with ThreadPoolExecutor(200) as threads:
        pending = []
        while time.monotonic() < until:
            pending.append(threads.submit(probe, port, path))
            time.sleep(0.1)
    for one in pending:
        status, took = one.result()
        seen.times.append(took)
        seen.answers[status] += 1
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
def unread(port: int, count: int) -> Iterator[None]:
    with ExitStack() as stack:
        for _ in range(count):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
            client.connect_ex(("127.0.0.1", port))
            client.setblocking(True)
            client.settimeout(30)
            try:
                client.sendall(LONG * PIPELINED)
            except OSError as error:
                print("client:", error)
        yield


@pytest.mark.parametrize("bound", ["raised", "default"])
def test_l20_probes_beside_unread_answers(
    mongo, mongo_uri: str, tmp_path: Path, bound: str
) -> None:
    options = {"mclient__connection_string": mongo_uri, **blog.OPTIONS}
    if bound == "raised":
        options["connection_options__max_connections_per_address"] = "2000"
    with serving(tmp_path, **options) as server:
        print(server.ask("POST", "/graphql/blog", {"query": "{posts(limit: 500) {id text}}"})[2])
        normal = run_queries(server, 3)
        cpu = server.read_cpu()
        begun = time.monotonic()
        with unread(server.port, CLIENTS):
            print(f"connected in {time.monotonic() - begun:.1f} s")
            pressed = run_probes(server.port, SECONDS)
            import psutil

            print(
                f"cpu {server.read_cpu() - cpu:.1f} of {time.monotonic() - begun:.1f} s, rss {psutil.Process(server.process.pid).memory_info().rss >> 20}"
            )
        time.sleep(5)
        after = run_queries(server, 5)
    print(
        f"\nl20 {bound}: {CLIENTS} unread: probes {pressed.describe()}, longest {max(pressed.times):.2f} s"
    )
    print(f"normal {normal.describe()}; 5 s after they left {after.describe()}; {describe_load()}")
