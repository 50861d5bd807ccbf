"""The page on the behaviour of the REST API names tests that exist."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from tests.http.rest.test_rest_cases import CASES

ROOT = Path(__file__).parents[2]
PAGE = Path(__file__).with_name("rest_coverage.md")
NAMED = re.compile(r"`([a-z_0-9]+): ([^`]+)`")


@cache
def names_of(file: str) -> set[str]:
    """The tests in all files of that name."""
    found = [path.read_text() for path in (ROOT / "tests").rglob(f"test_{file}.py")]
    return {name for text in found for name in re.findall(r"def test_([a-z0-9_]+)", text)}


def test_every_test_that_the_page_names_exists() -> None:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    named = [pair for line in rows for pair in NAMED.findall(line)]

    assert len(named) > 100
    for file, name in named:
        known = set(CASES) if file == "cases" else names_of(file)
        assert name in known or (name == "*" and known), f"{file}: {name}"


def test_every_row_has_a_test_or_says_why_not() -> None:
    for line in PAGE.read_text().splitlines():
        if re.match(r"\| [0-9–]", line):
            assert NAMED.search(line) or "left out" in line or "not tested" in line, line
