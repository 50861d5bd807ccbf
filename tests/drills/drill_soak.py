"""A server under a load that lasts: nothing fails, and nothing grows.

    make drill-soak                 SOAK_SECONDS=1800 is L02 in full, SOAK_SECONDS=14400 L03

In the middle of it the primary steps down. Memory is compared between the first and the last third.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest
from pymongo import MongoClient

from docgraph.embedded.binary import MongodOptions
from tests.drills import blog
from tests.drills.clients import Seen, call
from tests.drills.server import serving
from tests.replica_set import ReplicaSet

SECONDS = float(os.environ.get("SOAK_SECONDS", "120"))
PAUSE = 0.05
MOST_GROWN = 16.0  # MiB

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(SECONDS + 300)]


@pytest.fixture
def members(tmp_path: Path) -> Iterator[ReplicaSet]:
    with ReplicaSet(tmp_path, MongodOptions(cache_gb=0.25, oplog_mb=64)) as members:
        with MongoClient[dict[str, Any]](members.uri) as mongo:
            blog.fill(mongo)
        yield members


async def test_l02_a_load_that_lasts(members: ReplicaSet, tmp_path: Path) -> None:
    mix = [blog.POSTS] * 10 + [blog.NESTED] * 4 + [blog.AGGREGATION, blog.WRITE]
    seen, memory = Seen(), list[float]()
    with serving(tmp_path, mclient__connection_string=members.uri, **blog.OPTIONS) as server:
        process = psutil.Process(server.process.pid)
        warm_until = time.monotonic() + 10
        await asyncio.gather(*(call(server.port, [one], Seen(), warm_until) for one in mix))
        until = time.monotonic() + SECONDS
        half = until - SECONDS / 2
        calls = (call(server.port, [one], seen, until, pause=PAUSE) for one in mix)
        tasks = [asyncio.create_task(one) for one in calls]
        while not all(task.done() for task in tasks):
            memory.append(process.memory_info().rss / 2**20)
            await asyncio.wait(tasks, timeout=1)
            if half and time.monotonic() > half:
                await asyncio.to_thread(members.step_down)
                half = 0.0
    third = max(1, len(memory) // 3)
    first, last = median(memory[:third]), median(memory[-third:])
    print(f"\nl02, {SECONDS:.0f} s with a step-down: {seen.describe()}", end="")
    print(f", longest {max(seen.times):.1f} s; {first:.0f} MiB, at the end {last:.0f} MiB")
    assert set(seen.answers) <= {"200", "201"}
    assert seen.p99 < 1.0
    assert last - first < MOST_GROWN
