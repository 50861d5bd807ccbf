"""A process with little memory left: large answers wait for each other, and it survives."""

from __future__ import annotations

import resource
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psutil
from pymongo import MongoClient

from tests.databases import drop, new_name
from tests.process.harness import run_server

ROOM = 160 << 20  # bytes
READS = 12


def test_large_answers_wait_where_memory_is_short(mongo_uri: str) -> None:
    """All of them at the same time would need twice what there is."""
    name = new_name()
    settings = {
        "mclient": {"connection-string": mongo_uri, "min-pool-size": 0},
        "fullAuthorizer": {"enabled": True, "authentication-required": False},
        "dbAclAuthorizer": {"enabled": False},
        "dbRealmAuthenticator": {"enabled": False},
        "basicAuthMechanism": {"enabled": False},
        "mongo": {"uri": "/rest", "mongo-mounts": [{"what": f"/{name}", "where": "/data"}]},
        "core": {"wait-timeout-ms": 60_000},
    }
    with MongoClient[dict[str, Any]](mongo_uri) as mongo, run_server(settings) as server:
        try:
            words = [f"{word:04}" for word in range(1000)]
            mongo[name]["large"].insert_many({"_id": n, "words": words} for n in range(800))
            assert server.get("/rest/data/large?pagesize=1").status == 200
            process = psutil.Process(server.process.pid)
            limit = process.memory_info().vms + ROOM
            resource.prlimit(process.pid, resource.RLIMIT_AS, (limit, limit))

            with ThreadPoolExecutor(READS) as threads:
                paths = ["/rest/data/large?pagesize=800"] * READS
                answers = list(threads.map(server.get, paths))

            assert {answer.status for answer in answers} == {200}
            assert len({answer.body for answer in answers}) == 1
            assert server.process.poll() is None
            assert server.get("/rest/data/large?pagesize=800").status == 200
        finally:
            drop(mongo, name)
