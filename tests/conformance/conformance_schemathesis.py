"""Schemathesis with the values at the bounds of everything that is described.

`test_schemathesis.py` sends those of some paths in each run of the suite; this takes some minutes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.test_schemathesis import attack, described
from tests.http.harness import Mongo


@pytest.mark.usefixtures("preloaded")
@pytest.mark.timeout(1800)
def test_no_value_at_any_bound_gets_an_answer_that_is_not_described(
    mongo_client: Mongo, mongo_uri: str, tmp_path: Path, run_seed: int
) -> None:
    with described(mongo_client, mongo_uri, tmp_path) as (address, paths):
        attack(address, paths, "coverage", run_seed, tmp_path)
