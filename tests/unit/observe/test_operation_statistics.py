"""Statistics of operations: counted by name or text, merged over workers, without literals."""

from __future__ import annotations

from pathlib import Path

import pytest

from docgraph.observe import recent_metrics as operation_statistics
from docgraph.observe.event import OperationFinished
from docgraph.observe.metric_list import SECONDS
from docgraph.observe.recent_metrics import (
    MAX_TEXT,
    OTHERS,
    WINDOW,
    OperationStatistics,
    strip_literals,
)

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
