"""Programs that a machine may not have: a test that needs one is skipped with a line about it."""

from __future__ import annotations

import shutil
from importlib.util import find_spec

import pytest

__all__ = ["find_browser", "require"]

_BROWSERS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")


def require(*names: str) -> None:
    """Skip the test that asks, unless every one of these programs is found."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs a program that is not installed: {', '.join(missing)}")


def find_browser() -> str:
    """The path of a Chromium; skips the test that asks where there is none, or no Playwright."""
    if find_spec("playwright") is None:
        pytest.skip("needs Playwright, which is not installed: make drill-browser")
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        pytest.skip("needs a browser that is not installed: chromium")
    return found
