"""Cached answers while everybody writes: never older than the lag, never another caller's (52)."""

from __future__ import annotations

import pytest

from tests.chance import IS_LONG
from tests.http.access_harness import guarded
from tests.http.cache_checker import Checker
from tests.http.cache_writer import ALL_WAYS, Way
from tests.http.harness import Document, Mongo

pytestmark = pytest.mark.anyio

LAG = 5.0  # seconds
SETTINGS: Document = {
    "graphql": {"cache": {"max-lag-ms": int(LAG * 1000)}, "explain": ["user", "admin"]}
}
WRITES = 200 if IS_LONG else 50


@pytest.mark.parametrize("ways", [ALL_WAYS, ("other", "direct")], ids=["all", "foreign"])
async def test_answers_are_those_of_the_database(
    mongo_client: Mongo, mongo_uri: str, run_seed: int, ways: tuple[Way, ...]
) -> None:
    async with (
        guarded(mongo_client, mongo_uri, SETTINGS) as own,
        guarded(mongo_client, mongo_uri, SETTINGS, db=own.db, drop=False) as other,
    ):
        checker = Checker(own, other, run_seed, LAG, ways, is_paced=True)
        await checker.prepare()
        await checker.run(WRITES)
        assert checker.hits, checker.statuses
