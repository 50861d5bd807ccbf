"""The countdown of a stop: what it does when, and what it leaves the database."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest

from docgraph.observe import emit
from docgraph.observe.events import ServerStopping
from docgraph.server.process.lifecycle import Shutdown


class Timer:
    """A timer that the test lets ring."""

    def __init__(self, seconds: float, work: Callable[[], None]) -> None:
        self.seconds, self.ring = seconds, work
        self.is_cancelled = False

    def start(self) -> None:
        pass

    def cancel(self) -> None:
        self.is_cancelled = True


class Mongod:
    def __init__(self) -> None:
        self.heard: list[str] = []

    def request_stop(self) -> None:
        self.heard.append("stop")

    def kill(self) -> None:
        self.heard.append("kill")


@pytest.fixture
def timers(monkeypatch: pytest.MonkeyPatch) -> list[Timer]:
    made: list[Timer] = []

    def make(seconds: float, work: Callable[[], None]) -> Timer:
        made.append(Timer(seconds, work))
        return made[-1]

    monkeypatch.setattr(threading, "Timer", make)
    return made


def test_nothing_counts_before_somebody_asks_for_the_stop(timers: list[Timer]) -> None:
    ending = Shutdown(10.0)

    with ending.watching():
        assert ending.left is None

    assert timers == []


def test_all_is_over_two_seconds_after_the_grace(
    timers: list[Timer], monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[int] = []
    monkeypatch.setattr(os, "_exit", left.append)
    ending, mongod = Shutdown(10.0), Mongod()
    ending.database = mongod
    with ending.watching():
        emit(ServerStopping("SIGTERM"))
        emit(ServerStopping("SIGTERM"))
        tell, leave = timers
        assert 10.0 < tell.seconds < leave.seconds < 12.0
        assert ending.left is not None
        assert ending.left < leave.seconds

        tell.ring()
        assert mongod.heard == ["stop"]
        leave.ring()
        assert (mongod.heard, left) == (["stop", "kill"], [0])

    assert all(timer.is_cancelled for timer in timers)


def test_the_database_has_a_moment_however_late_it_is(timers: list[Timer]) -> None:
    ending = Shutdown(-60.0)
    with ending.watching():
        emit(ServerStopping("SIGTERM"))

        assert ending.left == 0.5
