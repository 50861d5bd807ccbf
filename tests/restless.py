"""Announcements at any moment: with `DOCGRAPH_TEST_RESTLESS=1` caches are stale all the time.

An instance reads once a second whether users, rules, apps or collections have changed, and a change
stream can be interrupted whenever it likes. Both clear caches some time after a change, so a test
that counts what a request reads from the database must await that, or say that it counts the least.
Here it happens every few milliseconds: what fails depends on the moment (`make drill-moments`).
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

from docgraph.store import change_stream, versions

IS_RESTLESS = "DOCGRAPH_TEST_RESTLESS" in os.environ
_EVERY = 0.02


def install() -> None:
    """Let every follower of a version or a change stream announce changes all the time."""
    follow = versions.VersionFollower._follow

    async def follow_restlessly(self: versions.VersionFollower) -> None:
        self._served = None
        await follow(self)

    versions.VersionFollower._follow = follow_restlessly  # type: ignore[method-assign]
    versions._POLL_EVERY = _EVERY  # type: ignore[misc]  # a constant of the product
    run = change_stream.Follower.run

    async def run_restlessly(self: change_stream.Follower) -> None:
        async def catch_up() -> None:
            while True:
                await self.wait_open()
                await asyncio.sleep(_EVERY)
                await self.catch_up()

        work: list[asyncio.Task[Any]] = [
            asyncio.create_task(run(self)),
            asyncio.create_task(catch_up()),
        ]
        try:
            await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
            for one in work:
                if one.done():
                    one.result()
        finally:
            for one in work:
                one.cancel()
            await asyncio.gather(*work, return_exceptions=True)

    change_stream.Follower.run = run_restlessly  # type: ignore[method-assign]
