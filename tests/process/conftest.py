"""Fixtures of the tests that start processes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.process.commands import stop_preloaded


@pytest.fixture(scope="session", autouse=True)
def preloaded() -> Iterator[None]:
    """The process that commands are started from ends with the tests."""
    yield
    stop_preloaded()
