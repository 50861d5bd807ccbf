"""Fixtures of the tests of the workbench; those of `tests/http` apply here, too."""

from __future__ import annotations

import pytest
from tests.http.conftest import api, patient_trials, shared_server

__all__ = ["api", "patient_trials", "shared_server"]

_BRIEF = (
    "advise.advise._GLANCE_MS",
    "advise.index_serving._EXPLAIN_MS",
    "advise.index_serving._TRY_MS",
    "advise.collection_sample._COUNT_MS",
    "infer.relations._PATIENCE_MS",
    "infer.survey._GLANCE_MS",
    "infer.survey._LONGEST_MS",
)


@pytest.fixture(autouse=True)
def patient_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """However busy the machine is, the database answers what a tool may do without."""
    for name in _BRIEF:
        monkeypatch.setattr(f"docgraph_workbench.{name}", 60_000)
