"""Liveness and readiness from the pulses of the workers (decision 54)."""

from __future__ import annotations

import pytest

from docgraph.runtime.shared_memory import share_numbers
from docgraph.server.process.probes import Health, HealthState

FINE = Health(200, "ping successful", 1)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


class Workers:
    """Two workers, whose loops turn as long as the test says so."""

    def __init__(self, clock: Clock, database: Health = FINE) -> None:
        self.clock = clock
        self.pulses = share_numbers("L", 2)
        self.state = HealthState(self.pulses, lambda: database, clock)

    def pass_time(self, seconds: float, *turning: int) -> None:
        """Let so much time pass, with a check twice a second."""
        for _ in range(round(seconds * 2)):
            self.clock.now += 0.5
            for number in turning:
                self.pulses[number - 1] += 1
            self.state.check()


def test_before_the_first_worker_nothing_is_alive(clock: Clock) -> None:
    workers = Workers(clock)
    assert workers.state.read_liveness().status == 503
    assert workers.state.read_readiness().status == 503


def test_a_worker_that_reports_to_be_ready_counts_immediately(clock: Clock) -> None:
    workers = Workers(clock)
    workers.state.ready = [1]
    assert workers.state.read_liveness().status == 200
    assert workers.state.read_readiness() == FINE


def test_one_loop_that_turns_is_enough(clock: Clock) -> None:
    workers = Workers(clock)
    workers.state.ready = [1, 2]
    workers.pass_time(120, 2)
    assert workers.state.read_liveness().status == 200
    assert workers.state.read_readiness().status == 200


def test_liveness_ends_after_30_seconds_without_a_turn(clock: Clock) -> None:
    workers = Workers(clock)
    workers.state.ready = [1, 2]
    workers.pass_time(5, 1, 2)
    workers.pass_time(30)
    assert workers.state.read_liveness().status == 200
    workers.pass_time(1)
    assert workers.state.read_liveness().status == 503
    workers.pass_time(1, 1)
    assert workers.state.read_liveness().status == 200


def test_readiness_ends_earlier(clock: Clock) -> None:
    workers = Workers(clock)
    workers.state.ready = [1]
    workers.pass_time(1, 1)
    workers.pass_time(11)
    assert workers.state.read_readiness().status == 503
    assert workers.state.read_liveness().status == 200


def test_a_worker_that_is_not_ready_yet_accepts_nothing(clock: Clock) -> None:
    workers = Workers(clock)
    workers.pass_time(1, 1)
    assert workers.state.read_liveness().status == 200
    assert workers.state.read_readiness().status == 503


def test_time_in_which_the_parent_stood_still_does_not_count(clock: Clock) -> None:
    """A machine that was suspended resumes all processes; ours may be the first one."""
    workers = Workers(clock)
    workers.state.ready = [1]
    workers.pass_time(1, 1)
    clock.now += 3600
    assert workers.state.read_liveness().status == 200
    workers.pass_time(31)
    assert workers.state.read_liveness().status == 503


def test_a_stop_and_a_database_without_an_answer_are_not_ready(clock: Clock) -> None:
    workers = Workers(clock, Health(504, "no answer in time", 2000))
    workers.state.ready = [1]
    assert workers.state.read_readiness().status == 504
    workers.state.is_stopping = True
    assert workers.state.read_readiness() == Health(503, "stopping")
    assert workers.state.read_liveness().status == 200
