"""Resume tokens: continue a change stream after failover, for as long as the process lives.

A stream ends when the watched resource is dropped; it is opened again after a pause. Errors are
left to `Tasks`, which reports them and calls `run` again; the stream then continues at its resume
token, if the database still knows it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from docgraph.exchange.data import Document
from docgraph.exchange.errors import NotSupported, StoreError, StoreUnavailable
from docgraph.store.change_stream import ChangeEvents

_PAUSE = 0.2  # seconds before a stream that ended is opened again

ResumeToken = Mapping[str, Any] | None


class Follower:
    """Opens a stream, catches up with earlier changes, and handles its events, repeatedly.

    `open_stream` gets the resume token, or None for now. `catch_up` is called whenever a stream has
    been opened, for the changes while there was none.
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
        """Whether all new changes are received, and all earlier ones are known."""
        return self._opened.is_set()

    async def wait_open(self) -> None:
        """Wait until the stream is open; this never returns without change streams."""
        await self._opened.wait()

    async def run(self) -> None:
        """Follow the stream; return only if the database has no change streams."""
        while True:
            try:
                await self._follow()
            except NotSupported:
                return  # no replica set: the caller polls as well
            except StoreUnavailable:
                raise
            except StoreError:
                self._resume = None  # its position may no longer be in the database's oplog
                raise
            self._resume = None  # dropped: there is no position to continue from
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
