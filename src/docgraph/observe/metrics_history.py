"""Metrics history: the values of the last half hour, in one bounded file for all workers.

Whichever worker comes first records a point; it reads the merged metrics of all of them. The first
point has all values, each later one those that have changed since. A point that is too old is
merged into the next one.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from docgraph.observe import prometheus

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric as Family
    from prometheus_client.samples import Sample

INTERVAL: Final = 30.0  # seconds between two points
MAX_POINTS: Final = 61  # half an hour
MAX_SERIES: Final = 2_000
_EARLY: Final = 0.9  # of the interval: the clocks of workers do not tick together
_LEFT_OUT: Final = ("docgraph_info", "docgraph_mcp_call_duration_seconds")
_NOT_NEEDED: Final = ("_sum", "_count", "_created")  # of a histogram: its buckets are enough


class MetricsPoint(msgspec.Struct):
    """The values at one time (in seconds), by sample as `/metrics` writes it."""

    at: float
    values: dict[str, float]


class MetricsHistory:
    """The points in a directory that all workers share. Its methods block: call them in a thread.

    `collect` returns the current metrics.
    """

    def __init__(
        self,
        directory: Path,
        collect: Callable[[], Iterable[Family]] = prometheus.collect,
        now: Callable[[], float] = time.time,
    ) -> None:
        self._path = directory / "metrics-history.json"
        self._collect = collect
        self._now = now

    def load(self) -> list[MetricsPoint]:
        """Return the points, the oldest first."""
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=list[MetricsPoint])
        except (FileNotFoundError, msgspec.DecodeError):
            return []  # the next point writes the file again

    def record(self) -> None:
        """Add the current values, unless another worker has just done so."""
        with self._lock():
            points, now = self.load(), self._now()
            if points and 0 <= now - points[-1].at < INTERVAL * _EARLY:
                return
            values = dict(_find_values(self._collect()))
            known: dict[str, float] = {}
            for point in points:
                known |= point.values
            changed = {name: one for name, one in values.items() if known.get(name) != one}
            points.append(MetricsPoint(now, changed))
            while len(points) > MAX_POINTS:
                oldest = points.pop(0)
                points[0].values = oldest.values | points[0].values
            save_json(self._path, points)

    @contextmanager
    def _lock(self) -> Iterator[None]:
        fd = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            yield
        finally:
            os.close(fd)


def save_json(path: Path, content: object) -> None:
    """Write a file that only its owner can read; readers see all of it or the previous one."""
    fresh = path.with_suffix(".new")
    with open(fresh, "wb", opener=partial(os.open, mode=0o600)) as file:
        file.write(msgspec.json.encode(content))
    fresh.replace(path)


def _find_values(families: Iterable[Family]) -> Iterator[tuple[str, float]]:
    """Return the first `MAX_SERIES` samples with their values."""
    left = MAX_SERIES
    for family in families:
        if family.name in _LEFT_OUT:
            continue
        for sample in family.samples:
            if family.type == "histogram" and sample.name.endswith(_NOT_NEEDED):
                continue
            if not left:
                return
            left -= 1
            yield _render_name(sample), sample.value


def _render_name(sample: Sample) -> str:
    if not sample.labels:
        return sample.name
    labels = ",".join(f'{name}="{_escape(one)}"' for name, one in sample.labels.items())
    return f"{sample.name}{{{labels}}}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
