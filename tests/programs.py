"""Programs that a machine may not have: a test that needs one is skipped with a line about it."""

from __future__ import annotations

import shutil

import pytest

__all__ = ["require"]


def require(*names: str) -> None:
    """Skip the test that asks, unless every one of these programs is found."""
    missing = [name for name in names if shutil.which(name) is None]
    if missing:
        pytest.skip(f"needs a program that is not installed: {', '.join(missing)}")
