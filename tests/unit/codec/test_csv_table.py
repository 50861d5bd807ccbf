"""CSV tables of documents: what a cell, a column and a line are."""

from __future__ import annotations

import csv
import io
import json
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MinKey, ObjectId, Regex, Timestamp

from docgraph.codec import csv_table
from docgraph.codec.csv_table import (
    CsvCells,
    FoundColumns,
    NamedColumns,
    protect_cell,
    render_disposition,
)

UUID_TEXT = "12345678-1234-5678-1234-567812345678"
UUID_VALUE = Binary(UUID(UUID_TEXT).bytes, 4)


def render(*documents: dict[str, Any], raw: bool = False) -> str:
    table = FoundColumns(CsvCells(raw=raw))
    table.add(documents)
    return table.drain().decode()


def parse(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (None, ""),
        ("", '""'),
        ("plain", "plain"),
        (" spaced ", " spaced "),
        ("a,b", '"a,b"'),
        ('say "hi"', '"say ""hi"""'),
        ("two\r\nlines", '"two\r\nlines"'),
        ("Grüße 🌍", "Grüße 🌍"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (-5, "-5"),
        (Int64(-9223372036854775808), "-9223372036854775808"),
        (1.0, "1.0"),
        (-1.5e300, "-1.5e+300"),
        (float("nan"), "NaN"),
        (float("-inf"), "-Infinity"),
        (Decimal128("-1.50"), "-1.50"),
        (Decimal128("NaN"), "NaN"),
        (ObjectId("0123456789abcdef01234567"), "0123456789abcdef01234567"),
        (datetime(2024, 2, 29, 12, 30, tzinfo=UTC), "2024-02-29T12:30:00.000Z"),
        (datetime(2024, 2, 29, 12, 30, 0, 5000), "2024-02-29T12:30:00.005Z"),
        (DatetimeMS(-62135596800001), "+000000-12-31T23:59:59.999Z"),
        (Timestamp(7, 1), "7.1"),
        (UUID_VALUE, UUID_TEXT),
        (b"\x00\x01", "AAE="),
        (b"\xf8", "'+A=="),
        (Regex("a,b", "i"), '"/a,b/i"'),
        ([], "[]"),
        ([1, "a", None], '"[1,""a"",null]"'),
        ([{"at": datetime(2024, 1, 1, tzinfo=UTC)}], '"[{""at"":""2024-01-01T00:00:00.000Z""}]"'),
        ([UUID_VALUE], f'"[""{UUID_TEXT}""]"'),
        ([Int64(2**60), float("nan")], f'"[""{2**60}"",""NaN""]"'),
        ({}, "{}"),
        (MinKey(), '"{""$minKey"":1}"'),
        (Code("x"), '"{""$code"":""x""}"'),
    ],
)
def test_cells(value: Any, cell: str) -> None:
    assert render({"a": value, "b": 1}) == f"a,b\r\n{cell},1\r\n"


@pytest.mark.parametrize("first", "=+-@\t\r")
def test_a_text_is_never_a_formula(first: str) -> None:
    text = f"{first}SUM(A1)"

    assert parse(render({text: text, "n": -1})) == [[f"'{text}", "n"], [f"'{text}", "-1"]]
    assert parse(render({text: text, "n": -1}, raw=True)) == [[text, "n"], [text, "-1"]]


@pytest.mark.parametrize("text", ["", "a=1", "'=1", " =1", "1-2"])
def test_other_texts_stay_as_they_are(text: str) -> None:
    assert parse(protect_cell(text)) == [[text]]


def test_nested_fields_have_columns_of_their_own() -> None:
    text = render({"_id": 1, "a": {"b": {"c": 2}, "d": 3}, "e": {}}, {"a": 4, "f": [{"g": 5}]})

    assert text == '_id,a.b.c,a.d,e,a,f\r\n1,2,3,{},,\r\n,,,,4,"[{""g"":5}]"\r\n'


def test_names_with_dots_are_other_columns_than_paths() -> None:
    assert render({"a.b": 1, "a": {"b": 2}}) == "a.b,a.b\r\n1,2\r\n"


def test_a_line_of_one_empty_cell_is_not_an_empty_line() -> None:
    assert render({"a": None}, {"a": 1}, {}) == 'a\r\n""\r\n1\r\n""\r\n'


