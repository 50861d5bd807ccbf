"""Metric list: names, kinds, labels and help of all metrics; tallies that collect their values."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from typing import Any, Final

# name: (kind, labels, help). The mode of a gauge defines how several workers are combined.
METRICS: Final[dict[str, tuple[str, tuple[str, ...], str]]] = {
    "docgraph_http_requests_total": (
        "counter",
        ("method", "service", "status"),
        "Requests that have been answered.",
    ),
    "docgraph_http_request_duration_seconds": (
        "histogram",
        ("method", "service"),
        "Time from the arrival of a request to the end of its answer, streams left out.",
    ),
    "docgraph_http_response_bytes_total": ("counter", ("service",), "Bytes of answers."),
    "docgraph_http_requests_in_flight": (
        "gauge:livesum",
        (),
        "Requests in progress, over all workers, without those that wait for their body.",
    ),
    "docgraph_http_uploads": (
        "gauge:livesum",
        (),
        "Requests that wait for the rest of their body, over all workers.",
    ),
    "docgraph_http_refused_total": (
        "counter",
        ("status",),
        "Answers given before there was a request: malformed, too large, too slow, too many.",
    ),
    "docgraph_overloaded_total": (
        "counter",
        ("bound",),
        "Requests answered with 503 because docgraph has too much to do, by the bound it reached.",
    ),
    "docgraph_http_failures_total": (
        "counter",
        ("service",),
        "Requests that ended in an unexpected exception.",
    ),
    "docgraph_database_commands_total": (
        "counter",
        ("command", "ok"),
        "Commands sent to the database.",
    ),
    "docgraph_database_command_duration_seconds": (
        "histogram",
        ("command",),
        "Time of a database command.",
    ),
    "docgraph_database_up": (
        "gauge:livemostrecent",
        (),
        "1 when the database answers, else 0, as the worker says that noticed last.",
    ),
    "docgraph_database_electing": (
        "gauge:livemax",
        (),
        "1 while requests wait for the replica set to elect a new primary, else 0.",
    ),
    "docgraph_database_connections": (
        "gauge:livesum",
        ("client",),
        "Connections to the database in use, by requests or by change streams, over all workers.",
    ),
    "docgraph_database_connections_max": (
        "gauge:livesum",
        ("client",),
        "Most connections to the database that requests or change streams may use.",
    ),
    "docgraph_database_unreadable_values_total": (
        "counter",
        (),
        "Stored values that could not be read and were shown as their raw bytes.",
    ),
    "docgraph_mcp_calls_total": ("counter", ("tool", "app", "ok"), "Tools that agents have used."),
    "docgraph_mcp_call_duration_seconds": ("histogram", ("tool",), "Time that a tool took."),
    "docgraph_apps": (
        "gauge:livemostrecent",
        ("state",),
        "GraphQL apps by state: served, disabled, invalid; partial: served with invalid fields.",
    ),
    "docgraph_stream_clients": (
        "gauge:livesum",
        ("transport",),
        "Clients of change streams, over all workers.",
    ),
    "docgraph_stream_cursors": (
        "gauge:livesum",
        (),
        "Change streams of the database that are open, over all workers.",
    ),
    "docgraph_stream_events_total": (
        "counter",
        (),
        "Events, counted once for every client that received them.",
    ),
    "docgraph_stream_lag_seconds": (
        "histogram",
        (),
        "Time from a change, by the clock of the database, until it is sent to clients.",
    ),
    "docgraph_stream_closed_total": (
        "counter",
        ("reason",),
        "Clients that left a change stream, by reason.",
    ),
    "docgraph_stream_stages_failed_total": (
        "counter",
        (),
        "Events on which a stage of a change stream failed.",
    ),
    "docgraph_stream_decisions_sampled_total": (
        "counter",
        ("outcome",),
        "Decisions of the index of row filters that were compared with the database's.",
    ),
    "docgraph_auth_failures_total": (
        "counter",
        ("mechanism", "reason"),
        "Credentials that were not accepted.",
    ),
    "docgraph_logins_blocked_total": (
        "counter",
        ("scope",),
        "Times the brute force guard closed the door.",
    ),
    "docgraph_limited_requests_total": (
        "counter",
        ("limit", "reason"),
        "Requests that a limit for callers refused: by its rate, or too many at a time.",
    ),
    "docgraph_access_denied_total": ("counter", ("authorizer",), "Requests that were not allowed."),
    "docgraph_graphql_operations_total": (
        "counter",
        ("app", "operation", "status"),
        "Requests that named a stored operation of an app.",
    ),
    "docgraph_graphql_operation_duration_seconds": (
        "histogram",
        ("app", "operation"),
        "Time of a request that named a stored operation of an app.",
    ),
    "docgraph_cache_requests_total": (
        "counter",
        ("result", "reason"),
        "Requests to apps with a cache: hit (`collapsed`: shared with an equal request), "
        "miss (`first`: not stored), or bypass and why.",
    ),
    "docgraph_cache_invalidations_total": (
        "counter",
        ("reason",),
        "Answers that left the cache: changed, written, expired, evicted.",
    ),
    "docgraph_cache_bytes": (
        "gauge:livesum",
        (),
        "Memory of the cached answers, over all workers.",
    ),
    "docgraph_cache_lag_seconds": (
        "gauge:livemax",
        ("db",),
        "How old the state of a database is that cached answers are compared with.",
    ),
    "docgraph_live_queries": (
        "gauge:livesum",
        ("transport",),
        "Live queries that are open, over all workers.",
    ),
    "docgraph_live_runs_total": (
        "counter",
        ("outcome", "execution"),
        "Times that live queries were run again: sent, unchanged, limited, failed.",
    ),
    "docgraph_live_closed_total": (
        "counter",
        ("reason",),
        "Live queries that have ended, and why.",
    ),
    "docgraph_plugin_failures_total": ("counter", ("plugin",), "Exceptions of plugins."),
    "docgraph_background_failures_total": ("counter", ("task",), "Failures of background tasks."),
    "docgraph_loop_lags_total": (
        "counter",
        (),
        "Times the event loop of a worker was held up noticeably.",
    ),
    "docgraph_log_lines_dropped_total": (
        "counter",
        (),
        "Lines missing in the log because its reader was too slow.",
    ),
    "docgraph_workers_lost_total": (
        "counter",
        (),
        "Worker processes that ended without being asked to.",
    ),
    "docgraph_certificate_seconds_left": (
        "gauge:livemin",
        ("listener",),
        "Seconds until the TLS certificate of a listener expires, negative after that.",
    ),
    "docgraph_start_time_seconds": (
        "gauge:livemin",
        (),
        "When the oldest process of the instance started, in seconds since the epoch.",
    ),
    "docgraph_processes": (
        "gauge:livesum",
        (),
        "Living processes of the instance; with several workers their parent is one of them.",
    ),
    "docgraph_info": (
        "gauge:livemax",
        ("version", "python", "lane"),
        "Always 1; the labels say what is running.",
    ),
}


METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


LabelValues = tuple[str, ...]

# Upper bounds of the buckets of durations.
SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class RequestTally:
    """Count, durations and bytes sent of one kind of event.

    Tallies of frequent events are plain sums that are passed to the metrics now and then. The
    counters of prometheus_client cost about ten times as much as an addition, and a request needs
    half a dozen of them.
    """

    __slots__ = ("bytes", "count", "in_bucket", "seconds")

    def __init__(self, buckets: int) -> None:
        self.count = 0
        self.bytes = 0
        self.seconds = 0.0
        self.in_bucket = [0] * buckets

    def pour_into(self, histogram: Any) -> None:
        """Add the durations to a histogram with the same bounds, which has no bulk method."""
        histogram._sum.inc(self.seconds)
        for bucket, number in zip(histogram._buckets, self.in_bucket, strict=True):
            if number:
                bucket.inc(number)


class Tallies:
    """The tallies of a kind of event by their labels; more than `most` of them are flushed."""

    def __init__(
        self,
        bounds: Sequence[float],
        hand_on: Callable[[LabelValues, RequestTally], None],
        most: int,
    ) -> None:
        self._bounds = bounds
        self._hand_on = hand_on
        self._most = most
        self._lock = threading.Lock()  # events come from any thread
        self._known: dict[LabelValues, RequestTally] = {}

    def add(self, labels: LabelValues, seconds: float | None, size: int = 0) -> None:
        """Add an event; `seconds` is None for events without a duration."""
        with self._lock:
            tally = self._known.get(labels)
            if tally is None:
                tally = self._known[labels] = RequestTally(len(self._bounds) + 1)
            tally.count += 1
            tally.bytes += size
            if seconds is not None:
                tally.seconds += seconds
                tally.in_bucket[bisect_left(self._bounds, seconds)] += 1
        if len(self._known) > self._most:
            self.flush()

    def flush(self) -> None:
        """Pass all tallies on and start again from zero."""
        with self._lock:
            taken, self._known = self._known, {}
        for labels, tally in taken.items():
            self._hand_on(labels, tally)
