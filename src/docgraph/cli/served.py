"""Whether the instances that run have taken up what a command has just written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from docgraph.cli.terminal import notice
from docgraph.store.versions import Versions

__all__ = ["await_served"]

_PATIENCE = 5.0  # seconds
_PAUSE = 0.1


async def await_served(
    versions: Versions,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Wait until every instance serves the present version, for five seconds at most.

    Says how many do, and who does not; nothing where none runs.
    """
    wanted = await versions.read()
    end = clock() + _PATIENCE
    while True:
        served = await versions.find_served()
        late = [one for one in served if one.version < wanted]
        if not late or clock() >= end:
            break
        await sleep(_PAUSE)
    count = len(served) - len(late)
    if count:
        notice(f"live on {count} instance{'s' if count > 1 else ''}")
    for one in late:
        notice(f"not yet live on {one}: it has not taken up the change within {_PATIENCE:g} s")
