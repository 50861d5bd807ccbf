"""A server under a load that lasts: nothing fails, and nothing grows.

    make drill-l02                  SOAK_SECONDS=1800 is L02 in full
    make drill-l03                  SOAK_SECONDS=14400 is L03 in full

L02: in the middle of it the primary steps down, and memory is compared between the first and the
last third. L03: at three tenths of what the server holds, the primary steps down in each quarter,
and memory is compared between the first and the last one.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest
from pymongo import MongoClient

from docgraph.embedded.mongod_setup import MongodOptions
from tests.drills import blog
from tests.drills.burst import burst
from tests.drills.clients import Seen, call
from tests.drills.server import DrillServer, describe_load, serving
from tests.replica_set import ReplicaSet

SECONDS = float(os.environ.get("SOAK_SECONDS", "120"))
PAUSE = 0.05
WARM = 10.0  # seconds
HOURS = 4
MIX = [blog.POSTS] * 10 + [blog.NESTED] * 4 + [blog.AGGREGATION, blog.WRITE]
MAX_GROWN = 16.0  # MiB

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(SECONDS + 300)]


@pytest.fixture
def members(tmp_path: Path) -> Iterator[ReplicaSet]:
    with ReplicaSet(tmp_path, MongodOptions(cache_gb=0.25, oplog_mb=64)) as members:
        with MongoClient[dict[str, Any]](members.uri) as mongo:
            blog.fill(mongo)
        yield members


@dataclass(frozen=True)
class Soaked:
    """What became of a load that lasted."""

    seen: Seen
    memory: list[float]  # MiB, every second

    def describe(self) -> str:
        return f"{self.seen.describe()}, longest {max(self.seen.times):.1f} s"

    def compare(self, parts: int) -> tuple[float, float]:
        """The memory of the first and of the last part."""
        size = max(1, len(self.memory) // parts)
        return median(self.memory[:size]), median(self.memory[-size:])


async def soak(
    members: ReplicaSet, server: DrillServer, seconds: float, *, pause: float, step_downs: int
) -> Soaked:
    """A mixed load, with so many step-downs of the primary in equal distances."""
    soaked, process = Soaked(Seen(), []), psutil.Process(server.process.pid)
    warm_until = time.monotonic() + WARM
    await asyncio.gather(*(call(server.port, [one], Seen(), warm_until) for one in MIX))
    begun = time.monotonic()
    moments = [begun + seconds * (number + 0.5) / step_downs for number in range(step_downs)]
    calls = (call(server.port, [one], soaked.seen, begun + seconds, pause=pause) for one in MIX)
    tasks = [asyncio.create_task(one) for one in calls]
    while not all(task.done() for task in tasks):
        soaked.memory.append(process.memory_info().rss / 2**20)
        await asyncio.wait(tasks, timeout=1)
        if moments and time.monotonic() > moments[0]:
            await asyncio.to_thread(members.step_down)
            del moments[0]
    return soaked


async def test_l02_a_load_that_lasts(members: ReplicaSet, tmp_path: Path) -> None:
    with serving(tmp_path, mclient__connection_string=members.uri, **blog.OPTIONS) as server:
        soaked = await soak(members, server, SECONDS, pause=PAUSE, step_downs=1)
    first, last = soaked.compare(3)
    print(f"\nl02, {SECONDS:.0f} s with a step-down: {soaked.describe()}", end="")
    print(f"; {first:.0f} MiB, at the end {last:.0f} MiB; {describe_load()}")
    assert set(soaked.seen.answers) <= {"200", "201"}
    assert soaked.seen.p99 < 1.0
    assert last - first < MAX_GROWN


async def test_l03_four_hours_with_an_election_in_each(members: ReplicaSet, tmp_path: Path) -> None:
    """In small: a quarter of the time is an hour."""
    with serving(tmp_path, mclient__connection_string=members.uri, **blog.OPTIONS) as server:
        await burst(server.port, 8, 1.0, request=blog.POSTS)
        capacity = (await burst(server.port, 8, 3.0, request=blog.POSTS)).seen.answers["200"] / 3
        pause = len(MIX) / (0.3 * capacity)
        soaked = await soak(members, server, SECONDS, pause=pause, step_downs=HOURS)
    first, last = soaked.compare(HOURS)
    asked = len(soaked.seen.times) / SECONDS
    print(f"\nl03, {SECONDS:.0f} s with {HOURS} step-downs, {asked:.0f} a second", end="")
    print(f" of {capacity:.0f}: {soaked.describe()}", end="")
    print(f"; {first:.0f} MiB, at the end {last:.0f} MiB; {describe_load()}")
    assert set(soaked.seen.answers) <= {"200", "201"}
    assert last < first * 1.05
