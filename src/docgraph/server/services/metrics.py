"""`GET /metrics`: metrics for Prometheus, summed over all worker processes, and their history."""

from __future__ import annotations

import asyncio
import platform
import time
from typing import ClassVar

import msgspec

from docgraph.exchange import Answer, Body, Exchange
from docgraph.observe import prometheus
from docgraph.observe.metrics_history import INTERVAL, MetricsHistory
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

    def __init__(self, config: MetricsConfig, blocking: Blocking, instance: Instance) -> None:
        self._lane = blocking.lane("metrics", concurrency=1, queue=16)
        self._instance = instance
        self._history = MetricsHistory(instance.directory)
        self._tasks = Tasks()

    async def provision(self) -> None:
        """Start to record the history."""
        self._tasks.start("metrics-history", self._record)

    async def close(self) -> None:
        """Stop to record the history."""
        await self._tasks.close()

    async def _record(self) -> None:
        while True:
            await run_blocking(self._lane, self._history.record)
            await asyncio.sleep(INTERVAL)

    async def handle(self, exchange: Exchange) -> Answer:
        """Return the text format of Prometheus; collects the files of all workers."""
        if exchange.request.query.get("history") == "true":
            content = await run_blocking(self._lane, self._render_history)
            return Body(200, content, "application/json", [("Cache-Control", "no-store")])
        text = await run_blocking(self._lane, prometheus.render)
        return Body(content=text, media_type=prometheus.CONTENT_TYPE)

    def _render_history(self) -> bytes:
        self._history.record()
        content = {
            "instance": self._instance.id,
            "host": platform.node(),
            "interval": INTERVAL,
            "now": time.time(),
            "points": self._history.load(),
        }
        return msgspec.json.encode(content)
