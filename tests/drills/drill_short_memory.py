"""Short of memory: more large answers at a time than the memory limit of the process has room for.

    make drill-short-memory

The limit is one of the address space, set while the server runs. Large answers have to wait for
each other, the process must survive, and full service must be back 5 s after the load.
"""

from __future__ import annotations

import asyncio
import json
import resource
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from pymongo import MongoClient

from tests.drills.clients import Seen, call, get
from tests.drills.drill_memory import read_answer
from tests.drills.server import DrillServer, describe_load, serving

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

ROOM = 300 << 20  # bytes beyond what the server has before
READS, ROUNDS = 20, 3
DOCUMENTS, WORDS = 1_000, 1_000  # 20 MB
LARGE = get("/drill/large?pagesize=1000")
SMALL = get("/drill/large?pagesize=1")


@pytest.fixture(params=["1", "2"])
def server(mongo_uri: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[DrillServer]:
    with MongoClient[dict[str, Any]](mongo_uri) as mongo:
        mongo["drill"]["large"].drop()
        mongo["drill"]["large"].insert_many(
            {"_id": n, "words": [f"{n}-{word:04}" for word in range(WORDS)]}
            for n in range(DOCUMENTS)
        )
    mounts = json.dumps([{"what": "/drill", "where": "/drill"}])
    options = {"mclient__connection_string": mongo_uri, "mongo__mongo_mounts": mounts}
    with serving(tmp_path, core__workers=request.param, **options) as server:
        assert server.ask("GET", "/drill/large?pagesize=1")[0] == 200
        yield server


async def test_large_answers_wait_for_memory(server: DrillServer) -> None:
    parent = psutil.Process(server.process.pid)
    processes = [parent, *parent.children(recursive=True)]
    for one in processes:
        room = one.memory_info().vms + ROOM
        resource.prlimit(one.pid, resource.RLIMIT_AS, (room, room))

    begun, small = time.monotonic(), Seen()
    beside = asyncio.create_task(call(server.port, [SMALL], small, float("inf"), pause=0.05))
    seen: Counter[str] = Counter()
    await asyncio.gather(*(read(server.port, seen) for _ in range(READS)))
    took = time.monotonic() - begun
    beside.cancel()
    await asyncio.wait((beside,))

    after = Seen()
    await call(server.port, [LARGE], after, time.monotonic() + 5)
    print(f"\n{READS * ROUNDS} reads of 20 MB in {took:.1f} s: {dict(seen)}", end="")
    print(f"; small ones {small.describe()}; then {after.describe()} ({describe_load()})")
    assert all(one.is_running() for one in processes), server.log.read_text()[-2000:]
    assert server.process.poll() is None
    assert set(seen) <= {"200", "503"}
    assert seen["200"] > 0
    assert set(small.answers) <= {"200", "503"}
    assert set(after.answers) == {"200"}


async def read(port: int, seen: Counter[str]) -> None:
    """Ask for 20 MB, and read the answer."""
    for _ in range(ROUNDS):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(LARGE)
            seen[await read_answer(reader)] += 1
            writer.close()
        except (OSError, asyncio.IncompleteReadError) as error:
            seen[type(error).__name__] += 1