def test_nothing_is_an_empty_text() -> None:
    assert render() == ""
    assert render({}, {}) == ""


def test_lone_surrogates_are_replaced() -> None:
    assert render({"a": "x\ud800y"}) == "a\r\nx\ufffdy\r\n"


def test_fields_after_the_sample_are_in_the_last_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_table, "MAX_SAMPLE", 2)
    table = FoundColumns(CsvCells())
    table.add([{"a": 1}, {"b": {"c": 2}}, {"a": 3, "b": {"c": 4, "d": 5}, "e": "=1"}])
    begin = table.drain().decode()
    table.add([{"a": 6}, {"b": 7}])

    assert begin == ('a,b.c,_more\r\n1,,\r\n,2,\r\n3,4,"{""b"":{""d"":5},""e"":""=1""}"\r\n')
    assert table.drain().decode() == '6,,\r\n,,"{""b"":7}"\r\n'


def test_without_further_documents_there_is_no_last_column(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_table, "MAX_SAMPLE", 2)

    assert render({"a": 1}, {"a": 2}) == "a\r\n1\r\n2\r\n"
    assert render({"a": 1}, {"a": 2}, {"a": 3}) == "a,_more\r\n1,\r\n2,\r\n3,\r\n"


def test_the_last_column_has_a_name_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_table, "MAX_SAMPLE", 1)

    assert render({"_more": 1}, {"x": 2}) == '_more,__more\r\n1,\r\n,"{""x"":2}"\r\n'
    assert render({}, {"x": 2}) == '_more\r\n""\r\n"{""x"":2}"\r\n'


def test_columns_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_table, "MAX_COLUMNS", 2)

    assert render({"a": 1, "b": 2, "c": 3, "d": {"e": 4}}, {"a": 5}) == (
        'a,b,_more\r\n1,2,"{""c"":3,""d"":{""e"":4}}"\r\n5,,\r\n'
    )


def test_long_names_do_not_multiply(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_table, "MAX_NAMES", 100)
    long, other = "k" * 30, "x" * 200
    rows = parse(render({"_id": 1, long: {f"f{n}": n for n in range(9)}, other: 2, "a": 3}))

    assert rows[0] == ["_id", f"{long}.f0", f"{long}.f1", "a", "_more"]
    assert rows[1][:4] == ["1", "0", "1", "3"]
    assert json.loads(rows[1][4]) == {long: {f"f{n}": n for n in range(2, 9)}, other: 2}


def test_the_size_is_at_least_that_of_the_text() -> None:
    table = FoundColumns(CsvCells())
    table.add([{f"é{n}": "x" * n} for n in range(50)])
    size = table.size

    assert len(table.drain()) - 4 * 50 <= size  # without the names, which are counted later


@pytest.mark.parametrize(
    ("path", "cell"),
    [
        ("a", '"{""b"":1}"'),
        ("a.b", "1"),
        ("a.x", ""),
        ("s.x", ""),
        ("list", '"[{""n"":1},{""m"":2},3,{""n"":[4]}]"'),
        ("list.n", '"[1,[4]]"'),
        ("missing", ""),
    ],
)
def test_named_columns(path: str, cell: str) -> None:
    document = {"a": {"b": 1}, "s": "text", "list": [{"n": 1}, {"m": 2}, 3, {"n": [4]}]}
    table = NamedColumns(CsvCells(), [path, "=x"])
    table.add([document])

    assert table.drain().decode() == f"{path},'=x\r\n{cell},\r\n"
    assert table.drain() == b""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("orders", 'attachment; filename="orders.csv"'),
        ("../../etc/passwd", 'attachment; filename="etc_passwd.csv"'),
        ('a"; filename="x.exe', 'attachment; filename="a_filename_x.exe.csv"'),
        ("a\r\nSet-Cookie: x", 'attachment; filename="a_Set-Cookie_x.csv"'),
        ("...", 'attachment; filename="list.csv"'),
        ("", 'attachment; filename="list.csv"'),
        ("Bücher", "attachment; filename=\"B_cher.csv\"; filename*=UTF-8''B%C3%BCcher.csv"),
        ("x" * 300, f'attachment; filename="{"x" * 100}.csv"'),
    ],
)
def test_file_names_are_safe(name: str, value: str) -> None:
    assert render_disposition(name) == value
