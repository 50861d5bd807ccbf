"""One at a time for each key."""

from __future__ import annotations

import asyncio

import pytest

from docgraph.runtime import KeyedLock

pytestmark = pytest.mark.anyio


async def test_holders_of_one_key_take_turns_in_order_and_others_do_not_wait() -> None:
    turns, seen, first = KeyedLock(), [], asyncio.Event()

    async def hold(name: str, key: str, until: asyncio.Event | None = None) -> None:
        async with turns.hold(key):
            seen.append(name)
            if until is not None:
                await until.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(hold("a", "x", first))
        group.create_task(hold("b", "x"))
        group.create_task(hold("c", "x"))
        await group.create_task(hold("d", "y"))
        assert seen == ["a", "d"]
        first.set()

    assert seen == ["a", "d", "b", "c"]
    assert len(turns) == 0


async def test_who_leaves_while_waiting_or_fails_leaves_nothing_behind() -> None:
    turns = KeyedLock()

    async def wait() -> None:
        async with turns.hold("x"):
            raise LookupError

    async with turns.hold("x"):
        waiting = asyncio.create_task(wait())
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert len(turns) == 1
    with pytest.raises(LookupError):
        await wait()
    assert len(turns) == 0
