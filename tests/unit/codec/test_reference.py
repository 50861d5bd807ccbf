"""The page `docs/reference/json.md` tells the truth: its tables and examples are run here."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docgraph.codec import JsonMode, decode, encode
from docgraph.exchange.errors import BodyError

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "json.md"
OUTPUT, INPUT, ERRORS = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
REST_COLUMNS = [
    JsonMode.STANDARD,
    JsonMode.STRICT,
    JsonMode.EXTENDED,
    JsonMode.RELAXED,
    JsonMode.SHELL,
]
GRAPHQL_COLUMNS = [
    JsonMode.GRAPHQL,
    JsonMode.GRAPHQL_CANONICAL,
    JsonMode.GRAPHQL_RELAXED,
    JsonMode.GRAPHQL_PLAIN,
]


def rows(columns: int) -> list[list[str]]:
    cells = [re.findall(r"`([^`]+)`", line) for line in OUTPUT.splitlines() if line[:2] == "| "]
    return [row for row in cells if len(row) == columns and row[0] != "standard"]


def examples(section: str) -> list[tuple[str, str]]:
    blocks = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
    lines = [line.split("→") for block in blocks for line in block.splitlines()]
    return [(left.strip(), right.strip()) for left, right in lines]


@pytest.mark.parametrize("row", rows(len(REST_COLUMNS)))
def test_the_table_of_rest_modes_is_what_is_written(row: list[str]) -> None:
    value = decode(row[REST_COLUMNS.index(JsonMode.EXTENDED)])

    assert [encode(value, mode).decode() for mode in REST_COLUMNS] == row
    assert all(decode(cell) == value or value != value for cell in row)  # noqa: PLR0124 - NaN


@pytest.mark.parametrize("row", rows(len(GRAPHQL_COLUMNS)))
def test_the_table_of_graphql_modes_is_what_is_written(row: list[str]) -> None:
    """Decision 17: `graphql.json-mode`."""
    value = decode(row[GRAPHQL_COLUMNS.index(JsonMode.GRAPHQL_CANONICAL)])

    assert [encode(value, mode).decode() for mode in GRAPHQL_COLUMNS] == row


@pytest.mark.parametrize(("text", "extended"), examples(INPUT))
def test_the_examples_of_input_are_read_as_shown(text: str, extended: str) -> None:
    assert encode(decode(text), JsonMode.EXTENDED).decode() == extended


@pytest.mark.parametrize(("text", "message"), examples(ERRORS))
def test_the_examples_of_errors_are_refused_as_shown(text: str, message: str) -> None:
    with pytest.raises(BodyError) as caught:
        decode(text)

    assert caught.value.message == message


def test_the_page_has_its_tables_and_examples() -> None:
    assert len(rows(len(REST_COLUMNS))) >= 10
    assert len(rows(len(GRAPHQL_COLUMNS))) >= 12
    assert len(examples(INPUT)) >= 15
    assert len(examples(ERRORS)) >= 8
