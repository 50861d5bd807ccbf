"""What follows many writes at once is done once."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextvars import copy_context

import pytest

from docgraph.runtime.after_commit import AfterCommit, gather

pytestmark = pytest.mark.anyio


async def test_alone_it_is_done_at_once() -> None:
    done: list[Collection[str]] = []

    async def work(items: Collection[str]) -> None:
        done.append(items)

    await gather("key", ("a",), work)
    await gather("key", ("b",), work)

    assert done == [("a",), ("b",)]


async def test_gathered_it_is_done_once_for_all_of_a_key() -> None:
    done: list[tuple[str, Collection[str]]] = []
    gathering = AfterCommit()

    async def ask(key: str, *items: str) -> None:
        async def work(all: Collection[str]) -> None:
            done.append((key, all))

        await gather(key, items, work)

    for key, items in (("x", "ab"), ("y", ""), ("x", "bc")):
        context = copy_context()
        gathering.enter(context)
        await asyncio.create_task(ask(key, *items), context=context)

    assert done == []
    await gathering.finish()
    assert done == [("x", ("a", "b", "c")), ("y", ())]
    await ask("x", "d")
    assert done[2:] == [("x", ("d",))]  # nobody else's context has changed


async def test_what_fails_keeps_nothing_else_from_being_done() -> None:
    done: list[str] = []
    gathering = AfterCommit()

    async def fail(_: Collection[str]) -> None:
        raise ValueError("first")

    async def work(_: Collection[str]) -> None:
        done.append("second")

    gathering.defer("x", (), fail)
    gathering.defer("y", (), work)

    with pytest.raises(ValueError, match="first"):
        await gathering.finish()
    assert done == ["second"]
