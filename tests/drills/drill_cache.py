"""Cached answers on a set of three that elects another primary now and then.

    make drill-cache                SECONDS=600 make drill-cache

One writer writes through two instances and straight into the database; readers compare every answer
with the states of the last second, the longest lag. A member is stopped and frozen meanwhile.
"""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from pymongo import MongoClient

from tests.databases import drop
from tests.http.access_harness import guarded
from tests.http.cache_checker import Checker
from tests.http.harness import Document
from tests.replica_set import ReplicaSet

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(3_000)]

SECONDS = float(os.environ.get("SECONDS", "60"))
LAG = 1.0
SETTINGS: Document = {
    "graphql": {"cache": {"max-lag-ms": int(LAG * 1000)}, "explain": ["user", "admin"]}
}


async def test_answers_are_never_older_than_the_lag(replica_set: ReplicaSet, run_seed: int) -> None:
    uri = await asyncio.to_thread(replica_set.start)
    with MongoClient[Document](f"{uri}&w=majority") as mongo:
        async with (
            guarded(mongo, f"{uri}&w=majority", SETTINGS) as own,
            guarded(mongo, f"{uri}&w=majority", SETTINGS, db=own.db, drop=False) as other,
        ):
            checker = Checker(own, other, run_seed, LAG, is_tolerant=True)
            await checker.prepare()
            faults = asyncio.create_task(make_faults(replica_set))
            try:
                await checker.run(10**9, readers=4, seconds=SECONDS)
            finally:
                faults.cancel()
                await asyncio.gather(faults, return_exceptions=True)
                await asyncio.to_thread(replica_set.start)
        print(f"\n{checker.writes} writes, {checker.reads} reads: {dict(checker.statuses)}")
        drop(mongo, own.db)
    assert checker.hits


async def make_faults(members: ReplicaSet) -> None:
    """Let the primary step down, then freeze it for some seconds, and so on."""
    while True:
        await asyncio.sleep(7)
        await asyncio.to_thread(members.step_down, 5)
        await asyncio.sleep(7)
        primary = await asyncio.to_thread(members.await_primary)
        pid = primary.pid
        if pid is None:
            continue
        os.kill(pid, signal.SIGSTOP)
        try:
            await asyncio.sleep(4)
        finally:
            os.kill(pid, signal.SIGCONT)
