"""The desk that the tests run on: the directory above this one."""

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def docgraph_settings() -> dict[str, object]:
    """Definitions, documents, rules and plugins are those of the desk."""
    return {"directory": Path(__file__).parents[1]}
