"""A pytest plugin that records which lines each test runs, how long it takes, and if it passes.

`python -m tools.mutations map` loads it. Contexts of coverage.py by function names are of no use
here: a test that awaits something leaves its function while the server's tasks run.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from coverage import Coverage

VARIABLE = "DOCGRAPH_MUTATIONS_MAP"  # where the record is written

_failed: set[str] = set()
# A mutant that hangs is ended without a word: these would stay.
_STARTS_A_DATABASE = {"replica_set", "guarded_mongo"}


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Attribute what runs from here to the end of the test to that test."""
    measured = Coverage.current()
    if measured is not None:
        measured.switch_context(item.nodeid)
    begin = time.monotonic()
    try:
        return (yield)
    finally:
        seconds = time.monotonic() - begin
        if measured is not None:
            measured.switch_context("")
        fixtures = getattr(item, "fixturenames", ())
        if item.nodeid not in _failed and _STARTS_A_DATABASE.isdisjoint(fixtures):
            _write(item.nodeid, seconds)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Tests that fail or are skipped without a mutation cannot kill one."""
    report = yield
    if not report.passed:
        _failed.add(item.nodeid)
    return report


def _write(test: str, seconds: float) -> None:
    """One file for each process of the run, complete up to the last test even if the run is cut."""
    path = Path(os.environ[VARIABLE]) / f"tests-{os.getpid()}.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps([test, round(seconds, 3)]) + "\n")
