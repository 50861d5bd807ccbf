"""Meters: events to prometheus_client metrics, with bounded labels.

Labels have few values: the name of a service, never a path; a name of docgraph, never one from a
caller. `_Children` bounds them even so. This module imports prometheus_client, which decides on
import whether several processes share their numbers: only `observe.prometheus` imports it.
"""

from __future__ import annotations

import platform
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.metrics import MetricWrapperBase
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.multiprocess import MultiProcessCollector, mark_process_dead

from docgraph.observe import events, subscribe_each, unsubscribe
from docgraph.observe.engine_events import (
    CacheLag,
    CacheSize,
    CacheUsed,
    CertificateAge,
    CommandFinished,
    LiveQueryChanged,
    StreamClient,
    StreamCursors,
    StreamTold,
)
from docgraph.observe.event import Event
from docgraph.observe.metric_list import (
    METHODS,
    METRICS,
    SECONDS,
    LabelValues,
    RequestTally,
    Tallies,
)

__all__ = ["METRICS", "SECONDS", "Meters", "mark_process_dead"]

MAX_CHILDREN = 1000  # label combinations of one metric
BULK = 100  # requests that are added together: each costs less in a batch
FLUSH_SECONDS = 0.25  # maximum age of a busy worker's numbers in other workers

# Otherwise each counter gets a gauge with its creation time, which is not needed.
disable_created_metrics()  # type: ignore[no-untyped-call]

Metric = TypeVar("Metric", bound=MetricWrapperBase)


