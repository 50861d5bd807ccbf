"""Tallies: nothing is lost or counted twice on its way to the metrics."""

from __future__ import annotations

import threading

from prometheus_client import CollectorRegistry, Histogram

from docgraph.observe.meters import SECONDS
from docgraph.observe.metric_list import LabelValues, RequestTally, Tallies

DURATIONS = [0.0, *SECONDS, *(bound * 1.01 for bound in SECONDS), 1e9]


def _samples(histogram: Histogram) -> list[tuple[str, str, float]]:
    (family,) = histogram.collect()
    return [
        (one.name, one.labels.get("le", ""), round(one.value, 6))
        for one in family.samples
        if not one.name.endswith("_created")
    ]


def test_histogram_is_the_one_that_single_observations_give() -> None:
    registry = CollectorRegistry()
    expected = Histogram("a", "one by one", buckets=SECONDS, registry=registry)
    poured = Histogram("a", "all at once", buckets=SECONDS, registry=None)
    tallies = Tallies(SECONDS, lambda labels, tally: tally.pour_into(poured), 10)

    for seconds in DURATIONS:
        expected.observe(seconds)
        tallies.add(("x",), seconds)
    tallies.flush()

    assert _samples(poured) == _samples(expected)


def test_what_was_handed_on_is_not_handed_on_again() -> None:
    taken: list[tuple[LabelValues, int, int]] = []
    tallies = Tallies(
        SECONDS, lambda labels, tally: taken.append((labels, tally.count, tally.bytes)), 10
    )
    tallies.add(("a",), 0.1, 5)
    tallies.add(("a",), 0.1, 6)
    tallies.add(("b",), 0.1)

    tallies.flush()
    tallies.flush()

    assert taken == [(("a",), 2, 11), (("b",), 1, 0)]


def test_labels_without_end_do_not_fill_the_memory() -> None:
    taken: list[LabelValues] = []
    tallies = Tallies(SECONDS, lambda labels, tally: taken.append(labels), 10)

    for number in range(100):
        tallies.add((str(number),), 0.1)

    assert len(taken) >= 90


def test_threads_lose_nothing() -> None:
    total = 0

    def hand_on(labels: LabelValues, tally: RequestTally) -> None:
        nonlocal total
        total += tally.count

    tallies = Tallies(SECONDS, hand_on, 10)

    def add_many() -> None:
        for _ in range(2_000):
            tallies.add(("a",), 0.1)

    threads = [threading.Thread(target=add_many) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        tallies.flush()
    tallies.flush()

    assert total == 8_000
