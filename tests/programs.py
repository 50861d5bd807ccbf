"""Programs that a machine may not have: a test that needs one is skipped with a line about it."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

__all__ = ["find_browser", "require", "run_program"]

_BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


def require(*names: str) -> None:
    """Skip the test that asks, unless every one of these programs is found."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs a program that is not installed: {', '.join(missing)}")


async def run_program(*command: str, cwd: Path | None = None) -> subprocess.CompletedProcess[bytes]:
    """What a program says until it ends.

    Never by a subprocess of the event loop: uvloop runs Python between fork and exec, in a child
    that shares what the loops of applications in other threads wait with, and may take it away.
    """
    run = subprocess.run
    return await asyncio.to_thread(run, command, cwd=cwd, capture_output=True, timeout=90)


def find_browser() -> str:
    """The path of a Chromium; skips the test that asks where there is none, or no Playwright."""
    if find_spec("playwright") is None:
        pytest.skip("needs Playwright, which is not installed: make drill-browser")
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        pytest.skip("needs a browser that is not installed: chromium")
    return found
