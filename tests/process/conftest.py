"""Fixtures of the tests that start processes."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing import resource_tracker

import pytest

from tests.process.commands import start_preloaded, stop_preloaded


@pytest.fixture(scope="session", autouse=True)
def preloaded() -> Iterator[None]:
    """The processes that others are started from, and that watch over them, live for the run."""
    resource_tracker.ensure_running()
    start_preloaded()
    yield
    stop_preloaded()