class _Children(Generic[Metric]):
    """The children of a metric by label values, bounded in number."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric
        self._known: dict[tuple[str, ...], Metric] = {}
        self._other = ("other",) * len(metric._labelnames)

    def of(self, *labels: str) -> Metric:
        child = self._known.get(labels)
        if child is not None:
            return child
        if len(self._known) >= MAX_CHILDREN:
            labels = self._other
        child = self._known[labels] = self._metric.labels(*labels)
        return child


class Meters:
    """Counts events until it is closed."""

    def __init__(self, version: str, lane: str, *, shared: bool) -> None:
        self._registry = CollectorRegistry()
        self._shared = shared
        if shared:
            MultiProcessCollector(self._registry)  # type: ignore[no-untyped-call]
        self._metrics = dict(_build_metrics(None if shared else self._registry))
        self._answered = _Children[Counter](self._metrics["docgraph_http_requests_total"])
        self._durations = _Children[Histogram](
            self._metrics["docgraph_http_request_duration_seconds"]
        )
        self._bytes = _Children[Counter](self._metrics["docgraph_http_response_bytes_total"])
        self._sent = _Children[Counter](self._metrics["docgraph_database_commands_total"])
        self._command_durations = _Children[Histogram](
            self._metrics["docgraph_database_command_duration_seconds"]
        )
        self._requests = Tallies(SECONDS, self._count_requests, MAX_CHILDREN)
        self._commands = Tallies(SECONDS, self._count_commands, MAX_CHILDREN)
        self._answers: list[events.RequestFinished] = []  # not added up yet
        self._uses: deque[CacheUsed] = deque()  # each is followed by the answer of its request
        self._in_flight = 0
        self._uploads = 0
        self._flushed = 0.0
        self._rare = {
            name: _Children[Any](metric)
            for name, metric in self._metrics.items()
            if METRICS[name].labels
        }
        self._handlers = self._build_handlers()
        self._metrics["docgraph_start_time_seconds"].set(time.time())
        self._metrics["docgraph_processes"].set(1)
        self._rare["docgraph_info"].of(version, platform.python_version(), lane).set(1)
        subscribe_each(self, self._handlers.get)

    def render(self) -> bytes:
        """Render all metrics in the text format. With several processes this reads their files."""
        self._flush()
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Family]:
        """Collect all metrics as families. With several processes this reads their files."""
        self._flush()
        return iter(self._registry.collect())

    def close(self) -> None:
        unsubscribe(self)
        self._flush()

    def _build_handlers(self) -> dict[type[Event], Callable[[Any], None]]:
        kinds = {kind.__name__: kind for kind in events.EVENTS}
        return {
            events.RequestStarted: self._count_arrival,
            events.BodyAwaited: self._count_upload,
            events.RequestFinished: self._count_request,
            CommandFinished: self._count_command,
            events.DatabaseLost: lambda event: self._metrics["docgraph_database_up"].set(0),
            events.DatabaseRefused: lambda event: self._metrics["docgraph_database_up"].set(0),
            events.DatabaseFound: lambda event: self._metrics["docgraph_database_up"].set(1),
            events.ElectionAwaited: lambda event: self._metrics["docgraph_database_electing"].set(
                int(event.is_awaited)
            ),
            CertificateAge: lambda event: (
                self._rare["docgraph_certificate_seconds_left"].of("https").set(event.seconds_left)
            ),
            events.ConnectionsUsed: self._set_connections,
            events.UnreadableValue: lambda event: self._metrics[
                "docgraph_database_unreadable_values_total"
            ].inc(event.values),
            events.ToolCalled: self._count_tool,
            events.AppsRefreshed: self._set_apps,
            StreamClient: partial(
                self._count_open, "docgraph_stream_clients", "docgraph_stream_closed_total"
            ),
            StreamTold: self._count_told,
            StreamCursors: lambda event: self._metrics["docgraph_stream_cursors"].set(event.count),
            events.LinesDropped: lambda event: self._metrics[
                "docgraph_log_lines_dropped_total"
            ].inc(event.count),
            CacheUsed: self._uses.append,
            CacheSize: lambda event: self._metrics["docgraph_cache_bytes"].set(event.bytes),
            CacheLag: lambda event: (
                self._rare["docgraph_cache_lag_seconds"].of(event.db).set(event.seconds)
            ),
            LiveQueryChanged: partial(
                self._count_open, "docgraph_live_queries", "docgraph_live_closed_total"
            ),
            **{
                kinds[kind]: self._counter(name, metric.labels)
                for name, metric in METRICS.items()
                for kind in metric.counts
            },
        }

    def _counter(self, name: str, fields: Sequence[str]) -> Callable[[Any], None]:
        """Return a handler that counts by fields of the event, which are the labels."""
        if not fields:
            return lambda event: self._metrics[name].inc()
        children = self._rare[name]
        return lambda event: children.of(*(str(getattr(event, f)) or "none" for f in fields)).inc()

    def _set_connections(self, event: events.ConnectionsUsed) -> None:
        self._rare["docgraph_database_connections"].of(event.client).set(event.count)
        self._rare["docgraph_database_connections_max"].of(event.client).set(event.most)

    def _count_arrival(self, event: events.RequestStarted) -> None:
        self._in_flight += 1
        if self._shared:
            self._share()

    def _count_upload(self, event: events.BodyAwaited) -> None:
        change = -1 if event.over else 1
        self._uploads += change
        self._in_flight -= change
        if self._shared:
            self._share()

    def _count_request(self, event: events.RequestFinished) -> None:
        self._in_flight -= 1
        self._answers.append(event)
        if len(self._answers) >= BULK:
            self._tally()
        if self._shared:
            self._share()

    def _tally(self) -> None:
        """Add up the requests that were answered since the last call."""
        taken, self._answers = self._answers, []
        for event in taken:
            method = event.method if event.method in METHODS else "other"
            labels = (method, event.service or "none", str(event.status))
            # The lifetime of a stream is no response time.
            seconds = None if event.endless else event.duration
            self._requests.add(labels, seconds, event.bytes_out)
            if event.operation:
                names = (event.app, event.operation)
                counted = self._rare["docgraph_graphql_operations_total"]
                counted.of(*names, str(event.status)).inc()
                self._rare["docgraph_graphql_operation_duration_seconds"].of(*names).observe(
                    event.duration
                )
        uses = defaultdict[CacheUsed, int](int)
        with suppress(IndexError):  # another thread may take some of them
            while self._uses:
                uses[self._uses.popleft()] += 1
        for use, count in uses.items():
            cached = self._rare["docgraph_cache_requests_total"]
            cached.of(use.result, use.reason or "none").inc(count)

    def _count_command(self, event: CommandFinished) -> None:
        labels = (event.command, "true" if event.ok else "false")
        self._commands.add(labels, event.duration)
        if self._shared:
            self._share()

    def _share(self) -> None:
        """Publish the numbers to other processes: immediately if idle, else regularly."""
        if self._in_flight <= 1 or time.monotonic() - self._flushed > FLUSH_SECONDS:
            self._flush()

    def _flush(self) -> None:
        self._flushed = time.monotonic()
        self._tally()
        self._requests.flush()
        self._commands.flush()
        self._metrics["docgraph_http_requests_in_flight"].set(self._in_flight)
        self._metrics["docgraph_http_uploads"].set(self._uploads)

    def _count_requests(self, labels: LabelValues, tally: RequestTally) -> None:
        method, service, status = labels
        self._answered.of(method, service, status).inc(tally.count)
        self._bytes.of(service).inc(tally.bytes)
        tally.pour_into(self._durations.of(method, service))

    def _count_commands(self, labels: LabelValues, tally: RequestTally) -> None:
        command, ok = labels
        self._sent.of(command, ok).inc(tally.count)
        tally.pour_into(self._command_durations.of(command))

    def _count_open(self, open: str, closed: str, event: StreamClient | LiveQueryChanged) -> None:
        """Count a client or live query that has begun, or has ended for a reason."""
        clients = self._rare[open].of(event.transport)
        if not event.reason:
            clients.inc()
        else:
            clients.dec()
            self._rare[closed].of(event.reason).inc()

    def _count_told(self, event: StreamTold) -> None:
        self._metrics["docgraph_stream_events_total"].inc(event.clients)
        if event.lag is not None:
            self._metrics["docgraph_stream_lag_seconds"].observe(event.lag)

    def _count_tool(self, event: events.ToolCalled) -> None:
        ok = "true" if event.ok else "false"
        self._rare["docgraph_mcp_calls_total"].of(event.tool, event.app or "none", ok).inc()
        self._rare["docgraph_mcp_call_duration_seconds"].of(event.tool).observe(event.duration)

    def _set_apps(self, event: events.AppsRefreshed) -> None:
        for state in ("served", "disabled", "invalid", "partial"):
            self._rare["docgraph_apps"].of(state).set(getattr(event, state))


def _build_metrics(registry: CollectorRegistry | None) -> Iterator[tuple[str, Any]]:
    for name, spec in METRICS.items():
        common = (name, spec.help, spec.labels)
        if spec.kind == "counter":
            yield name, Counter(*common, registry=registry)
        elif spec.kind == "histogram":
            yield name, Histogram(*common, registry=registry, buckets=SECONDS)
        else:
            yield name, Gauge(*common, registry=registry, multiprocess_mode=spec.mode)
