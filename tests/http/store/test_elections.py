"""Readiness while a replica set has no primary (decision 60)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest
from pymongo import MongoClient

from docgraph.embedded.mongod_process import Mongod
from docgraph.observe import Event
from docgraph.observe.events import ElectionAwaited
from docgraph.store.driver.client import BlockingPing
from tests.http.harness import Document, Service, identity, running
from tests.replica_set import ReplicaSet, kill

pytestmark = pytest.mark.anyio

Answer = tuple[int, str | None]
READY, ELECTING, FAILING = (200, None), (200, "electing"), (503, None)


class Probes:
    """The two doors of readiness: the main port, and the check behind the probe listener."""

    def __init__(self, service: Service, ping: BlockingPing) -> None:
        self._service = service
        self._ping = ping
        self.seen: list[tuple[Answer, Answer]] = []

    async def ask(self) -> tuple[Answer, Answer]:
        reply = await self._service.request("GET", "/health/db")
        try:
            is_electing = await asyncio.to_thread(self._ping.ping)
            door = ELECTING if is_electing else READY
        except (ConnectionError, TimeoutError):
            door = FAILING
        status = 503 if reply.status == 504 else reply.status
        self.seen.append(((status, reply.json.get("state")), door))
        return self.seen[-1]

    async def until(self, answer: Answer) -> None:
        """Ask until both give this answer."""
        async with asyncio.timeout(100):
            while await self.ask() != (answer, answer):
                pass  # each question waits for the database


@asynccontextmanager
async def probing(members: ReplicaSet, seconds: float) -> AsyncIterator[Probes]:
    """Requests wait for so many seconds."""
    uri = await asyncio.to_thread(members.start)
    settings: Document = {
        "core": {"wait-timeout-ms": int(seconds * 1000)},
        "mclient": {"server-selection-timeout-ms": int(seconds * 1000)},
    }
    ping = BlockingPing(uri, 2.0, "admin", seconds)
    try:
        with MongoClient[Document](uri) as mongo:
            async with running(mongo, uri, identity("admin"), settings) as service:
                probes = Probes(service, ping)
                await probes.until(READY)
                probes.seen.clear()
                yield probes
                await asyncio.to_thread(members.start)
                await probes.until(READY)
    finally:
        await asyncio.to_thread(ping.close)


async def lose(members: Sequence[Mongod]) -> None:
    for member in members:
        await asyncio.to_thread(kill, member)


async def test_an_election_that_requests_wait_for_is_ready_until_they_fail(
    replica_set: ReplicaSet, events: list[Event]
) -> None:
    async with probing(replica_set, 5) as probes:
        primary = await asyncio.to_thread(replica_set.await_primary)
        other = next(node for node in replica_set.nodes if node is not primary)
        await lose([other, primary])  # one member is left, and can elect nobody
        await probes.until(FAILING)

        for answers in zip(*probes.seen, strict=True):
            assert ELECTING in answers
            assert FAILING not in answers[: answers.index(ELECTING)]
        changes = [one.is_awaited for one in events if isinstance(one, ElectionAwaited)]
        assert changes[:2] == [True, False]  # a busy set may begin to elect again


async def test_without_any_member_nothing_is_ready(replica_set: ReplicaSet) -> None:
    async with probing(replica_set, 500) as probes:
        await lose(replica_set.nodes)
        await probes.until(FAILING)  # long before requests would have waited for 500 s
