"""Retry of writes that lost a race with another writer.

A document that is checked as a whole is read, changed in memory and replaced by its etag. Writers
of one worker wait for each other (`Call.turn`), so only those of other workers and instances can be
faster. The number of attempts is bounded.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from docgraph.exchange.errors import Overloaded
from docgraph.runtime.backoff import growing_pauses

_TRIES: Final = 40
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.25  # seconds


async def attempts(what: str) -> AsyncIterator[None]:
    """Yield once per attempt, with growing pauses; then 503, since the request names no etag."""
    pauses = growing_pauses(_FIRST_PAUSE, _LONGEST_PAUSE)
    for number in range(_TRIES):
        if number:
            await asyncio.sleep(next(pauses))
        yield
    raise Overloaded(f"too many concurrent updates of {what}")
