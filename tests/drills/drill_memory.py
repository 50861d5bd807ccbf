"""Memory comes back: after a flood of refusals, slow readers and large answers, when it is quiet.

    make drill-memory               IDLE_SECONDS=60 is the default

The server is asked for a while first, so that its base is that of a server at work. After each
attack nobody asks for anything, and the resident memory of the process that serves is measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from pymongo import MongoClient

from tests.drills.server import DrillServer, serving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(900)]

IDLE = float(os.environ.get("IDLE_SECONDS", "60"))
MAX_KEPT = 64  # MiB beyond the base
CONNECTIONS = 2_500  # 500 more than a server takes
REFUSALS = 20_000
SLOW_READERS, SLOW_SECONDS = 200, 15.0
LARGE_READS, LARGE_ROUNDS = 20, 2
DOCUMENTS, LARGE_DOCUMENT = 1_000, 20_000  # 20 MB

REFUSED = (
    b"GET /nowhere/to/be/found HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b'GET /drill/large?filter={"a": HTTP/1.1\r\nHost: localhost\r\n\r\n'.replace(
        b" H", b"%20 H", 1
    ),
    b"PATCH /graphql/drill HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"POST /drill/large HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Content-Length: 1006\r\n\r\n{"a": ' + b"[" * 1000,
    b"POST /graphql/nothing HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b'Content-Length: 16\r\n\r\n{"query": "{a}"}',
)


@pytest.fixture
def server(mongo_uri: str, tmp_path: Path) -> Iterator[DrillServer]:
    with MongoClient[dict[str, Any]](mongo_uri) as mongo:
        for name, size in (("large", LARGE_DOCUMENT), ("middle", 1_000)):
            mongo["drill"][name].drop()
            mongo["drill"][name].insert_many(
                {"_id": n, "words": [f"{n}-{word:04}" for word in range(size // 20)]}
                for n in range(DOCUMENTS)
            )
    mounts = json.dumps([{"what": "/drill", "where": "/drill"}])
    options = {"mclient__connection_string": mongo_uri, "mongo__mongo_mounts": mounts}
    with serving(tmp_path, **options) as server:
        yield server


async def test_memory_comes_back_when_it_is_quiet(server: DrillServer) -> None:
    process = psutil.Process(server.process.pid)
    await flood(server.port, seconds=5)
    base = measure(process)
    print(f"\nbase: {base:.0f} MiB")
    kept: dict[str, float] = {}
    for name, attack in (
        ("a flood of refusals", refusals),
        ("slow readers", slow_readers),
        ("large reads", large_reads),
    ):
        peak = await observe(process, attack(server.port))
        after = measure(process)
        await asyncio.sleep(IDLE)
        kept[name] = measure(process) - base
        print(f"{name}: peak {peak:.0f}, after {after:.0f}, quiet {base + kept[name]:.0f} MiB")
    assert all(one <= MAX_KEPT for one in kept.values()), kept


def measure(process: psutil.Process) -> float:
    return float(process.memory_info().rss) / 2**20


async def observe(process: psutil.Process, attack: Any) -> float:
    """The most memory that the process had during an attack."""
    attacking = asyncio.ensure_future(attack)
    peak = 0.0
    while not attacking.done():
        peak = max(peak, measure(process))
        await asyncio.wait((attacking,), timeout=0.05)
    print(attacking.result())
    return peak


async def flood(port: int, seconds: float) -> Counter[str]:
    """Normal callers, 8 at a time."""
    seen: Counter[str] = Counter()
    until = time.monotonic() + seconds
    request = b"GET /drill/middle?pagesize=20 HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def call() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        while time.monotonic() < until:
            writer.write(request)
            seen[await read_answer(reader)] += 1
        writer.close()

    await asyncio.gather(*(call() for _ in range(8)))
    return seen


async def refusals(port: int) -> Counter[str]:
    """More connections than are taken, and requests that cannot be answered on 64 of them."""
    seen: Counter[str] = Counter()
    streams = []
    for _ in range(CONNECTIONS):
        with suppress(OSError):
            streams.append(await asyncio.open_connection("127.0.0.1", port))

    async def insist(number: int) -> None:
        reader, writer = streams[number]
        for turn in range(REFUSALS // 64):
            writer.write(REFUSED[(number + turn) % len(REFUSED)])
            try:
                seen[await read_answer(reader)] += 1
            except (OSError, asyncio.IncompleteReadError) as error:
                seen[type(error).__name__] += 1
                reader, writer = await asyncio.open_connection("127.0.0.1", port)

    await asyncio.gather(*(insist(number) for number in range(64)))
    for _, writer in streams[64:]:
        with suppress(OSError):
            writer.write(REFUSED[0])
    for _, writer in streams:
        writer.close()
    return seen


async def slow_readers(port: int) -> Counter[str]:
    """Many that ask for a megabyte, several times, and read a few bytes of it."""
    seen: Counter[str] = Counter()
    request = b"GET /drill/middle?pagesize=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def dawdle() -> None:
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(request * 4)
        await asyncio.sleep(SLOW_SECONDS)
        writer.transport.abort()
        seen["left"] += 1

    await asyncio.gather(*(dawdle() for _ in range(SLOW_READERS)))
    return seen


async def large_reads(port: int) -> Counter[str]:
    """20 MB, so many times at once."""
    seen: Counter[str] = Counter()
    request = b"GET /drill/large?pagesize=1000 HTTP/1.1\r\nHost: localhost\r\n\r\n"

    async def read() -> None:
        for _ in range(LARGE_ROUNDS):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(request)
            seen[await read_answer(reader)] += 1
            writer.close()

    await asyncio.gather(*(read() for _ in range(LARGE_READS)))
    return seen


async def read_answer(reader: asyncio.StreamReader) -> str:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0] or 0)
    while length:
        length -= len(await reader.read(min(length, 1 << 18)) or b"".ljust(length))
    return head.split(" ", 2)[1]
