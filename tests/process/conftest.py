"""Fixtures of the tests that start processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.process.commands import start_preloaded, stop_preloaded


@pytest.fixture(scope="session", autouse=True)
def preloaded() -> Iterator[None]:
    """The process that commands are started from begins and ends with the tests."""
    start_preloaded()
    yield
    stop_preloaded()
