"""Looking for users and rules takes too long: which limit was it?"""

from __future__ import annotations

import asyncio
import time
from types import SimpleNamespace
from typing import Any

import pytest

from docgraph.exchange.deadline import Deadline, Patience
from docgraph.exchange.errors import (
    DocgraphError,
    PoolExhausted,
    StoreUnavailable,
    TimeLimitExceeded,
)
from docgraph.runtime.memory import AnswerBudget
from docgraph.server.deadlines import RequestDeadlines

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize(
    ("deadline", "is_busy", "expected"),
    [
        (Deadline(0.0, 1, Patience(60.0)), True, TimeLimitExceeded),
        (Deadline(patience=Patience(0.0)), False, StoreUnavailable),
        (Deadline(patience=Patience(0.0)), True, PoolExhausted),
    ],
)
async def test_a_pool_that_was_busy_meanwhile_is_overload(
    deadline: Deadline, is_busy: bool, expected: type[DocgraphError]
) -> None:
    """Decision 51: overload of our own making is never 500."""
    asked: list[float] = []

    def was_pool_busy(since: float) -> bool:
        asked.append(since)
        return is_busy

    bounds = RequestDeadlines(0, was_pool_busy, AnswerBudget(1))
    exchange: Any = SimpleNamespace(deadline=deadline)
    started = time.monotonic()
    examination = bounds.limit_authorization(exchange)
    entered = time.monotonic()
    try:
        with pytest.raises(DocgraphError) as raised, examination:
            await asyncio.Event().wait()
    finally:
        bounds.close()
    assert type(raised.value) is expected
    assert all(started <= one <= entered for one in asked)
