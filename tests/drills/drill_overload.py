"""Overload: many times as many heavy queries as the database can run, and small ones beside them.

    make drill-overload

A crowd must achieve what a few callers achieve, wait no longer than `core.wait-timeout-ms`, and
leave room for queries that cost little, also for those whose cost is not measured yet. Nothing of
it is a fault of the database.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.drills.blog import post
from tests.drills.burst import Burst, burst
from tests.drills.clients import Seen
from tests.drills.server import DrillServer, describe_load, serving, wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

DB, ROWS = "overload", 60_000
FEW, MANY = 50, 300
SECONDS = 10.0
WAIT_SECONDS = 15.0  # `core.wait-timeout-ms`
SHAPES = 240  # of small queries, each asked once: their cost is not known
CROWDS = 60  # shapes of heavy queries in a crowd that is not measured yet
GROUP = [
    {"$group": {"_id": {"$mod": ["$n", 7]}, "n": {"$sum": "$n"}}},
    {"$sort": {"_id": 1}},
]


def build_app() -> dict[str, Any]:
    """The queries of the drill: a heavy one, the same in many shapes, a light one, small ones."""
    rows, small = {"db": DB, "collection": "rows"}, {"db": DB, "collection": "small"}
    fields: dict[str, Any] = {
        "heavy": {**rows, "stages": GROUP},
        "light": {**rows, "find": {"_id": {"$arg": "id"}}},
    }
    for number in range(CROWDS):
        match = {"$match": {f"h{number}": None}}
        fields[f"heavy{number}"] = {**rows, "stages": [match, *GROUP]}
    for number in range(SHAPES):
        fields[f"small{number}"] = {**small, "find": {f"s{number}": None}}
    names = " ".join(f"{name}{'(id: Int)' if name == 'light' else ''}: [Row]" for name in fields)
    return {
        "_id": "load",
        "descriptor": {"uri": "load", "name": "load", "enabled": True},
        "schema": f"type Query {{ {names} }} type Row {{ id: Int n: Int }}",
        "mappings": {"Query": fields, "Row": {"id": "_id"}},
    }


HEAVY = post("/graphql/load", {"query": "{heavy {id n}}"})
LIGHT = post("/graphql/load", {"query": "{light(id: 7) {n}}"})


@pytest.fixture
def server(mongo_uri: str, tmp_path: Path) -> Iterator[DrillServer]:
    with MongoClient[dict[str, Any]](mongo_uri) as mongo:
        mongo.drop_database(DB)
        mongo[DB]["rows"].insert_many({"_id": n, "n": n, "kind": n % 9} for n in range(ROWS))
        mongo[DB]["small"].insert_many({"_id": n, "n": n} for n in range(50))
        mongo[DB]["gql-apps"].insert_one(build_app())
    options = {"mclient__connection_string": mongo_uri, "graphql__db": DB}
    with serving(tmp_path, **options) as server:
        light = {"query": "{light(id: 7) {n}}"}
        wait_until(lambda: server.ask("POST", "/graphql/load", light)[0] == 200)
        yield server


async def test_a_crowd_of_heavy_queries_waits_and_is_served(server: DrillServer) -> None:
    few = await burst(server.port, FEW, SECONDS, request=HEAVY)
    beside = asyncio.create_task(burst(server.port, 4, SECONDS, request=LIGHT, pause=0.05))
    await asyncio.sleep(1)  # they have connections
    many = await burst(server.port, MANY, SECONDS, request=HEAVY)
    small = await beside
    begun = time.monotonic()
    status, *_ = server.ask("POST", "/graphql/load", {"query": "{light(id: 7) {n}}"})
    metrics = server.ask("GET", "/metrics")[1].decode()
    log = server.log.read_text()
    print(f"\n{FEW} callers: {few.describe()}\n{MANY} callers: {many.describe()}")
    print(f"small queries: {small.describe()}; then {time.monotonic() - begun:.2f} s", end="")
    print(f" ({describe_load()}); {rate(many) / rate(few):.0%} of the rate")
    assert status == 200
    assert set(many.seen.answers) <= {"200", "503"}
    assert set(small.seen.answers) == {"200"}
    assert max(many.seen.refused, default=0.0) < WAIT_SECONDS + 2
    assert small.seen.p99 < 1.0
    assert rate(many) >= 0.8 * rate(few)
    assert "docgraph_database_up 1" in metrics
    assert "database-lost" not in log


@pytest.mark.parametrize("crowd", ["measured", "unmeasured"])
async def test_small_queries_that_are_not_measured_do_not_wait_among_heavy_ones(
    server: DrillServer, crowd: str
) -> None:
    """The crowd has one shape, or many that are not known either."""
    heavy = [HEAVY] if crowd == "measured" else [build_heavy(n) for n in range(1, CROWDS)]
    known = HEAVY if crowd == "measured" else build_heavy(0)  # it costs the same
    few = await burst(server.port, FEW, SECONDS, request=known)
    crowded = asyncio.create_task(burst(server.port, MANY, SECONDS, request=heavy))
    small = await asyncio.to_thread(ask_small, server, SECONDS)
    many = await crowded
    print(f"\n{FEW} callers: {few.describe()}\n{MANY} callers ({crowd}): {many.describe()}")
    print(f"small queries: {small.describe()}, longest {max(small.times):.2f} s", end="")
    print(f" ({describe_load()}); {rate(many) / rate(few):.0%} of the rate")
    assert set(many.seen.answers) <= {"200", "503"}
    assert max(many.seen.refused, default=0.0) < WAIT_SECONDS + 2
    assert set(small.answers) == {"200"}
    assert small.p99 < 1.0
    assert rate(many) >= 0.8 * rate(few)


def build_heavy(number: int) -> bytes:
    return post("/graphql/load", {"query": f"{{heavy{number} {{id n}}}}"})


def ask_small(server: DrillServer, seconds: float) -> Seen:
    """Ask each small query once, two at a time."""
    seen, until, numbers = Seen(), time.monotonic() + seconds, iter(range(SHAPES))

    def run() -> None:
        for number in numbers:
            query = {"query": f"{{small{number} {{n}}}}"}
            status, _, took = server.ask("POST", "/graphql/load", query)
            seen.times.append(took)
            seen.answers[str(status)] += 1
            if time.monotonic() > until:
                return
            time.sleep(0.05)

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(run) for _ in range(2)]:
            done.result()
    return seen


def rate(found: Burst) -> float:
    """Answers per second, until the last one."""
    return found.seen.answers["200"] / found.seconds
