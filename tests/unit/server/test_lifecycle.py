"""What the service manager is told, for whom the watchdog is silent, and how a stop counts down."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from docgraph.observe import Event, emit, subscribe, unsubscribe
from docgraph.observe.events import NotifyFailed, ServerStopping
from docgraph.server.process.lifecycle import ServiceManager, Shutdown, Watchdog


class Heard:
    """A watchdog with a period of 8 seconds, and how often it has told."""

    def __init__(self) -> None:
        self.now = 100.0
        self.count = 0
        self.watchdog = Watchdog(self.notify, 8.0, lambda: self.now)

    def notify(self) -> None:
        self.count += 1

    def check(self, at: float, **pulses: int) -> int:
        """How often it has told after a look at that second."""
        self.now = 100.0 + at
        self.watchdog.check({int(name[1:]): pulse for name, pulse in pulses.items()})
        return self.count


def test_the_watchdog_tells_twice_in_a_period_while_all_pulses_move() -> None:
    heard = Heard()

    assert heard.check(0, w1=1, w2=1) == 1
    assert heard.watchdog.seconds_left == 4
    assert heard.check(3.9, w1=2, w2=2) == 1
    assert heard.check(4, w1=3, w2=3) == 2


def test_the_watchdog_is_silent_while_one_worker_hangs_and_speaks_when_it_goes_on() -> None:
    heard = Heard()
    heard.check(0, w1=1, w2=1)

    assert heard.check(4, w1=2, w2=1) == 1
    assert heard.watchdog.seconds_left == 1
    assert heard.check(5, w1=3, w2=1) == 1
    assert heard.check(6, w1=4, w2=2) == 2


def test_a_worker_that_is_replaced_is_not_missed_but_the_last_one_is() -> None:
    heard = Heard()
    heard.check(0, w1=1, w2=1)

    assert heard.check(4, w1=2) == 2
    assert heard.check(8) == 2
    assert heard.check(9, w1=3, w2=2) == 3


def test_without_the_variables_nobody_is_told() -> None:
    manager = ServiceManager.from_environment({})

    manager.notify_ready("here")
    assert manager.watchdog.seconds_left is None


def test_the_variables_are_taken_away_from_processes_that_are_started_later() -> None:
    ours = {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "30000000", "OTHER": "stays"}

    manager = ServiceManager.from_environment(ours)

    assert ours == {"OTHER": "stays"}
    assert manager.watchdog.seconds_left == 0


def test_a_watchdog_that_is_meant_for_another_process_is_left_alone() -> None:
    variables = {"NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "30000000"}

    for pid, left in ((os.getpid(), 0), (1, None)):
        manager = ServiceManager.from_environment({**variables, "WATCHDOG_PID": str(pid)})
        assert manager.watchdog.seconds_left == left


def test_a_manager_that_is_gone_stands_in_the_log_once(tmp_path: Path) -> None:
    events: list[Event] = []
    subscribe(events.append, wants=lambda kind: kind is NotifyFailed)
    try:
        manager = ServiceManager(str(tmp_path / "gone"))
        for _ in range(2):
            manager.notify_ready("here")
            manager.notify("WATCHDOG=1")
    finally:
        unsubscribe(events.append)

    failed = [one for one in events if isinstance(one, NotifyFailed)]
    assert [one.state for one in failed] == ["READY=1", "WATCHDOG=1"]
    assert [one.error.__traceback__ for one in failed] == [None, None]


def test_a_manager_that_goes_twice_stands_in_the_log_twice(tmp_path: Path) -> None:
    events: list[Event] = []
    path = tmp_path / "socket"
    manager = ServiceManager(str(path))
    subscribe(events.append, wants=lambda kind: kind is NotifyFailed)
    try:
        manager.notify("WATCHDOG=1")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as channel:
            channel.bind(str(path))
            manager.notify("WATCHDOG=1")
        manager.notify("WATCHDOG=1")
    finally:
        unsubscribe(events.append)

    assert len(events) == 2


def test_a_message_arrives_as_one_datagram(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "socket"))
        manager.settimeout(60)
        ServiceManager(str(tmp_path / "socket")).notify_ready("ready at http://x")

        assert manager.recv(4096) == b"READY=1\nSTATUS=ready at http://x"


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
