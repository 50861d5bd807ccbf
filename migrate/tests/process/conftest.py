"""Fixtures of the tests that start processes; those of `tests/process` apply here, too."""

from __future__ import annotations

from tests.process.conftest import commands_are_preloaded

__all__ = ["commands_are_preloaded"]
