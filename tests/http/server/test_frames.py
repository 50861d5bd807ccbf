"""How many functions one request starts: numbers that a busy machine does not change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from bench.contest import load_definitions
from bench.data import DB
from bench.frames import CALLERS, RUNGS, VERSION, count_own, count_starts, load_data, read_budgets

from docgraph.runtime.native import name_lane
from tests.databases import drop
from tests.http.harness import Mongo

# Of one kind each: without data, one document with a relation, REST, and next to nothing.
_TESTED = ("W0", "W1", "R1", "ping")
_SLACK = 1.02  # whether a command finds a connection depends on the moment


@pytest.fixture
def bench_uri(mongo_client: Mongo, mongo_uri: str) -> Iterator[str]:
    """The database with the data and apps of the bench."""
    load_data(mongo_uri, load_definitions()[:2])
    yield mongo_uri
    drop(mongo_client, DB)


def test_no_request_starts_more_functions_than_its_budget(bench_uri: str) -> None:
    budgets = read_budgets(name_lane())
    if not budgets:
        pytest.skip(f"no budgets for Python {VERSION}")
    rungs = [one for one in RUNGS if one.id in _TESTED]
    counts = count_starts(bench_uri, tuple(CALLERS), rungs)
    exceeded = {
        f"{caller} {rung}": (count_own(starts), budgets[caller][rung])
        for caller, of_caller in counts.items()
        for rung, starts in of_caller.items()
        if count_own(starts) > budgets[caller][rung] * _SLACK
    }
    assert not exceeded, f"started and budget (`python -m bench.frames --functions 40`): {exceeded}"
