"""Writes that are tried again when another writer was faster.

What is checked as a whole is read, changed in memory and replaced by its etag. Writers of one
worker stand in line (`Call.turn`), so that only those of other workers and instances can be faster;
the number of tries is bounded in any case.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Final

from docgraph.exchange.errors import Overloaded
from docgraph.runtime.pauses import growing_pauses

__all__ = ["attempts"]

_TRIES: Final = 40
_FIRST_PAUSE, _LONGEST_PAUSE = 0.002, 0.25  # seconds


async def attempts(what: str) -> AsyncIterator[None]:
    """The tries, with pauses that grow; after the last one 503: nobody asked for a version."""
    pauses = growing_pauses(_FIRST_PAUSE, _LONGEST_PAUSE)
    for number in range(_TRIES):
        if number:
            await asyncio.sleep(next(pauses))
        yield
    raise Overloaded(f"too many concurrent updates of {what}")
