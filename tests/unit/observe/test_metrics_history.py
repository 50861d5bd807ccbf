"""The history of metrics: one bounded file, whichever worker writes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from docgraph.observe import recent_metrics as metrics_history
from docgraph.observe.recent_metrics import INTERVAL, MAX_POINTS, MetricsHistory


class Source:
    """Metrics and a clock that tests set."""

    def __init__(self) -> None:
        self.count = 0.0
        self.now = 1_000.0
        self.collected = 0

    def collect(self) -> list[CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily]:
        self.collected += 1
        counter = CounterMetricFamily("asked", "", labels=["path"])
        counter.add_metric(['a"b\\c'], self.count)
        histogram = HistogramMetricFamily("seconds", "", labels=())
        histogram.add_metric([], [("1.0", 2), ("+Inf", 3)], 4.5)
        return [counter, GaugeMetricFamily("same", "", 7), histogram]


def open_history(directory: Path, source: Source) -> MetricsHistory:
    return MetricsHistory(directory, source.collect, lambda: source.now)


def test_the_first_point_has_all_values_and_later_ones_what_has_changed(tmp_path: Path) -> None:
    source = Source()
    history = open_history(tmp_path, source)
    assert history.load() == []
    history.record()
    source.now, source.count = source.now + INTERVAL, 5.0
    history.record()

    first, second = history.load()
    name = 'asked_total{path="a\\"b\\\\c"}'
    buckets = {'seconds_bucket{le="1.0"}': 2.0, 'seconds_bucket{le="+Inf"}': 3.0}
    assert (first.at, first.values) == (1_000.0, {name: 0.0, "same": 7.0, **buckets})
    assert (second.at, second.values) == (1_000.0 + INTERVAL, {name: 5.0})


def test_workers_share_the_points_and_one_of_them_records_each(tmp_path: Path) -> None:
    source = Source()
    workers = [open_history(tmp_path, source) for _ in range(3)]
    for _ in range(4):
        for worker in workers:
            worker.record()
        source.now += INTERVAL

    assert source.collected == 4
    assert all(len(worker.load()) == 4 for worker in workers)


def test_old_points_are_merged_into_the_next_one(tmp_path: Path) -> None:
    source = Source()
    history = open_history(tmp_path, source)
    for number in range(MAX_POINTS + 5):
        source.now, source.count = 1_000.0 + number * INTERVAL, float(number)
        history.record()

    points = history.load()
    assert len(points) == MAX_POINTS
    assert points[0].at == 1_000.0 + 5 * INTERVAL
    assert sorted(points[0].values.values()) == [2.0, 3.0, 5.0, 7.0]
    assert [list(one.values.values()) for one in points[1:]] == [
        [float(number)] for number in range(6, MAX_POINTS + 5)
    ]


def test_the_number_of_series_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_history, "MAX_SERIES", 2)
    source = Source()
    history = open_history(tmp_path, source)
    history.record()

    assert len(history.load()[0].values) == 2


def test_a_clock_that_is_set_back_does_not_stop_the_history(tmp_path: Path) -> None:
    source = Source()
    history = open_history(tmp_path, source)
    history.record()
    source.now -= 3_600
    history.record()

    assert len(history.load()) == 2
