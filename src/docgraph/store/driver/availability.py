"""Whether the database answers, as the driver's own monitors see it.

What has to be done once the database is there (initializers, indexes, the first administrator)
waits here; being lost and found is said once each, not by every request that notices.

A database is away when no member of it can be reached, or all refuse our login, for a second. Then
nobody waits for it (`waiting.py`), and it is asked for all the time, so that its return is noticed
at once: the driver by itself would look every other second. A set that has members and no primary
is not away.

The driver's events of its monitors are not used: they need a running loop when the client is made,
and come with a delay. Looking at what it knows costs next to nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from pymongo.errors import OperationFailure

from docgraph.observe import emit
from docgraph.observe.events import DatabaseFound, DatabaseLost
from docgraph.runtime import Tasks, cancel_until_over
from docgraph.store.driver.client import Client
from docgraph.store.driver.errors import AUTHENTICATION_FAILED, DRIVER_ERRORS
from docgraph.store.driver.waiting import Waits

if TYPE_CHECKING:
    from pymongo.topology_description import TopologyDescription

__all__ = ["Availability"]

_FIRST_LOOK = 0.01  # seconds after which it is looked again; doubled each time …
_INTERVAL = 0.2  # … up to this
_AWAY_SECONDS = 1.0  # without a member until the database counts as away
_TASK = "database-availability"


class Availability:
    """Available means: there is a server that takes writes."""

    def __init__(
        self,
        client: Client,
        waits: Waits | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._waits = waits or Waits()
        self._clock = clock
        self._sleep = sleep
        self._client = client
        self._first = asyncio.Event()
        self._tasks = Tasks(first_pause=_INTERVAL)
        self._available: bool | None = None  # None: not known yet
        self._lost_at = 0.0
        self._gone_at: float | None = None  # since when there is no member
        self._probe: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        return self._client.topology_description.has_writable_server()

    async def wait(self) -> None:
        """Return when the database has answered for the first time, or at once if it has."""
        await self._first.wait()

    def start(self) -> None:
        """Begin to connect and to look, in the background."""
        if not self._tasks.is_running(_TASK):
            self._tasks.start(_TASK, self._watch)

    async def stop(self) -> None:
        """End the background task, for good."""
        await self._tasks.close()
        if self._probe is not None:
            await cancel_until_over({self._probe})

    async def _watch(self) -> None:
        pause = _FIRST_LOOK
        while True:
            try:
                await self._client.aconnect()
            except DRIVER_ERRORS as error:  # a host name that is not found, for instance
                self._lost(f"no connection ({type(error).__name__})")
            else:
                self._look(self._client.topology_description)
            self._note_absence(self._client.topology_description)
            await self._sleep(pause)
            pause = min(2 * pause, _INTERVAL)

    def _look(self, known: TopologyDescription) -> None:
        if self._waits.is_refused:
            return  # a server that does not let us in is as good as none
        if known.has_writable_server():
            self._found()
        elif reason := _failure(known):
            self._lost(reason)

    def _found(self) -> None:
        if self._available:
            return
        down = 0.0 if self._available is None else time.monotonic() - self._lost_at
        self._available = True
        self._first.set()
        emit(DatabaseFound(down_seconds=round(down, 3)))

    def _lost(self, reason: str) -> None:
        if self._available is not False:
            self._available, self._lost_at = False, time.monotonic()
            emit(DatabaseLost(reason=reason))

    # --- away -------------------------------------------------------------------------------------

    def _note_absence(self, known: TopologyDescription) -> None:
        now = self._clock()
        if not self._waits.is_refused and not _has_lost_all(known):
            self._gone_at = None
        elif self._gone_at is None:
            self._gone_at = now
        if self._gone_at is not None and (self._probe is None or self._probe.done()):
            self._probe = asyncio.create_task(self._ask(), name="database-probe")
        is_away = self._gone_at is not None and now - self._gone_at >= _AWAY_SECONDS
        if is_away and self._waits.is_refused:
            self._lost("the servers refuse our login")
        self._waits.look(asyncio.get_running_loop().time(), is_away=is_away)

    async def _ask(self) -> None:
        """Log in somewhere: as long as this waits, the driver looks for servers all the time."""
        try:
            await self._client.admin.command({"ping": 1})
        except DRIVER_ERRORS as error:
            code = error.code if isinstance(error, OperationFailure) else None
            self._waits.is_refused = code == AUTHENTICATION_FAILED
        else:
            self._waits.is_refused = False


def _has_lost_all(known: TopologyDescription) -> bool:
    """Whether each member was looked for and none was found."""
    servers = known.server_descriptions().values()
    return all(one.error is not None and not one.is_server_type_known for one in servers)


def _failure(known: TopologyDescription) -> str:
    """Why there is no such server; empty while the first look at them is still under way."""
    servers = known.server_descriptions().values()
    errors = {type(server.error).__name__ for server in servers if server.error is not None}
    if errors:
        return f"no server answers ({', '.join(sorted(errors))})"
    if any(server.is_server_type_known for server in servers):
        return "no server is primary"
    return ""
