"""The page of design decisions and those who point to it by number agree."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/explanation/decisions.md"
NUMBER = r"\d+[a-z]?\b"
NAMED = re.compile(rf"\bdecisions?\s+({NUMBER}(?:(?:,? and|,? to|,)\s+{NUMBER})*)", re.IGNORECASE)
RANGE = re.compile(r"(\d+) to (\d+)")


def numbers_in(text: str) -> set[str]:
    """The decisions that a text names, alone, in lists and in ranges."""
    found: set[str] = set()
    for named in NAMED.findall(text):
        found.update(re.findall(NUMBER, named))
        for first, last in RANGE.findall(named):
            found.update(map(str, range(int(first), int(last) + 1)))
    return found


def named_under(folder: str) -> dict[str, Path]:
    """The decisions that Python files name, each with one of the files."""
    files = (path for path in (ROOT / folder).rglob("*.py") if path != Path(__file__))
    return {number: path for path in files for number in numbers_in(path.read_text())}


def entries() -> list[str]:
    """The numbers of the page, in its order."""
    return re.findall(rf"^### ({NUMBER}) ", PAGE.read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Decision 12.", {"12"}),
        ("(decisions 1 to 3, 6, 8)", {"1", "2", "3", "6", "8"}),
        ("Decisions 13 and 20a, always", {"13", "20a"}),
        ("Decision 41: 404 for unbound paths", {"41"}),
        ("a decision of 12 people", set()),
    ],
)
def test_references_are_read(text: str, numbers: set[str]) -> None:
    assert numbers_in(text) == numbers


def test_every_entry_has_a_number_of_its_own() -> None:
    assert len(entries()) == len(set(entries())) > 40


@pytest.mark.parametrize("folder", ["src", "tests"])
def test_every_decision_that_is_named_is_on_the_page(folder: str) -> None:
    named = named_under(folder)

    assert {number: named[number] for number in named.keys() - set(entries())} == {}


def test_every_decision_is_named_in_a_test() -> None:
    assert set(entries()) - named_under("tests").keys() == set()
