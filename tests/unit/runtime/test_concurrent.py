"""Calls side by side: when one fails, none of the others is left to itself."""

from __future__ import annotations

import asyncio

import pytest

from docgraph.runtime.tasks import concurrently

pytestmark = pytest.mark.anyio


async def test_results_come_in_the_order_of_the_calls() -> None:
    async def say(number: int) -> int:
        await asyncio.sleep(0)
        return number

    assert await concurrently(say(number) for number in range(3)) == [0, 1, 2]
    assert await concurrently([say(7)]) == [7]


async def test_the_first_error_comes_out_as_itself_after_the_others_have_ended() -> None:
    ended = asyncio.Event()

    async def fail() -> None:
        await asyncio.sleep(0)
        raise ValueError("no")

    async def wait() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(ValueError, match="no"):
        await concurrently([wait(), fail()])

    assert ended.is_set()
