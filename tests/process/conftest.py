"""Fixtures of the tests that start processes."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def commands_are_preloaded(preloaded: None) -> None:
    """Commands are started from a preloaded process."""
