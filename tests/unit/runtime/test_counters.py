"""Hits within a sliding window, in a table of fixed size."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from docgraph.runtime.shared_memory import ROW_SLOTS, ROWS, WindowCounters, create_counters
from tests.clock import Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def counters(tmp_path: Path, clock: Clock) -> Iterator[WindowCounters]:
    create_counters(tmp_path / "counters")
    opened = WindowCounters(tmp_path / "counters", 10.0, b"k" * 32, clock)
    yield opened
    opened.close()


def test_hits_are_counted_by_key(counters: WindowCounters) -> None:
    assert [counters.hit("a") for _ in range(3)] == [1, 2, 3]
    assert counters.hit("b") == 1
    assert counters.read("a") == 3
    assert counters.read("c") == 0


def test_hits_leave_the_window_as_it_slides(counters: WindowCounters, clock: Clock) -> None:
    for _ in range(10):
        counters.hit("a")

    seen = []
    for _ in range(5):
        seen.append(counters.read("a"))
        clock.now += 5

    assert seen == [10, 10, 10, 5, 0]


def test_an_old_key_begins_anew(counters: WindowCounters, clock: Clock) -> None:
    for _ in range(10):
        counters.hit("a")

    clock.now += 1000

    assert counters.hit("a") == 1


def test_a_key_can_be_reset(counters: WindowCounters) -> None:
    counters.hit("a")
    counters.hit("b")

    counters.reset("a")
    counters.reset("never seen")

    assert counters.read("a") == 0
    assert counters.read("b") == 1


def test_a_flood_of_new_keys_does_not_push_out_those_with_many_hits(
    counters: WindowCounters,
) -> None:
    """Decision 37: a guard that forgets under a flood would be none."""
    for _ in range(20):
        counters.hit("attacker")

    for number in range(ROWS * ROW_SLOTS):
        counters.hit(f"address-{number}")

    assert counters.read("attacker") == 20


def test_what_is_too_old_makes_room(counters: WindowCounters, clock: Clock) -> None:
    for number in range(ROWS * ROW_SLOTS):
        counters.hit(f"old-{number}")
        counters.hit(f"old-{number}")
    clock.now += 100

    for number in range(100):
        counters.hit(f"new-{number}")

    assert all(counters.read(f"new-{number}") == 1 for number in range(100))
