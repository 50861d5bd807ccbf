"""`GET /metrics`: metrics for Prometheus, summed over all worker processes."""

from __future__ import annotations

from typing import ClassVar

from docgraph.exchange import Answer, Body, Exchange
from docgraph.observe import prometheus
from docgraph.plugins.kinds import Service
from docgraph.runtime import Blocking, run_blocking
from docgraph.server.services.sections import Metrics as MetricsConfig


class MetricsService(Service):
    """Secured: callers need a permission for it."""

    name: ClassVar[str] = "metrics"
    description: ClassVar[str] = "counters and timings for Prometheus"
    uri: ClassVar[str] = "/metrics"
    exact: ClassVar[bool] = True
    is_same_for_all: ClassVar[bool] = True
    Config = MetricsConfig

    def __init__(self, config: MetricsConfig, blocking: Blocking) -> None:
        self._lane = blocking.lane("metrics", concurrency=1, queue=16)

    async def handle(self, exchange: Exchange) -> Answer:
        """Return the text format of Prometheus; collects the files of all workers."""
        text = await run_blocking(self._lane, prometheus.render)
        return Body(content=text, media_type=prometheus.CONTENT_TYPE)
