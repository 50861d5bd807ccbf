"""Several calls side by side, none of which is left to itself when another one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

__all__ = ["concurrently"]

T = TypeVar("T")


async def concurrently(calls: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Run side by side; the first error cancels the others and comes out as itself."""
    pending = list(calls)
    if len(pending) == 1:
        return [await pending[0]]
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(call) for call in pending]
    except BaseExceptionGroup as errors:
        raise _first(errors) from None
    return [task.result() for task in tasks]


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
