"""Budgets of the size of files: what exceeds them is named."""

from __future__ import annotations

from pathlib import Path

from tools.budgets import TEST_FILE_LINES, find_long_tests


def test_a_long_file_of_tests_is_named(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test_short.py").write_text("\n" * TEST_FILE_LINES)
    (tests / "test_long.py").write_text("\n" * (TEST_FILE_LINES + 1))

    (line,) = find_long_tests(tests)

    assert line.startswith(f"tests/test_long.py: {TEST_FILE_LINES + 1} lines")
