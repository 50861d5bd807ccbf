"""`make run` where something is missing leaves nothing that breaks the next one."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.process.commands import ROOT
from tests.programs import require

TOO_OLD = '[ "$1" = -c ] && exit 1'  # what it is asked first is whether it is good enough
# What a make hands down: `make test VENV=other` is not for the makes of tests.
HANDED_DOWN = ("MAKEFLAGS", "MAKEOVERRIDES", "MAKELEVEL", "MFLAGS", "PYTHON", "VENV")
BREAKS = '[ "$1" = -c ] && exit 0; mkdir -p .venv/bin; exit 3'


@pytest.mark.parametrize("answer", [f"{TOO_OLD}; mkdir -p .venv/bin", BREAKS])
def test_a_python_that_cannot_make_the_environment_leaves_none(answer: str, tmp_path: Path) -> None:
    require("make", "bash")
    shutil.copy(ROOT / "Makefile", tmp_path)
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{answer}\n")
    python.chmod(0o700)

    done = subprocess.run(
        ["make", "run", f"PYTHON={python}"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name not in HANDED_DOWN},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode != 0
    assert ("docgraph needs Python 3.11" in done.stdout) == (answer != BREAKS)
    assert not (tmp_path / ".venv").exists()
