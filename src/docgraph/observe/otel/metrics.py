"""Metrics export (OTLP): one process sends the metrics of the whole instance regularly."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Final

from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.sdk.metrics import export as otlp
from opentelemetry.sdk.metrics.export import MetricExportResult
from opentelemetry.sdk.resources import Resource
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from docgraph.observe import emit, prometheus
from docgraph.observe.events import BackgroundFailed
from docgraph.observe.otel.collector import (
    CLOSE_SECONDS,
    CollectorSession,
    CollectorStatus,
    build_resource,
    build_scope,
    find_address,
)
from docgraph.observe.sections import Otel

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
    given = os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", "").strip()
    if not given.isdecimal() or len(given) > _LONGEST_NUMBER or not int(given):
        return _DEFAULT_MS
    return min(max(int(given), _LEAST_MS), _MAX_MS)


_UNITS: Final = {"_seconds": "s", "_bytes": "By"}
_NOT_KEPT: Final[Any] = None  # may be omitted, whatever its type says
_CUMULATIVE: Final = otlp.AggregationTemporality.CUMULATIVE

LabelPairs = tuple[tuple[str, str], ...]
Span = tuple[int, int]  # when counting began, and now


def convert(families: Iterable[Metric], resource: Resource, span: Span) -> otlp.MetricsData:
    """Convert all metrics to one message; `span` is the time of counting, in nanoseconds."""
    metrics = [_convert_metric(family, span) for family in families if family.samples]
    scope = otlp.ScopeMetrics(build_scope(resource), metrics, "")
    return otlp.MetricsData([otlp.ResourceMetrics(resource, [scope], "")])


def _convert_metric(family: Metric, span: Span) -> otlp.Metric:
    data: otlp.Sum | otlp.Gauge | otlp.Histogram
    if family.type == "histogram":
        data = otlp.Histogram(list(_read_histograms(family.samples, span)), _CUMULATIVE)
    elif family.type == "counter":
        data = otlp.Sum(_read_numbers(family.samples, span), _CUMULATIVE, is_monotonic=True)
    else:
        data = otlp.Gauge(_read_numbers(family.samples, span))
    unit = next((unit for end, unit in _UNITS.items() if family.name.endswith(end)), "")
    return otlp.Metric(family.name, family.documentation, unit, data)


def _read_numbers(samples: Iterable[Sample], span: Span) -> list[otlp.NumberDataPoint]:
    return [otlp.NumberDataPoint(dict(sample.labels), *span, sample.value) for sample in samples]


def _read_histograms(samples: Iterable[Sample], span: Span) -> Iterator[otlp.HistogramDataPoint]:
    """Convert histograms: buckets of Prometheus are cumulative, those of OTLP are not."""
    sums: dict[LabelPairs, float] = {}
    buckets: dict[LabelPairs, dict[float, float]] = {}
    for sample in samples:
        labels = tuple(sorted(pair for pair in sample.labels.items() if pair[0] != "le"))
        if sample.name.endswith("_bucket"):
            buckets.setdefault(labels, {})[float(sample.labels["le"])] = sample.value
        elif sample.name.endswith("_sum"):
            sums[labels] = sample.value
    for labels, by_bound in buckets.items():
        bounds = sorted(by_bound)
        counts = [int(by_bound[bound]) for bound in bounds]
        in_bucket = [after - before for before, after in pairwise([0, *counts])]
        yield otlp.HistogramDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=span[0],
            time_unix_nano=span[1],
            count=counts[-1],
            sum=sums.get(labels, 0.0),
            bucket_counts=in_bucket,
            explicit_bounds=bounds[:-1],  # the last one has no upper bound
            min=_NOT_KEPT,
            max=_NOT_KEPT,
        )
