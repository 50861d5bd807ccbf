"""Metric list (`metrics.yaml`), and the tallies that collect the values of frequent events."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Final, Literal

from msgspec.yaml import decode


@dataclass(frozen=True, slots=True)
class MetricSpec:
    """What is known of a metric besides its name; `counts` are the names of events."""

    kind: Literal["counter", "histogram", "gauge"]
    help: str
    labels: tuple[str, ...] = ()
    mode: Literal["livesum", "livemin", "livemax", "livemostrecent"] = "livesum"  # of a gauge
    counts: tuple[str, ...] = ()


METRICS: Final = decode(
    files(__package__).joinpath("metrics.yaml").read_bytes(), type=dict[str, MetricSpec]
)
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
