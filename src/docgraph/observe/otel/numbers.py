"""Conversion of Prometheus metrics to OTLP, read when they are sent and counted nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, Final

from opentelemetry.sdk.metrics import export as otlp
from opentelemetry.sdk.resources import Resource
from prometheus_client.metrics_core import Metric
from prometheus_client.samples import Sample

from docgraph.observe.otel.collector import build_scope

_UNITS: Final = {"_seconds": "s", "_bytes": "By"}
_NOT_KEPT: Final[Any] = None  # may be omitted, whatever its type says
_CUMULATIVE: Final = otlp.AggregationTemporality.CUMULATIVE

Labels = tuple[tuple[str, str], ...]
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
    return [otlp.NumberDataPoint(dict(one.labels), *span, one.value) for one in samples]


def _read_histograms(samples: Iterable[Sample], span: Span) -> Iterator[otlp.HistogramDataPoint]:
    """Convert histograms: buckets of Prometheus are cumulative, those of OTLP are not."""
    sums: dict[Labels, float] = {}
    buckets: dict[Labels, dict[float, float]] = {}
    for one in samples:
        labels = _without_bound(one.labels)
        if one.name.endswith("_bucket"):
            buckets.setdefault(labels, {})[float(one.labels["le"])] = one.value
        elif one.name.endswith("_sum"):
            sums[labels] = one.value
    for labels, by_bound in buckets.items():
        bounds = sorted(by_bound)
        counts = [int(by_bound[bound]) for bound in bounds]
        own = [after - before for before, after in pairwise([0, *counts])]
        yield otlp.HistogramDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=span[0],
            time_unix_nano=span[1],
            count=counts[-1],
            sum=sums.get(labels, 0.0),
            bucket_counts=own,
            explicit_bounds=bounds[:-1],  # the last one has no upper bound
            min=_NOT_KEPT,
            max=_NOT_KEPT,
        )


def _without_bound(labels: Mapping[str, str]) -> Labels:
    return tuple(sorted((name, text) for name, text in labels.items() if name != "le"))
