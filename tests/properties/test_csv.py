"""CSV is read back by the parser of the standard library, for any documents."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from docgraph.codec.csv_table import CsvCells, FoundColumns, NamedColumns

FORMULA = "=+-@\t\r"

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8) | st.sampled_from(
    ["=1", "+1", "-1", "@x", "\t", "\r", '"', ",", "\n", "\r\n", "'"]
)
leaves = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | texts
names = st.text("ab=,\"\n'_.", min_size=1, max_size=3)
documents = st.recursive(
    st.dictionaries(names, leaves, max_size=4),
    lambda inner: st.dictionaries(names, leaves | inner | st.lists(leaves, max_size=3), max_size=3),
    max_leaves=8,
)


def flatten(document: dict[str, Any], prefix: tuple[str, ...] = ()) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for name, value in document.items():
        if isinstance(value, dict) and value:
            found |= flatten(value, (*prefix, name))
        else:
            found[*prefix, name] = value
    return found


def protect(text: str) -> str:
    return f"'{text}" if text and text[0] in FORMULA else text


def show(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case str():
            return protect(value)
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def parse(text: bytes) -> list[list[str]]:
    csv.field_size_limit(1 << 20)
    return list(csv.reader(io.StringIO(text.decode(), newline=""), strict=True))


@given(st.lists(documents, max_size=5))
def test_found_columns_are_read_back(rows: list[dict[str, Any]]) -> None:
    table = FoundColumns(CsvCells())
    table.add(rows)
    text = table.drain()
    flat = [flatten(row) for row in rows]
    columns = list(dict.fromkeys(path for row in flat for path in row))

    assert not text or text.endswith(b"\r\n")
    if not columns:
        assert text == b""
        return
    lines = parse(text)
    assert lines[0] == [protect(".".join(path)) for path in columns]
    assert lines[1:] == [[show(row.get(path)) for path in columns] for row in flat]


@given(st.lists(st.dictionaries(names, leaves, max_size=4), max_size=5))
def test_no_cell_begins_like_a_formula(rows: list[dict[str, Any]]) -> None:
    paths = sorted({name for row in rows for name in row} | {"x"})
    table = NamedColumns(CsvCells(), paths)
    table.add(rows)
    lines = parse(table.drain())

    assert len(lines) == len(rows) + 1
    for line in lines:
        assert len(line) == len(paths)
        for cell in line:
            assert not cell or cell[0] not in FORMULA or cell[1:].isdigit()
