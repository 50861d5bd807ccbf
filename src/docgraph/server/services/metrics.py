"""`GET /metrics`: counters for Prometheus, one truth over all worker processes."""

from __future__ import annotations

from typing import ClassVar

from docgraph.config.sections import Metrics as MetricsConfig
from docgraph.exchange import Answer, Body, Exchange
from docgraph.observe import metrics
from docgraph.plugins.kinds import Service

__all__ = ["MetricsService"]


class MetricsService(Service):
    """Secured: what a server does is nobody else's business."""

    name: ClassVar[str] = "metrics"
    description: ClassVar[str] = "counters and timings for Prometheus"
    uri: ClassVar[str] = "/metrics"
    exact: ClassVar[bool] = True
    Config = MetricsConfig

    async def handle(self, exchange: Exchange) -> Answer:
        """The text format of Prometheus."""
        return Body(content=metrics.render(), media_type=metrics.CONTENT_TYPE)
