"""The page on what docgraph runs on says what the package says of itself, and what tests run on."""

from __future__ import annotations

import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

from pymongo import MongoClient

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/reference/support.md").read_text()


def read_rows(heading: str) -> dict[str, str]:
    """The first table below a heading, by its first column."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("| ").split(" | ", 1) for line in section.splitlines() if line[:2] == "| "]
    return {row[0]: row[1] for row in rows[1:] if len(row) == 2}


def test_the_versions_of_python_are_those_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [re.search(r"Python :: (3\.\d+)", one) for one in project["classifiers"]]

    assert list(read_rows("Python")) == [found[1] for found in named if found]


def test_the_version_of_mongodb_that_tests_run_on_is_named(
    mongo_client: MongoClient[dict[str, Any]],
) -> None:
    version = mongo_client.server_info()["version"]
    minor = ".".join(version.split(".")[:2])

    if sys.platform == "linux" and not {"DOCGRAPH_MONGOD", "DOCGRAPH_TEST_MONGO"} & set(os.environ):
        assert f"tested with {version}" in read_rows("MongoDB")[minor]
        assert f"MongoDB {version} on Linux" in PAGE
