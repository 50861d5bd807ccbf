"""Metrics export (OTLP): one process sends the metrics of the whole instance regularly."""

from __future__ import annotations

import os
import threading
import time
from typing import Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics.export import MetricExportResult

from docgraph.observe import prometheus
from docgraph.observe.bus import emit
from docgraph.observe.events import BackgroundFailed
from docgraph.observe.otel.collector import (
    CLOSE_SECONDS,
    CollectorStatus,
    build_resource,
    find_address,
)
from docgraph.observe.otel.numbers import convert
from docgraph.observe.otel.session import CollectorSession
from docgraph.observe.sections import Otel

_INTERVAL: Final = "OTEL_METRIC_EXPORT_INTERVAL"
_DEFAULT_MS: Final = 60_000
_LEAST_MS, _MAX_MS = 100, 86_400_000  # as for the option
_LONGEST_NUMBER: Final = 19  # digits


class MetricsSender:
    """A thread that sends until it is closed, and then a last time."""

    def __init__(self, options: Otel, instance: bytes, version: str) -> None:
        address = find_address(options, "metrics")
        self._contact = CollectorStatus("metrics", address)
        self._exporter = OTLPMetricExporter(
            endpoint=address, headers=options.headers or None, session=CollectorSession()
        )
        self._resource = build_resource(options, instance, version)
        self._seconds = _find_interval(options) / 1000
        self._started = time.time_ns()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otel-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send the last numbers, unless the collector is lost; for a bounded time."""
        self._over.set()
        self._thread.join(CLOSE_SECONDS)
        self._exporter.shutdown()
        self._contact.close()

    def _run(self) -> None:
        while not self._over.wait(self._seconds):
            self._send()
        if not self._contact.is_lost:
            self._send()

    def _send(self) -> None:
        try:
            span = (self._started, time.time_ns())
            result = self._exporter.export(convert(prometheus.collect(), self._resource, span))
        except Exception as error:  # a thread that ends would send nothing more
            emit(BackgroundFailed("otel-metrics", error, retry_seconds=self._seconds))
        else:
            self._contact.record(is_taken=result is MetricExportResult.SUCCESS)


def _find_interval(options: Otel) -> int:
    if options.interval_ms is not None:
        return options.interval_ms
    given = os.environ.get(_INTERVAL, "").strip()
    if not given.isdecimal() or len(given) > _LONGEST_NUMBER or not int(given):
        return _DEFAULT_MS
    return min(max(int(given), _LEAST_MS), _MAX_MS)
