"""A pytest plugin that has one module imported from a changed copy of its file."""

from __future__ import annotations

import os
from importlib.machinery import SourceFileLoader
from pathlib import Path
from typing import Any

import pytest

FILE = "DOCGRAPH_MUTATIONS_FILE"
SOURCE = "DOCGRAPH_MUTATIONS_SOURCE"
WITNESS = "DOCGRAPH_MUTATIONS_WITNESS"
IMPOSSIBLE = 99  # exit code of a fork that could not replace the code


def _install(file: str, source: str) -> None:
    """Compile the changed source wherever the import system asks for the code of that file."""
    ordinary = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> Any:
        if self.get_filename(fullname) == file:
            return compile(Path(source).read_bytes(), file, "exec", dont_inherit=True)
        return ordinary(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[method-assign, assignment]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Remember the first test that fails."""
    witness = Path(os.environ[WITNESS])
    if report.failed and not witness.stat().st_size:
        witness.write_text(report.nodeid, encoding="utf-8")


if os.environ.get(FILE):
    _install(os.environ[FILE], os.environ[SOURCE])
