"""Schemathesis with everything that it thinks of, for everything that is described.

`test_schemathesis.py` tries some paths in each run of the suite; this takes some minutes.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conformance.test_schemathesis import SHARES, attack, described
from tests.http.harness import Mongo


@pytest.mark.usefixtures("preloaded")
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("phase", SHARES)
def test_nothing_that_is_sent_anywhere_gets_an_answer_that_is_not_described(
    mongo_client: Mongo, mongo_uri: str, tmp_path: Path, run_seed: int, phase: str
) -> None:
    with described(mongo_client, mongo_uri, tmp_path) as (address, paths):
        attack(address, paths, {phase: paths}, run_seed, tmp_path)
