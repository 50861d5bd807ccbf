"""CSV tables of documents (RFC 4180): cells, columns, lines; protection against CSV injection.

The columns are given, or they are the fields of the first documents, in the order in which they
appear. A line is encoded when its document arrives: columns that are found later are at its end,
where it is empty. So no document is stored until all columns are known.

Spreadsheets execute a cell that begins like a formula. Its text may come from anyone who can write
to the database, so it gets an apostrophe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from math import isfinite
from typing import Any, Final, NamedTuple
from urllib.parse import quote

from docgraph.codec.bson_types import (
    Binary,
    DatetimeMS,
    Decimal128,
    Int64,
    ObjectId,
    Regex,
    Timestamp,
    binary_text,
)
from docgraph.codec.encode import JsonMode, encode, replace_surrogates
from docgraph.codec.forms import FORMS, plain_double_form
from docgraph.exchange.data import Document
from docgraph.exchange.errors import RequestError

CSV: Final = "text/csv"
MAX_SAMPLE: Final = 1000  # documents whose fields are the columns
MAX_COLUMNS: Final = 4096  # further fields are in the last column
MAX_NAMES: Final = 1024 * 1024  # characters in the names of all columns: each has its whole path
_MORE: Final = "_more"
_FORMULA: Final = "=+-@\t\r"
_MAX_NAME: Final = 100  # characters of a file name

_needs_quotes = re.compile('[",\r\n]').search
_unsafe = re.compile(r"[^\w.-]+")

Show = Callable[[Any], str]


def quote_cell(text: str) -> str:
    """Quote the text if it needs quotes; an empty text has them, because an empty cell is null."""
    if not text or _needs_quotes(text):
        return '"' + text.replace('"', '""') + '"'
    return text


def protect_cell(text: str) -> str:
    """Return the cell of a text that no spreadsheet reads as a formula."""
    return quote_cell(f"'{text}" if text[:1] in _FORMULA and text else text)


class CsvCells:
    """Renders values as cells; `raw`: texts that begin like a formula stay as they are."""

    def __init__(self, *, raw: bool = False) -> None:
        self.text: Callable[[str], str] = quote_cell if raw else protect_cell
        plain = FORMS[JsonMode.CSV]
        self._shows: dict[type, Show] = {
            str: self.text,
            type(None): lambda _: "",
            bool: lambda value: "true" if value else "false",
            int: str,
            Int64: lambda value: str(int(value)),
            float: lambda value: repr(value) if isfinite(value) else plain_double_form(value),
            ObjectId: str,
            Regex: lambda value: self.text(plain[Regex](value)),
            Binary: lambda value: self.text(binary_text(value)),
            bytes: lambda value: self.text(binary_text(value)),
            **{kind: plain[kind] for kind in (Decimal128, datetime, DatetimeMS, Timestamp)},
        }

    def show(self, value: Any) -> str:
        """Return the cell of a stored value; arrays and documents are JSON."""
        show = self._shows.get(type(value))
        return show_json(encode(value, JsonMode.CSV)) if show is None else show(value)


def show_json(text: bytes) -> str:
    """Return the cell of an array or object, which never begins like a formula."""
    return quote_cell(text.decode())


def parse_formulas(text: str) -> bool:
    """Return whether texts that begin like a formula stay as they are (`csv-formulas`)."""
    if text not in ("text", "raw"):
        raise RequestError("illegal csv-formulas parameter, it must be text or raw")
    return text == "raw"


def encode_cells(cells: Sequence[str]) -> bytes:
    """Return the cells of a line, without its end."""
    line = ",".join(cells)
    try:
        return line.encode()
    except UnicodeEncodeError:
        return replace_surrogates(line).encode()


def encode_line(cells: Sequence[str]) -> bytes:
    """Return a line; one empty cell alone has quotes, because readers skip empty lines."""
    return (encode_cells(cells) or b'""') + b"\r\n"


class _Step:
    """A step of the paths of columns; `index` is the column whose path ends here."""

    __slots__ = ("columns", "index", "inner")

    def __init__(self) -> None:
        self.index: int | None = None
        self.inner: dict[str, _Step] = {}
        self.columns: list[int] = []  # those whose paths lead on

    def add(self, path: Sequence[str], index: int) -> None:
        step = self
        for name in path:
            step.columns.append(index)
            step = step.inner.setdefault(name, _Step())
        step.index = index


class NamedColumns:
    """A table with given columns: paths, each through objects and the elements of arrays."""

    def __init__(self, cells: CsvCells, paths: Sequence[str]) -> None:
        self._show = cells.show
        self._width = len(paths)
        self._first = _Step()
        for index, path in enumerate(paths):
            self._first.add(path.split("."), index)
        self._lines = [encode_line([cells.text(path) for path in paths])] if paths else []
        self.size = sum(map(len, self._lines))
        self.count = 0

    def add(self, documents: Iterable[Document]) -> None:
        """Append a line for each document."""
        show, columns = self._show, range(self._width)
        for document in documents:
            self.count += 1
            if columns:
                values = _find_values(document, self._first)
                line = encode_line([show(values.get(index)) for index in columns])
                self.size += len(line)
                self._lines.append(line)

    def drain(self) -> bytes:
        """Return the lines since the last call; the first one has the names of the columns."""
        lines, self._lines = self._lines, []
        return b"".join(lines)


def _find_values(value: Any, step: _Step, *, is_inside: bool = False) -> dict[int, Any]:
    """Return the values of columns; of an array, those of its elements that have one.

    The value is walked once for all columns: there may be hundreds, and a million elements.
    `is_inside`: of an array, which lists nothing that is empty.
    """
    values: dict[int, Any] = {}
    if isinstance(value, dict):
        names = step.inner if len(step.inner) < len(value) else value
        for name in [key for key in names if key in value and key in step.inner]:
            inner, below = value[name], step.inner[name]
            if below.index is not None:
                values[below.index] = inner
            if below.inner:
                values |= _find_values(inner, below, is_inside=is_inside)
    elif isinstance(value, list):
        values = {} if is_inside else {index: [] for index in step.columns}
        for element in value:
            for index, item in _find_values(element, step, is_inside=True).items():
                values.setdefault(index, []).append(item)
    return values


class _Column:
    """A field of the documents; `index` is its column, None if only fields inside it have one."""

    __slots__ = ("index", "inner", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.index: int | None = None
        self.inner: dict[str, _Column] = {}


class _TableLine(NamedTuple):
    cells: bytes  # of the columns that were known
    width: int  # how many that were
    rest: bytes  # the cell of everything that has no column


class FoundColumns:
    """A table whose columns are the fields of its first documents, also those inside objects.

    The last column, if it is needed, contains the fields that have no column.
    """

    def __init__(self, cells: CsvCells) -> None:
        self._cells = cells
        self._fields: dict[str, _Column] = {}
        self._names: list[str] = []
        self._named = 0
        self._lines: list[_TableLine] = []
        self._width: int | None = None  # None: the names are not rendered yet
        self._has_rest = False
        self._size = 0
        self.count = 0

    @property
    def size(self) -> int:
        """The size of the table in bytes, or a little more."""
        return self._size + len(self._lines) * len(self._names)

    def add(self, documents: Iterable[Document]) -> None:
        """Append a line for each document."""
        for document in documents:
            self.count += 1
            cells = [""] * len(self._names)
            rest = self._fill(self._fields, document, "", cells)
            text = b"" if not rest else encode_cells([show_json(encode(rest, JsonMode.CSV))])
            self._has_rest = self._has_rest or bool(rest)
            line = _TableLine(encode_cells(cells), len(cells), text)
            self._size += len(line.cells) + len(line.rest) + 3
            self._lines.append(line)

    def _fill(
        self, fields: dict[str, _Column], document: Document, prefix: str, cells: list[str]
    ) -> Document:
        """Set the cells of a document; return its fields that have no column."""
        rest: Document = {}
        show = self._cells.show
        for key, value in document.items():
            column = fields.get(key)
            if column is None:
                if self._is_full or not self._reserve(len(prefix) + len(key)):
                    rest[key] = value
                    continue
                column = fields[key] = _Column(f"{prefix}{key}")
            if value and isinstance(value, dict):
                inner = self._fill(column.inner, value, f"{column.name}.", cells)
                if inner:
                    rest[key] = inner
                continue
            if column.index is None:
                if self._is_full:
                    rest[key] = value
                    continue
                column.index = len(cells)
                self._names.append(column.name)
                cells.append("")
            cells[column.index] = show(value)
        return rest

    def _reserve(self, length: int) -> bool:
        """Return whether a name of this length fits: the names of nested fields repeat it."""
        if self._named + length > MAX_NAMES:
            return False
        self._named += length
        return True

    @property
    def _is_full(self) -> bool:
        return self.count > MAX_SAMPLE or len(self._names) >= MAX_COLUMNS

    def drain(self) -> bytes:
        """Return the lines since the last call; the first one has the names of the columns.

        Call it when all documents are added, or more than the first ones.
        """
        lines, self._lines = self._lines, []
        parts = []
        if self._width is None:
            self._width = len(self._names)
            self._has_more = self._has_rest or self.count > MAX_SAMPLE
            parts.append(self._encode_names())
        for line in lines if self._width or self._has_more else ():
            missing = self._width - max(line.width, 1)
            text = line.cells + b"," * missing
            if self._has_more:
                text += (b"," if self._width else b"") + line.rest
            parts.append((text or b'""') + b"\r\n")
        return b"".join(parts)

    def _encode_names(self) -> bytes:
        names = list(self._names)
        if self._has_more:
            more = _MORE
            while more in names:
                more = f"_{more}"
            names.append(more)
        line = encode_line([self._cells.text(name) for name in names]) if names else b""
        self._size += len(line)
        return line


CsvTable = NamedColumns | FoundColumns


def render_disposition(name: str) -> str:
    """Return `Content-Disposition`; a browser stores the file under a name without path."""
    safe = _unsafe.sub("_", name)[:_MAX_NAME].strip("._-") or "list"
    plain = re.sub(r"[^\x20-\x7e]", "_", safe)
    value = f'attachment; filename="{plain}.csv"'
    return value if plain == safe else f"{value}; filename*=UTF-8''{quote(safe)}.csv"
