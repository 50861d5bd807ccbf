"""The time of the database, as it goes on by a clock of our own."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pytest

from docgraph.observe.events import ClocksDiffer
from docgraph.runtime.clock import elapsed
from docgraph.store.store import DatabaseClock
from tests.http.harness import listening


class Measure:
    """A clock that moves when the test says so."""

    now = 50.0

    def __call__(self) -> float:
        return self.now


def test_before_the_database_has_answered_it_is_the_time_of_day() -> None:
    assert abs(DatabaseClock()() - time.time()) < 60
    assert abs(DatabaseClock().latest() - time.time()) < 60
    assert not DatabaseClock().is_set


def test_it_shows_what_the_database_told_and_goes_on_by_our_clock() -> None:
    measure = Measure()
    clock = DatabaseClock(measure)
    clock.learn(1000.0, 49.0, 51.0)
    assert clock() == 1000.0
    measure.now += 7
    assert clock() == 1007.0
    assert clock.latest() == pytest.approx(1008.0, abs=0.1)
    assert clock.earliest() == pytest.approx(1006.0, abs=0.1)


def test_a_slower_answer_does_not_blur_what_a_quick_one_told() -> None:
    measure = Measure()
    clock = DatabaseClock(measure)
    clock.learn(1000.0, 49.9, 50.1)
    clock.learn(1000.6, 49.0, 51.0)
    assert clock() == 1000.0
    clock.learn(1000.01, 49.99, 50.01)
    assert clock() == pytest.approx(1000.01)


def test_a_clock_of_the_database_that_was_set_is_followed() -> None:
    measure = Measure()
    clock = DatabaseClock(measure)
    clock.learn(1000.0, 49.9, 50.1)
    clock.learn(4600.0, 49.0, 51.0)
    assert clock() == 4600.0


def test_with_time_any_answer_is_better_than_an_old_one() -> None:
    measure = Measure()
    clock = DatabaseClock(measure)
    clock.learn(1000.0, 50.0, 50.0)
    measure.now += 100_000
    clock.learn(101_000.5, 100_049.0, 100_051.0)
    assert clock() == pytest.approx(101_000.5)


@pytest.mark.anyio
async def test_it_is_set_by_the_answer_of_the_database() -> None:
    measure = Measure()
    clock = DatabaseClock(measure)

    async def read() -> datetime:
        measure.now += 2
        return datetime.fromtimestamp(1000, UTC).replace(tzinfo=None)

    await clock.set(read())
    assert clock() == 1001.0


def test_the_measuring_clock_only_moves_forward_and_is_not_the_time_of_day() -> None:
    readings = [elapsed() for _ in range(100)]
    assert readings == sorted(readings)
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    expected = time.monotonic() if boot is None else time.clock_gettime(boot)
    assert abs(expected - readings[0]) < 60


def test_a_time_of_day_that_differs_is_told_once_until_it_was_right() -> None:
    day = Measure()
    day.now = 1000.0
    clock = DatabaseClock(Measure(), day)
    with listening(ClocksDiffer) as told:
        clock.learn(1009.0, 49.5, 50.5)
        assert told == []
        for _ in range(2):
            clock.learn(1600.0, 49.5, 50.5)
        day.now = 1600.0
        clock.learn(1600.0, 49.5, 50.5)
        day.now = 2200.0
        clock.learn(1600.0, 49.5, 50.5)
    assert [one.seconds for one in told] == [-600.0, 600.0]
