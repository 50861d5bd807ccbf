"""A trial that the database does not finish decides nothing."""

from __future__ import annotations

import pytest

from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import Overloaded, StoreUnavailable, TimeLimitExceeded
from docgraph.store.trials import _find_fault

pytestmark = pytest.mark.anyio

STAGE = {"$limit": 1}


async def test_stages_that_are_not_finished_together_are_tried_alone() -> None:
    async def run(_: Deadline) -> None:
        raise TimeLimitExceeded("too long")

    assert await _find_fault([STAGE, STAGE], run)
    with pytest.raises(Overloaded):
        await _find_fault([STAGE], run)


async def test_the_second_time_has_more_time() -> None:
    limits: list[int] = []

    async def run(deadline: Deadline) -> None:
        limits.append(deadline.limit_ms)
        if len(limits) == 1:
            raise TimeLimitExceeded("too long")

    assert await _find_fault([STAGE], run) == ""
    assert limits[0] < limits[1]


async def test_an_outage_is_an_outage() -> None:
    async def run(_: Deadline) -> None:
        raise StoreUnavailable("away")

    with pytest.raises(StoreUnavailable):
        await _find_fault([STAGE], run)
