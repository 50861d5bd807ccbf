"""Fixtures of the tests with generated inputs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.properties.engine_runner import Engine


@pytest.fixture
def engine(mongo_uri: str, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """An engine on a loop of its own, with the `SETTINGS` of the module."""
    engine = Engine(mongo_uri, request.module.SETTINGS)
    yield engine
    engine.close()
