"""What each test costs: seconds and processor time of its phases, and of each fixture.

A run writes one file per process to `build/test-times`; `make test-times` prints them. Processor
time of a call includes that of programs that the test started and waited for. It says the same on a
busy machine, so budgets are about it.
"""

from __future__ import annotations

import json
import resource
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

DIRECTORY = Path(__file__).parents[1] / "build" / "test-times"
_NAME = "times"
_now, _cpu = time.perf_counter, time.process_time  # as they are before a test replaces them


def _read_cpu(*, with_children: bool = False) -> float:
    """Return the processor time of this process; that of children counts when they have ended.

    The databases and servers of a module or a run end with some test, which is not their cause.
    """
    if not with_children:
        return _cpu()
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return _cpu() + children.ru_utime + children.ru_stime


class TestTimes:
    """Records phases and fixtures of one process, and writes them when its run ends."""

    def __init__(self) -> None:
        self._process = "main"
        self._began = _now(), _read_cpu()
        self._collected = 0.0, 0.0
        self._tests: dict[str, dict[str, tuple[float, float]]] = defaultdict(dict)
        self._fixtures: dict[str, list[float]] = defaultdict(lambda: [0, 0.0, 0.0])
        self._second_tier: set[str] = set()

    @contextmanager
    def _measure(self, test: str, phase: str) -> Iterator[None]:
        is_call = phase == "call"
        begun, used = _now(), _read_cpu(with_children=is_call)
        try:
            yield
        finally:
            cpu = _read_cpu(with_children=is_call) - used
            self._tests[test][phase] = _now() - begun, cpu

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self, session: pytest.Session) -> None:
        self._collected = _now() - self._began[0], _read_cpu() - self._began[1]
        self._second_tier = {
            item.nodeid for item in session.items if item.get_closest_marker("second_tier")
        }

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        with self._measure(item.nodeid, "setup"):
            yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        with self._measure(item.nodeid, "call"):
            yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        with self._measure(item.nodeid, "teardown"):
            yield

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(
        self, fixturedef: pytest.FixtureDef[Any]
    ) -> Generator[None, object, object]:
        begun, used = _now(), _read_cpu()
        try:
            result: object = yield
            return result
        finally:
            sums = self._fixtures[f"{fixturedef.baseid}::{fixturedef.argname}"]
            sums[0] += 1
            sums[1] += _now() - begun
            sums[2] += _read_cpu() - used

    def begin_fork(self, number: int) -> None:
        """Record a fork of the process that collected the tests."""
        self._process = f"fork{number}"
        self._began = _now(), _read_cpu()
        self._collected = 0.0, 0.0

    def pytest_sessionfinish(self) -> None:
        """Write what was recorded."""
        DIRECTORY.mkdir(parents=True, exist_ok=True)
        record = {
            "seconds": _now() - self._began[0],
            "collection": self._collected,
            "tests": self._tests,
            "fixtures": self._fixtures,
            "second_tier": sorted(self._second_tier & set(self._tests)),
        }
        (DIRECTORY / f"{self._process}.json").write_text(json.dumps(record))


def install(config: pytest.Config) -> None:
    """Record this process, and forget the run before."""
    for file in DIRECTORY.glob("*.json"):
        file.unlink()
    config.pluginmanager.register(TestTimes(), _NAME)


def find(config: pytest.Config) -> TestTimes:
    """What records this process."""
    found: TestTimes = config.pluginmanager.get_plugin(_NAME)  # type: ignore[assignment]
    return found
