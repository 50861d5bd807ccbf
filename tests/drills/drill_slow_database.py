"""A database that fails now and then, is slow, or works for callers who have left.

    make drill-slow-database        make drill-f13 for one of them

The database is told to fail and to wait by its own failpoints.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.drills import blog
from tests.drills.clients import Seen, ask, call, get
from tests.drills.server import DrillServer, serving, wait_until
from tests.http.harness import UNREACHABLE, failing

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

Mongo = MongoClient[dict[str, Any]]


@pytest.fixture(scope="module")
def mongo(mongo_uri: str) -> Iterator[Mongo]:
    with Mongo(mongo_uri) as mongo:
        blog.fill(mongo)
        yield mongo


@contextmanager
def blogging(directory: Path, uri: str, **options: str) -> Iterator[DrillServer]:
    """A server whose app is known to it, and whose database is idle."""
    with serving(directory, mclient__connection_string=uri, **blog.OPTIONS, **options) as server:
        wait_until(lambda: server.ask("POST", "/graphql/blog", {"query": "{posts {id}}"})[0] == 200)
        yield server


async def once(server: DrillServer, request: bytes) -> tuple[str, float]:
    begun = time.monotonic()
    reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
    try:
        status, _ = await ask(reader, writer, [request])
    finally:
        writer.close()
    return status, time.monotonic() - begun


def count_operations(mongo: Mongo) -> int:
    """The reads of posts that the database works on."""
    own = {"active": True, "appName": "docgraph", "command.find": "posts"}
    return len(list(mongo.admin.aggregate([{"$currentOp": {}}, {"$match": own}])))


def test_f11_a_read_that_fails_once_is_tried_again(
    mongo: Mongo, mongo_uri: str, tmp_path: Path
) -> None:
    with blogging(tmp_path, mongo_uri) as server:
        seen = {}
        for times in (1, 2):
            mode = {"times": times}
            with failing(mongo, "find", mode=mode, errorCode=UNREACHABLE):
                seen[times] = asyncio.run(once(server, blog.POSTS))
            wait_until(lambda: asyncio.run(once(server, blog.POSTS))[0] == "200")
    told = ", ".join(f"{status} in {took:.1f} s" for status, took in seen.values())
    print(f"\nf11, a read fails once, twice: {told}")
    assert seen[1][0] == "200"
    assert seen[2][0].startswith(("500", "200 with errors"))


def test_f12_a_slow_query_is_ended_here_and_there(
    mongo: Mongo, mongo_uri: str, tmp_path: Path
) -> None:
    with (
        blogging(tmp_path, mongo_uri, graphql__query_time_limit="1000") as server,
        failing(mongo, "find", blockConnection=True, blockTimeMS=3000),
    ):
        status, took = asyncio.run(once(server, blog.POSTS))
        gone = wait_until(lambda: not count_operations(mongo), 10.0)
    print(f"\nf12, a query of 3 s with 1 s: {status} in {took:.2f} s, gone {gone:.1f} s later")
    assert status == "408"
    assert 0.9 < took < 2.5  # 1.5 s on a quiet machine
    assert gone < 2.5


async def test_f13_more_slow_queries_than_connections(
    mongo: Mongo, mongo_uri: str, tmp_path: Path
) -> None:
    """500 callers for 20 connections, each of which is taken for 2 s."""
    options = {"mclient__max_pool_size": "20"}
    with blogging(tmp_path, mongo_uri, **options) as server:
        crowd, probes = Seen(), Seen()
        with failing(mongo, "find", blockConnection=True, blockTimeMS=2000):
            until = time.monotonic() + 1
            probing = asyncio.create_task(
                call(server.port, [get("/ping")], probes, float("inf"), pause=0.1)
            )
            calls = (call(server.port, [blog.POSTS], crowd, until) for _ in range(500))
            await asyncio.gather(*calls)
            probing.cancel()
            await asyncio.wait((probing,))
        after = await once(server, blog.POSTS)
    print(f"\nf13, 500 slow queries for 20 connections: {crowd.describe()}", end="")
    print(f", longest {max(crowd.times):.1f} s; /ping {probes.describe()}; then {after[1]:.2f} s")
    assert set(crowd.answers) <= {"200", "500", "503"}
    assert max(crowd.times) < 20  # 15 s of waiting, and 2 s of work
    assert set(probes.answers) == {"200"}
    assert probes.p99 < 1.0
    assert after[0] == "200"


async def test_f14_clients_that_leave_have_nothing_done_for_them(
    mongo: Mongo, mongo_uri: str, tmp_path: Path
) -> None:
    """1 000 come while the database takes 5 s for each of them, and leave after one."""
    with blogging(tmp_path, mongo_uri) as server:
        with failing(mongo, "find", blockConnection=True, blockTimeMS=5000):
            clients = []
            for _ in range(1000):
                _, writer = await asyncio.open_connection("127.0.0.1", server.port)
                writer.write(blog.POSTS)
                clients.append(writer)
            await asyncio.sleep(1)
            begun = count_operations(mongo)
            for writer in clients:
                writer.close()
            gone = await asyncio.to_thread(wait_until, lambda: not count_operations(mongo), 20.0)
        after = await once(server, blog.POSTS)
    print(f"\nf14, 1 000 clients leave: {begun} reads under way, gone after {gone:.1f} s", end="")
    print(f"; then answered in {after[1]:.2f} s")
    assert begun > 0
    assert gone < 4.0  # 2 s on a quiet machine
    assert after[0] == "200"
    assert after[1] < 2.0
