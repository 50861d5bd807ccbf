"""Whether the instances that run have taken up what a command has just written."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from docgraph.cli.terminal import notice
from docgraph.store.versions import KEPT_SECONDS, Versions

__all__ = ["await_served"]

_PATIENCE = 5.0  # seconds
_PAUSE = 0.1


async def await_served(
    what: str,
    versions: Versions,
    *,
    say: Callable[[str], None] = notice,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Wait until every instance that runs serves the present version, for five seconds at most.

    Says how many do, and who does not; nothing where none runs. One that ends is not waited for.
    """
    wanted = await versions.read()
    served = await versions.find_served()
    running = {one.instance for one in served}
    end = clock() + _PATIENCE
    while (late := [one for one in served if one.version < wanted]) and clock() < end:
        await sleep(_PAUSE)
        # One that hangs is not seen any more, and still to be named.
        found = await versions.find_served(KEPT_SECONDS)
        served = [one for one in found if one.instance in running]
    count = len(served) - len(late)
    if count:
        say(f"{what}: live on {count} instance{'s' if count > 1 else ''}")
    for one in late:
        say(f"{what}: not live on {one}, which has not taken up the change in {_PATIENCE:g} s")
