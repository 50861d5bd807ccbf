"""L34: a thousand live queries with different keys, and twenty writes a second.

    make drill-l34                  QUERIES=1000 WRITES=20 SECONDS=15

Each write concerns one query. The delay of an answer is the time from the moment before its
document is written until the client has read it.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import time
from pathlib import Path
from typing import Any

import pytest
from pymongo import AsyncMongoClient, MongoClient

from tests.drills.server import describe_load, serving, wait_until

QUERIES = int(os.environ.get("QUERIES", "1000"))
WRITES = int(os.environ.get("WRITES", "20"))  # per second
SECONDS = float(os.environ.get("SECONDS", "15"))
LONGEST_DELAY = 0.5  # seconds, 99 of 100
DB = "drill_live"
_AT_ONCE = 20  # queries that begin at the same time
_PATIENCE = 60.0

pytestmark = pytest.mark.timeout(SECONDS * 3 + 240)

APP = {
    "_id": "things",
    "descriptor": {"live": True},
    "schema": "type Query { things(key: Int!): [Thing] } type Thing { number: Int }",
    "mappings": {
        "Query": {"things": {"db": DB, "collection": "things", "find": {"key": {"$arg": "key"}}}}
    },
}


class Reader:
    """A client with one live query."""

    def __init__(self, key: int) -> None:
        self.key = key
        self.received: dict[int, float] = {}
        self._news = asyncio.Event()

    async def open(self, port: int) -> None:
        self._streams = await asyncio.open_connection("127.0.0.1", port)
        query = "query ($key: Int!) @live { things(key: $key) { number } }"
        body = json.dumps({"query": query, "variables": {"key": self.key}}).encode()
        head = (
            "POST /graphql/things HTTP/1.1\r\nHost: localhost\r\nAccept: text/event-stream\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self._streams[1].write(head.encode() + body)
        self._reading = asyncio.create_task(self._read())
        async with asyncio.timeout(_PATIENCE):
            await self.wait(0)

    async def wait(self, number: int) -> None:
        """Wait until the answer with that number has come."""
        while number not in self.received:
            self._news.clear()
            await self._news.wait()

    async def _read(self) -> None:
        while line := await self._streams[0].readline():
            if line.startswith(b"data:{"):
                (thing,) = json.loads(line[5:])["data"]["things"]
                self.received[thing["number"]] = time.monotonic()
                self._news.set()

    async def close(self) -> None:
        self._reading.cancel()
        self._streams[1].close()


async def measure(port: int, uri: str) -> list[float]:
    """The delays of the answers to all writes."""
    readers = [Reader(key) for key in range(QUERIES)]
    for start in range(0, QUERIES, _AT_ONCE):
        await asyncio.gather(*(one.open(port) for one in readers[start : start + _AT_ONCE]))
    written: list[tuple[Reader, int, float]] = []
    chosen = random.Random(34).choices(readers, k=int(SECONDS * WRITES))
    async with AsyncMongoClient[dict[str, Any]](uri) as mongo:
        things, begun = mongo[DB]["things"], time.monotonic()
        for number, reader in enumerate(chosen, 1):
            await asyncio.sleep(max(0.0, begun + number / WRITES - time.monotonic()))
            moment = time.monotonic()
            await things.update_one({"key": reader.key}, {"$set": {"number": number}})
            written.append((reader, number, moment))
    last = {id(reader): number for reader, number, _ in written}
    async with asyncio.timeout(_PATIENCE):
        for reader in {id(one): one for one, _, _ in written}.values():
            await reader.wait(last[id(reader)])
    await asyncio.gather(*(one.close() for one in readers))
    return [  # an answer may have several writes of one document
        min(at for seen, at in reader.received.items() if seen >= number) - moment
        for reader, number, moment in written
    ]


def count_runs(text: str) -> int:
    """The executions of live queries, by the metrics."""
    found = re.findall(r'^docgraph_live_runs_total\{execution="own".*\} (\S+)$', text, re.MULTILINE)
    return int(sum(map(float, found)))


def test_l34_a_write_is_answered_to_the_query_that_it_concerns(
    mongo_uri: str, tmp_path: Path
) -> None:
    options = {
        "mclient__connection_string": mongo_uri,
        "graphql__db": DB,
        "events__max_connections_per_address": str(QUERIES + 10),
        "connection_options__max_connections_per_address": str(QUERIES + 100),
        "connection_options__max_connections": str(QUERIES + 100),
    }
    with MongoClient[dict[str, Any]](mongo_uri) as mongo:
        mongo.drop_database(DB)
        mongo[DB]["things"].create_index("key")
        mongo[DB]["things"].insert_many([{"key": key, "number": 0} for key in range(QUERIES)])
        mongo[DB]["gql-apps"].insert_one(APP)
        with serving(tmp_path, **options) as server:
            ready = {"query": "{ __typename }"}
            wait_until(lambda: server.ask("POST", "/graphql/things", ready)[0] == 200)
            before = server.read_cpu()
            delays = sorted(asyncio.run(measure(server.port, mongo_uri)))
            cpu = server.read_cpu() - before
            metrics = server.ask("GET", "/metrics")[1]
        mongo.drop_database(DB)
    p50, p99 = delays[len(delays) // 2], delays[int(len(delays) * 0.99)]
    executions = count_runs(metrics.decode())
    print(f"\nl34, {QUERIES} live queries, {len(delays)} writes: {executions} executions", end="")
    print(f", delay p50 {p50 * 1000:.0f} ms, p99 {p99 * 1000:.0f} ms", end="")
    print(f"; CPU {cpu:.1f} s; {describe_load()}")
    assert p99 < LONGEST_DELAY
    assert 0 < executions <= 2 * len(delays) + 10
