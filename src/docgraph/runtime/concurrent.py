"""Concurrent calls: an error of one cancels the others, so that none is left running."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def concurrently(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run the calls concurrently; the first error cancels the others and is raised unchanged."""
    pending = list(calls)
    if len(pending) == 1:
        return [await pending[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in pending]
    except BaseExceptionGroup as errors:
        first = _first(errors)
        raise first from first.__cause__  # the cause identifies the origin of the error
    return [task.result() for task in tasks]


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
