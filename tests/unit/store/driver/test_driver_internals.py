"""Waiting inside the driver: whoever gives up leaves its lock to the one that holds it."""

from __future__ import annotations

import asyncio

import pytest

from docgraph.store.driver.client import build_client
from docgraph.store.sections import MClient

pytestmark = pytest.mark.anyio

NOWHERE = "mongodb://127.0.0.1:1/?heartbeatFrequencyMS=600000"
STEPS = 5  # of the loop, enough for everything that a cancellation sets going


async def give_up(waiting: asyncio.Task[object]) -> None:
    waiting.cancel()
    for _ in range(STEPS):
        await asyncio.sleep(0)


async def test_a_command_that_is_cancelled_twice_releases_no_lock_of_others() -> None:
    """Its time is up, and then its client leaves, while a monitor notes what it has seen."""
    async with build_client(MClient(), NOWHERE) as client:
        topology = client._topology
        waiting = asyncio.create_task(client.admin.command("ping"))
        while not topology._condition._waiters:  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0)

        async with topology._lock:
            await give_up(waiting)
            await give_up(waiting)
            assert topology._lock.locked()
            assert not waiting.done()

        await asyncio.wait({waiting})
        assert waiting.cancelled()
        async with asyncio.timeout(60), topology._lock:
            pass
