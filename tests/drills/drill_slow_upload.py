"""Many connections that send their bodies slowly: normal callers notice nothing of them.

    make drill-slow-upload          SLOW_UPLOADS=1000 and SECONDS=20 are the defaults

Each attacker sends 1.2 KB/s, which is fast enough for `min-body-rate`, and comes again when it is
turned away. Normal callers ask for documents by GraphQL, half of them with their body in a packet
of its own; beside them the probes are asked.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.drills.clients import Seen, call

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

ATTACKERS = int(os.environ.get("SLOW_UPLOADS", "1000"))
DURATION = float(os.environ.get("SECONDS", "20"))
CALLERS = 8
PAUSE, PIECE = 0.5, b"a" * 600  # seconds, and what is sent in them
LONGEST_P99 = 0.250  # seconds

APP = {
    "_id": "drill",
    "schema": "type Query { things(limit: Int = 20): [Thing] } type Thing { n: Int }",
    "mappings": {
        "Query": {"things": {"db": "drill", "collection": "things", "find": {}, "limit": 20}}
    },
}
QUERY = json.dumps({"query": "{ things { n } }"}).encode()


@pytest.fixture
def port(mongo_uri: str, tmp_path: Path) -> Iterator[int]:
    """A server with all its defaults, open to everybody."""
    with MongoClient[dict[str, Any]](mongo_uri) as mongo:
        mongo["docgraph"]["gql-apps"].replace_one({"_id": "drill"}, APP, upsert=True)
        mongo["drill"]["things"].drop()
        mongo["drill"]["things"].insert_many({"n": n} for n in range(100))
    options = {
        "/http-listener/port": "0",
        "/mclient/connection-string": mongo_uri,
        "/fullAuthorizer/enabled": "true",
        "/fullAuthorizer/authentication-required": "false",
    }
    command = [sys.executable, "-m", "docgraph", "serve"]
    with subprocess.Popen(
        [*command, *(f"--set={path}={value}" for path, value in options.items())],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("docgraph ready "), line
        try:
            yield int(line.rsplit(":", 1)[1])
        finally:
            process.terminate()


async def test_slow_uploads_keep_nobody_waiting(port: int) -> None:
    calm = await measure(port, seconds=5)
    with attacking(port) as report:
        stormy = await measure(port, DURATION)
    for name, seen in (("before", calm), ("under attack", stormy)):
        print(*(f"\n{name}: {kind} {one.describe()}" for kind, one in seen.items()), end="")
    print(f"\n{ATTACKERS} attackers, turned away: {report[0]}")

    for kind, one in stormy.items():
        assert set(one.answers) == {"200"}, (kind, one.answers)
        assert one.p99 < LONGEST_P99, (kind, one.p99)


async def measure(port: int, seconds: float) -> dict[str, Seen]:
    """What normal callers and probes see meanwhile."""
    seen = {"queries": Seen(), "/ping": Seen(), "/health/db": Seen()}
    until = time.monotonic() + seconds
    post = "POST /graphql/drill HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    head = f"{post}Content-Length: {len(QUERY)}\r\n\r\n".encode()
    async with asyncio.TaskGroup() as group:
        for number in range(CALLERS):
            packets = [head, QUERY] if number % 2 else [head + QUERY]
            group.create_task(call(port, packets, seen["queries"], until))
        for path in ("/ping", "/health/db"):
            probe = f"GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode()
            group.create_task(call(port, [probe], seen[path], until, pause=0.1, keep=False))
    return seen


@contextmanager
def attacking(port: int) -> Iterator[list[str]]:
    """So many slow uploads, from a process of their own; afterwards what became of them."""
    report: list[str] = []
    command = [sys.executable, "-m", "tests.drills.drill_slow_upload", str(port), str(ATTACKERS)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        yield report
        process.stdin.close()
        report.append(process.stdout.read().strip())


async def attack(port: int, count: int) -> None:
    """Say so when all have begun; end when standard input does."""
    turned_away: Counter[str] = Counter()
    begun = asyncio.Semaphore(0)
    tasks = [asyncio.create_task(upload(port, turned_away, begun)) for _ in range(count)]
    for _ in tasks:
        await begun.acquire()
    print("begun", flush=True)
    await asyncio.to_thread(sys.stdin.read)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    print(dict(turned_away))


async def upload(port: int, turned_away: Counter[str], begun: asyncio.Semaphore) -> None:
    head = b"POST /graphql/drill HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    while True:
        with suppress(OSError):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(head + b"Content-Length: 1000000\r\n\r\n")
                begun.release()
                turned_away[await drip(reader, writer)] += 1
            finally:
                writer.close()
        await asyncio.sleep(PAUSE)


async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    """Send slowly until there is an answer; its status."""
    answer = asyncio.ensure_future(reader.readline())
    try:
        while not answer.done():
            writer.write(PIECE)
            await asyncio.wait((answer,), timeout=PAUSE)
        line = answer.result().decode("latin-1").split()
        return line[1] if len(line) > 1 else "closed"
    finally:
        answer.cancel()


if __name__ == "__main__":
    asyncio.run(attack(int(sys.argv[1]), int(sys.argv[2])))
