"""The table of issued tokens, which all workers of an instance share."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from docgraph.auth.tokens.table import TokenRow, TokenTable


def row(id: bytes, login: str) -> TokenRow:
    return TokenRow(id, login, b"{}", 1.0, 9.0)


def test_a_write_that_fails_changes_nothing_and_blocks_no_later_one(tmp_path: Path) -> None:
    table = TokenTable(tmp_path / "tokens")
    for login in ("ada", "eve"):
        table.put(row(login.encode(), login), usable_until=0.0)

    with pytest.raises(sqlite3.IntegrityError):
        table.replace(row(b"eve", "ada"))

    assert table.find(b"ada") == row(b"ada", "ada")
    assert table.end("ada") == [b"ada"]
    assert table.find(b"eve") == row(b"eve", "eve")
    table.close()
