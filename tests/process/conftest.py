"""Fixtures of the tests that start processes."""

from __future__ import annotations

import pytest
from tools.helm import find_helm


@pytest.fixture(scope="session", autouse=True)
def commands_are_preloaded(preloaded: None) -> None:
    """Commands are started from a preloaded process."""


@pytest.fixture(scope="session")
def helm() -> str:
    """Where helm is; without it, charts are not rendered."""
    found = find_helm()
    if found is None:
        pytest.skip("needs a program that is not installed: helm (make chart-check)")
    return found
