"""Services of plugins with a plain `def handle`: threads that grow while they block.

`core.workers-scheduler-parallelism` and `core.workers-scheduler-max-pool-size`.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, ClassVar

import pytest

from docgraph import Answer, Body, Exchange, Interceptor, Point
from docgraph import Service as PluginService
from docgraph.server.builtin import BUILTIN
from tests.http.harness import Document, Mongo, Reply, Service, eventually, running

pytestmark = pytest.mark.anyio

HANGS_SECONDS = 60


class Slow(PluginService):
    """Blocks its thread until the test opens the gate; counts how many are inside."""

    name: ClassVar[str] = "slow"
    uri: ClassVar[str] = "/slow"
    gate: ClassVar[threading.Event] = threading.Event()
    inside: ClassVar[set[str]] = set()

    def handle(self, exchange: Exchange) -> Answer:  # type: ignore[override]
        self.inside.add(exchange.id)
        try:
            assert self.gate.wait(HANGS_SECONDS)
        finally:
            self.inside.discard(exchange.id)
        return Body(200, threading.current_thread().name.encode(), "text/plain")


class PlainStamp(Interceptor):
    """Needs a thread for every answer."""

    name: ClassVar[str] = "plainStamp"
    point: ClassVar[Point] = Point.RESPONSE

    def handle(self, exchange: Exchange) -> None:  # type: ignore[override]
        exchange.headers.append(("X-Thread", threading.current_thread().name))


@asynccontextmanager
async def slow_service(mongo: Mongo, uri: str, settings: Document) -> AsyncIterator[Service]:
    Slow.gate.clear()
    async with running(mongo, uri, settings, plugins=(*BUILTIN, Slow, PlainStamp)) as service:
        try:
            yield service
        finally:
            Slow.gate.set()


def flood(service: Service, count: int) -> list[asyncio.Task[Reply]]:
    return [start(service.request("GET", "/slow")) for _ in range(count)]


def start(work: Coroutine[Any, Any, Reply]) -> asyncio.Task[Reply]:
    return asyncio.get_running_loop().create_task(work)


async def test_blocking_services_get_as_many_threads_as_there_may_be(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """Many more than the parallelism, at the same time."""
    settings = {"core": {"workers-scheduler-parallelism": 1}}
    async with slow_service(mongo_client, mongo_uri, settings) as service:
        tasks = flood(service, 24)
        await eventually(lambda: len(Slow.inside) == 24)
        Slow.gate.set()
        threads = {(await task).text for task in tasks}
        assert len(threads) == 24


async def test_the_pool_ends_at_its_size_and_more_requests_wait(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    settings = {"core": {"workers-scheduler-max-pool-size": 3}}
    async with slow_service(mongo_client, mongo_uri, settings) as service:
        lane = service.app.plugins.values["blocking"].blocking_lane("services")
        tasks = flood(service, 8)
        await eventually(lambda: (lane.inside, lane.waiting) == (3, 5))
        await eventually(lambda: len(Slow.inside) == 3)
        Slow.gate.set()
        assert len({(await task).text for task in tasks}) <= 3


async def test_who_waits_for_a_thread_too_long_is_told_to_come_again(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    settings = {"core": {"workers-scheduler-max-pool-size": 1, "wait-timeout-ms": 200}}
    async with slow_service(mongo_client, mongo_uri, settings) as service:
        tasks = flood(service, 2)
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        late = done.pop().result()
        assert (late.status, late.json["code"]) == (503, "overloaded")
        assert late.headers["retry-after"] == "1"


async def test_blocked_services_keep_nobody_else_out(mongo_client: Mongo, mongo_uri: str) -> None:
    """Not by the requests in flight, not by the threads of interceptors, not by other lanes."""
    settings = {
        "connection-options": {"max-requests-in-flight": 4, "queue": 0},
        "core": {"workers-scheduler-max-pool-size": 8},
    }
    async with slow_service(mongo_client, mongo_uri, settings) as service:
        lane = service.app.plugins.values["blocking"].blocking_lane("services")
        tasks: list[asyncio.Task[Reply]] = []
        for number in range(1, 13):  # one after the other: no more than four are in flight
            tasks += flood(service, 1)
            await eventually(lambda: lane.inside + lane.waiting == number)  # noqa: B023 - awaited here
        assert (lane.inside, lane.waiting) == (8, 4)

        other = await service.request("GET", "/nothing")
        assert other.status != 503
        assert other.headers["x-thread"].startswith("docgraph-blocking-plugins")
        Slow.gate.set()
        assert {(await task).status for task in tasks} == {200}
