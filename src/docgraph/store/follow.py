"""Following a change stream for as long as the process lives.

A stream ends when what it watches is dropped; it is opened again after a pause. Errors are left to
`Tasks`, which tells of them and calls `run` again; the stream then goes on where it was, if the
database still knows where that is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from docgraph.exchange.data import Document
from docgraph.exchange.errors import NotSupported, StoreError, StoreUnavailable
from docgraph.store.watch import ChangeEvents

__all__ = ["Follower", "ResumeToken"]

_PAUSE = 0.2  # seconds before a stream that ended is opened again

ResumeToken = Mapping[str, Any] | None


class Follower:
    """Opens a stream, catches up with what was before, and takes its events, again and again.

    `open_stream` gets where to go on, or None for now. `catch_up` is called whenever a stream has
    been opened, for what happened while there was none.
    """

    def __init__(
        self,
        open_stream: Callable[[ResumeToken], ChangeEvents],
        *,
        catch_up: Callable[[], Awaitable[None]],
        take: Callable[[Document], Awaitable[None]],
    ) -> None:
        self._open_stream = open_stream
        self._catch_up = catch_up
        self._take = take
        self._resume: ResumeToken = None
        self._opened = asyncio.Event()

    @property
    def is_open(self) -> bool:
        """Whether whatever happens now is heard of, and everything before is known."""
        return self._opened.is_set()

    async def wait_open(self) -> None:
        """Return when the stream is open; never where the database has no change streams."""
        await self._opened.wait()

    async def run(self) -> None:
        """Follow; returns only where the database has no change streams."""
        while True:
            try:
                await self._follow()
            except NotSupported:
                return  # no replica set: whoever follows has another way, too
            except StoreUnavailable:
                raise
            except StoreError:
                self._resume = None  # what it stood for may be gone from the log of the database
                raise
            self._resume = None  # dropped: there is nothing to go on from
            await asyncio.sleep(_PAUSE)

    async def _follow(self) -> None:
        async with self._open_stream(self._resume) as events:
            await self._catch_up()
            self._opened.set()
            try:
                async for event in events:
                    await self._take(event)
                    self._resume = events.resume_token
            finally:
                self._opened.clear()
