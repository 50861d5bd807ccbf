"""`GET /ping` (liveness), `GET /health/db` (readiness), `GET /metrics` (Prometheus, history)."""

from __future__ import annotations

import asyncio
import platform
import time
from typing import ClassVar

import msgspec

from docgraph import __version__
from docgraph.exchange import Answer, Body, Exchange
from docgraph.exchange.errors import Forbidden, StoreError, TimeLimitExceeded
from docgraph.observe import prometheus, subscribe, unsubscribe
from docgraph.observe.engine_events import OperationFinished
from docgraph.observe.metric_list import SECONDS
from docgraph.observe.recent_metrics import INTERVAL, MetricsHistory, OperationStatistics
from docgraph.plugins.kinds import Service
from docgraph.runtime import Blocking, Generations, Instance, allocations, run_blocking
from docgraph.runtime.tasks import Tasks
from docgraph.server.services.sections import DatabaseProbe as DatabaseProbeConfig
from docgraph.server.services.sections import Metrics as MetricsConfig
from docgraph.server.services.sections import Ping as PingConfig
from docgraph.store import Store
from docgraph.store.driver.connection_status import ELECTING, Lacking


class DatabaseProbe(Service):
    """Pings the database with a timeout; does not disclose its address."""

    name: ClassVar[str] = "database-probe"
    description: ClassVar[str] = "says whether the database answers"
    uri: ClassVar[str] = "/health/db"
    exact: ClassVar[bool] = True
    secured: ClassVar[bool] = False
    is_probe: ClassVar[bool] = True
    is_same_for_all: ClassVar[bool] = True
    Config = DatabaseProbeConfig

    def __init__(self, config: DatabaseProbeConfig, store: Store, generations: Generations) -> None:
        self._generations = generations
        self._timeout = config.timeout_ms / 1000
        self._db = config.dbname
        self._store = store

    async def handle(self, exchange: Exchange) -> Answer:
        """Return 200 with the latency, 504 for a timeout, 503 for other failures and a stop.

        200 also during an election that requests wait for (decision 60).
        """
        started = time.perf_counter()
        if self._generations.read("stopping"):
            return _report(503, "error", "stopping", started)
        try:
            is_electing = await self._store.is_electing(timeout=self._timeout, db=self._db)
        except TimeLimitExceeded:
            return _report(504, "error", "no answer in time", started)
        except StoreError:
            return _report(503, "error", self._explain(), started)
        if isinstance(fault := self._store.fault, Lacking) and fault.is_serious:
            return _report(503, "error", fault.summary, started)
        if is_electing:
            return _report(200, "ok", ELECTING, started, state="electing")
        return _report(200, "ok", "ping successful", started)

    def _explain(self) -> str:
        if self._generations.read("disk") % 2:
            return "disk full"
        fault = self._store.fault
        return "the database cannot be reached" if fault is None else fault.summary


def _report(status: int, word: str, description: str, started: float, **more: str) -> Body:
    latency = round((time.perf_counter() - started) * 1000)
    body = {"status": word, "description": description, **more, "latencyMs": latency}
    return Body(status, allocations.dumps(body), "application/json")


class Ping(Service):
    """Answers without using the database."""

    name: ClassVar[str] = "ping"
    description: ClassVar[str] = "says whether the server answers"
    uri: ClassVar[str] = "/ping"
    exact: ClassVar[bool] = True
    secured: ClassVar[bool] = False
    is_probe: ClassVar[bool] = True
    is_same_for_all: ClassVar[bool] = True
    Config = PingConfig

    def __init__(self, config: PingConfig) -> None:
        self._message = config.msg
        self._extended = config.enable_extended_response

    async def handle(self, exchange: Exchange) -> Answer:
        """Return the message, with the caller and the version unless disabled."""
        body: dict[str, str] = {"message": self._message}
        if self._extended:
            client = exchange.request.connection.client
            body["client_ip"] = client[0] if client else ""
            body["host"] = exchange.request.headers.get("host") or ""
            body["version"] = __version__
        return Body(content=allocations.dumps(body), media_type="application/json")


class MetricsService(Service):
    """Serves metrics in the Prometheus format to callers with the permission."""

    name: ClassVar[str] = "metrics"
    description: ClassVar[str] = "counters and timings for Prometheus"
    uri: ClassVar[str] = "/metrics"
    exact: ClassVar[bool] = True
    is_same_for_all: ClassVar[bool] = True
    Config = MetricsConfig

    def __init__(
        self, config: MetricsConfig, blocking: Blocking, instance: Instance, root_role: str | None
    ) -> None:
        self._root_role = root_role
        self._lane = blocking.lane("metrics", concurrency=1, queue=16)
        self._instance = instance
        self._history = MetricsHistory(instance.directory)
        self._operations = OperationStatistics(instance.directory, instance.worker)
        self._tasks = Tasks()

    async def provision(self) -> None:
        subscribe(self._operations.count, wants=lambda kind: kind is OperationFinished)
        self._tasks.start("metrics-history", self._record)

    async def close(self) -> None:
        unsubscribe(self._operations.count)
        await self._tasks.close()

    async def _record(self) -> None:
        while True:
            await run_blocking(self._lane, self._history.record)
            await run_blocking(self._lane, self._operations.save)
            await asyncio.sleep(INTERVAL)

    async def handle(self, exchange: Exchange) -> Answer:
        """Return the text format of Prometheus; collects the files of all workers."""
        query = exchange.request.query
        if query.get("operations") == "true":
            if not self._is_root(exchange):
                raise Forbidden("only the root role may read the operations")
            return _answer(await run_blocking(self._lane, self._render_operations))
        if query.get("history") == "true":
            is_root = self._is_root(exchange)
            return _answer(await run_blocking(self._lane, self._render_history, is_root))
        text = await run_blocking(self._lane, prometheus.render)
        return Body(content=text, media_type=prometheus.CONTENT_TYPE)

    def _is_root(self, exchange: Exchange) -> bool:
        return exchange.account is not None and self._root_role in exchange.account.roles

    def _render_operations(self) -> bytes:
        self._operations.save()
        return msgspec.json.encode({"bounds": SECONDS, "operations": self._operations.load()})

    def _render_history(self, is_root: bool) -> bytes:
        self._history.record()
        content = {
            "instance": self._instance.id,
            "host": platform.node() if is_root else "",
            "interval": INTERVAL,
            "now": time.time(),
            "operations": is_root,
            "points": self._history.load(),
        }
        return msgspec.json.encode(content)


def _answer(content: bytes) -> Body:
    return Body(200, content, "application/json", [("Cache-Control", "no-store")])
