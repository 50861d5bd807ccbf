"""The history of metrics: one bounded file, whichever worker writes it.

Statistics of operations: counted by name or text, merged over workers, without literals.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily

from docgraph.observe import recent_metrics as metrics_history
from docgraph.observe import recent_metrics as operation_statistics
from docgraph.observe.engine_events import OperationFinished
from docgraph.observe.metric_list import SECONDS
from docgraph.observe.recent_metrics import (
    INTERVAL,
    MAX_POINTS,
    MAX_TEXT,
    OTHERS,
    WINDOW,
    MetricsHistory,
    OperationStatistics,
    strip_literals,
)


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


SECRET = "s3cret"


class Clock:
    now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def finish(
    statistics: OperationStatistics,
    text: str,
    seconds: float = 0.1,
    name: str = "",
    ok: bool = True,
) -> None:
    statistics.count(OperationFinished("blog", name, text, seconds, ok))


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ('{ a(x: "s3cret", n: -1.5e3, on: true, s: S3CRET) { b1 } }',
         "{ a(x: … n: … on: … s: …) { b1 } }"),
        ('{ a(x: {k: ["s3cret", [1]], v: $v}) { b } }', "{ a(x: { k: [… […]] v: $v }) { b } }"),
        ("query Q($n: Int = 5, $s: [S!]! = [A], $o: O = {k: K}) { a(n: $n) @include(if: $s) }",
         "query Q($n: Int = … $s: [S!]! = […] $o: O = { k: … }) { a(n: $n) @include(if: $s) }"),
        ('# s3cret\n{ x: a(t: """s3cret "quoted" \\""" s3cret""") ...F } fragment F on T { b }',
         "{ x: a(t: …) ... F } fragment F on T { b }"),
        ('{ a(x: "s3cret', "{ a(x: …"),
        ('{ a(x: """s3cret', "{ a(x: …"),
    ],
)  # fmt: skip
def test_no_literal_remains(query: str, expected: str) -> None:
    assert strip_literals(query) == expected
    assert strip_literals(expected) == expected


def test_a_long_text_is_cut_and_never_inside_of_a_literal_that_shows() -> None:
    for length in range(MAX_TEXT - 40, MAX_TEXT + 5):
        query = f'{{ a(b: {"c" * length}, x: "{SECRET}", y: {{z: "{SECRET}"}}) }}'
        assert len(strip_literals(query)) <= MAX_TEXT
        assert "s3" not in strip_literals(query)


def test_operations_are_counted_by_name_or_text_with_the_slowest_example(tmp_path: Path) -> None:
    statistics = OperationStatistics(tmp_path, 1, Clock())
    finish(statistics, '{ a(x: "one") }', 0.002)
    finish(statistics, '{ a(x: "two") }', 3.0, ok=False)
    finish(statistics, "{ b }", 0.2)
    finish(statistics, "query Q { c }", 0.2)
    finish(statistics, "{ d }", 0.3, name="Q")
    statistics.save()

    found = {(one.operation, one.text): one for one in statistics.load()}
    assert set(found) == {("", "{ a(x: …) }"), ("", "{ b }"), ("Q", "{ d }")}
    first = found["", "{ a(x: …) }"]
    assert (first.app, first.count, first.failed, first.slowest) == ("blog", 2, 1, 3.0)
    assert sum(first.times) == 2
    assert len(first.times) == len(SECONDS) + 1
    assert found["Q", "{ d }"].count == 2
    assert "one" not in (tmp_path / "operations-1.json").read_text()


def test_workers_are_merged_and_ended_ones_are_left_out_after_a_while(tmp_path: Path) -> None:
    clock = Clock()
    workers = [OperationStatistics(tmp_path, number, clock) for number in (1, 2)]
    for worker, seconds in zip(workers, (0.2, 0.4), strict=True):
        finish(worker, "{ a }", seconds)
        worker.save()
    for worker in workers:
        (one,) = worker.load()
        assert (one.count, one.slowest) == (2, 0.4)

    clock.now += 2 * WINDOW
    workers[1].save()
    assert workers[0].load() == []


@pytest.mark.parametrize(
    "query",
    [
        '# docs say """\n{ a(x: """\ns3cret\n""") { b } }',
        '# "\r{ a(x: """\ns3cret\n""") { b } }',
        '# see 5" \\\n{ a(\nx: S3CRET) { b } }',
        '{ a # """\n (x: "s3cret # \\" s3cret") # "\n { b } }',
    ],
)
def test_a_quote_in_a_comment_shows_no_literal(tmp_path: Path, query: str) -> None:
    statistics = OperationStatistics(tmp_path, 1, Clock())
    finish(statistics, query)
    statistics.save()
    (one,) = statistics.load()
    assert one.text == "{ a(x: …) { b } }"


def test_names_are_bounded_and_a_broken_file_of_another_worker_is_left_out(tmp_path: Path) -> None:
    (tmp_path / "operations-2.json").write_bytes(b'[1, [{"app')
    statistics = OperationStatistics(tmp_path, 1, Clock())
    finish(statistics, "{ a }", name="N" * 60_000)
    statistics.save()
    (one,) = statistics.load()
    assert one.operation == "N" * 100


def test_what_is_older_than_two_windows_is_removed(tmp_path: Path) -> None:
    clock = Clock()
    statistics = OperationStatistics(tmp_path, 1, clock)
    counts = []
    for _ in range(4):
        finish(statistics, "{ a }")
        statistics.save()
        counts.append(sum(one.count for one in statistics.load()))
        clock.now += WINDOW
    assert counts == [1, 2, 2, 2]


def test_the_number_of_operations_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation_statistics, "MAX_OPERATIONS", 2)
    statistics = OperationStatistics(tmp_path, 1, Clock())
    for number in range(5):
        finish(statistics, f"{{ a{number} }}")
    statistics.save()

    counts = {one.operation or one.text: one.count for one in statistics.load()}
    assert counts == {"{ a0 }": 1, "{ a1 }": 1, OTHERS: 3}
