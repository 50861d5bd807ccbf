"""`GET /metrics`: metrics for Prometheus, summed over all worker processes, and their history."""

from __future__ import annotations

import asyncio
import platform
import time
from typing import ClassVar

import msgspec

from docgraph.exchange import Answer, Body, Exchange
from docgraph.exchange.errors import Forbidden
from docgraph.observe import prometheus, subscribe, unsubscribe
from docgraph.observe.event import OperationFinished
from docgraph.observe.metric_list import SECONDS
from docgraph.observe.recent_metrics import INTERVAL, MetricsHistory, OperationStatistics
from docgraph.plugins.kinds import Service
from docgraph.runtime import Blocking, Instance, run_blocking
from docgraph.runtime.tasks import Tasks
from docgraph.server.services.sections import Metrics as MetricsConfig


class MetricsService(Service):
    """Secured: callers need a permission for it."""

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
        """Start to record the history."""
        subscribe(self._operations.count, wants=lambda kind: kind is OperationFinished)
        self._tasks.start("metrics-history", self._record)

    async def close(self) -> None:
        """Stop to record the history."""
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
