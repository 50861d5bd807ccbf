"""Fixtures of the tests that talk HTTP; those of `tests/http` apply here, too."""

from __future__ import annotations

from tests.http.conftest import patient_trials

__all__ = ["patient_trials"]
