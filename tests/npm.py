"""Packages of npm that a test needs: installed once, where the machine can."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.programs import require

__all__ = ["install"]


def install(directory: Path, package: str) -> None:
    """Install what the directory's `package.json` names; skip the test where that fails."""
    require("node", "npm")
    if (directory / "node_modules" / package).is_dir():
        return
    command = ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund"]
    done = subprocess.run(
        command, cwd=directory, capture_output=True, text=True, timeout=100, check=False
    )
    if done.returncode:
        pytest.skip(f"npm cannot install {package}: {done.stderr.strip()[-200:]}")
