"""Overload: many times as many heavy queries as the database can run, and small ones beside them.

    make drill-overload

A crowd must achieve what a few callers achieve, wait no longer than `core.wait-timeout-ms`, and
leave room for queries that cost little. Nothing of it is a fault of the database.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.drills.blog import post
from tests.drills.burst import Burst, burst
from tests.drills.server import DrillServer, describe_load, serving, wait_until

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

DB, ROWS = "overload", 60_000
FEW, MANY = 50, 300
SECONDS = 10.0
WAIT_SECONDS = 15.0  # `core.wait-timeout-ms`
APP = {
    "_id": "load",
    "descriptor": {"uri": "load", "name": "load", "enabled": True},
    "schema": "type Query { heavy: [Row] light(id: Int): [Row] } type Row { id: Int n: Int }",
    "mappings": {
        "Query": {
            "heavy": {
                "db": DB,
                "collection": "rows",
                "stages": [
                    {"$group": {"_id": {"$mod": ["$n", 7]}, "n": {"$sum": "$n"}}},
                    {"$sort": {"_id": 1}},
                ],
            },
            "light": {"db": DB, "collection": "rows", "find": {"_id": {"$arg": "id"}}},
        },
        "Row": {"id": "_id"},
    },
}
HEAVY = post("/graphql/load", {"query": "{heavy {id n}}"})
LIGHT = post("/graphql/load", {"query": "{light(id: 7) {n}}"})


@pytest.fixture
def server(mongo_uri: str, tmp_path: Path) -> Iterator[DrillServer]:
    with MongoClient[dict[str, Any]](mongo_uri) as mongo:
        mongo.drop_database(DB)
        mongo[DB]["rows"].insert_many({"_id": n, "n": n, "kind": n % 9} for n in range(ROWS))
        mongo[DB]["gql-apps"].insert_one(APP)
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


def rate(found: Burst) -> float:
    """Answers per second, until the last one."""
    return found.seen.answers["200"] / found.seconds
