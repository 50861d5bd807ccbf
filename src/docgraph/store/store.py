"""Store: the interface to MongoDB; all commands of docgraph pass here.

Each operation does the same steps in the same order: names, checks of stages and operators, guards,
the command with its deadline and limit, errors. A caller cannot skip any of them.
"""

from __future__ import annotations

import asyncio
from typing import Final

from bson import ObjectId
from pymongo import ReadPreference

from docgraph.runtime.after_commit import ShieldedTasks
from docgraph.runtime.native import report_native
from docgraph.runtime.tasks import Outage
from docgraph.store.collection_stats import CollectionStats
from docgraph.store.database_time import DatabaseClock
from docgraph.store.driver.availability import Availability
from docgraph.store.driver.client import Client, close_client
from docgraph.store.driver.command import Commands
from docgraph.store.driver.connection_status import ConnectionStatus, Fault
from docgraph.store.driver.errors import translated
from docgraph.store.driver.fast_path import (
    count_used_connections,
    find_pool_size,
    has_free_connection,
    report_obstacle,
)
from docgraph.store.driver.login import count_free_connections
from docgraph.store.driver.waiting import Waits
from docgraph.store.guard.shield import Guard
from docgraph.store.guard.stage_checks import Policy
from docgraph.store.intercept import Interceptors
from docgraph.store.reads import StoreReads
from docgraph.store.streams import StoreStreams
from docgraph.store.transactions.writes import StoreWrites

_SETTLE_SECONDS: Final = 5.0


class Store:
    """The database: its `reads`, `writes` and `streams`; one per process."""

    def __init__(  # noqa: PLR0913 - what differs between processes
        self,
        client: Client,
        *,
        stream_client: Client | None = None,
        policy: Policy | None = None,
        guard: Guard | None = None,
        ceiling_ms: int = 300_000,
        wait_timeout_ms: int = 15_000,
        contact: ConnectionStatus | None = None,
    ) -> None:
        self.client = client
        self.stream_client = client if stream_client is None else stream_client
        # Not a set: clients of the same address are equal.
        self._clients = (client,) if stream_client is None else (client, stream_client)
        self.policy = policy or Policy()
        self.guard = guard or Guard()
        self.interceptors = Interceptors()
        self.waits = Waits(wait_timeout_ms / 1000 if wait_timeout_ms > 0 else None)
        self.contact = contact or ConnectionStatus()
        self._availability = Availability(
            client, self.waits, self.contact, stream_client=stream_client
        )
        self._commands = Commands(client, ceiling_ms=ceiling_ms, waits=self.waits)
        self._stream_commands = Commands(
            self.stream_client, ceiling_ms=ceiling_ms, waits=self.waits
        )
        self.facts = CollectionStats(self._commands)
        self._units = ShieldedTasks()
        self._elected: tuple[object, ObjectId | None] = (None, None)
        self.clock = DatabaseClock()
        self.reads = StoreReads(
            self.policy, self.guard, self.interceptors, self.facts, self._commands
        )
        self.writes = StoreWrites(
            client, self.policy, self.guard, self.interceptors, self._commands, self._units
        )
        self.streams = StoreStreams(
            self.stream_client, self.policy, self.guard, self._stream_commands
        )
        # For plugins.
        self.find, self.find_one = self.reads.find, self.reads.find_one
        self.aggregate, self.count = self.reads.aggregate, self.reads.count
        self.write = self.writes.write

    def connect(self) -> None:
        """Start to search for the servers, in the background."""
        report_obstacle(self.client)
        report_native()
        self._availability.start()

    async def drain(self) -> None:
        """Wait, for a bounded time, until no write is incomplete; see `StoreWrites.finish`."""
        await self._units.drain(_SETTLE_SECONDS)

    async def close(self) -> None:
        """Close all connections, after the running writes."""
        await self.drain()
        await self._availability.stop()
        await self._commands.stop()
        await self._stream_commands.stop()
        await self.facts.close()
        await asyncio.gather(*map(close_client, self._clients))
        self._commands.close()
        self._stream_commands.close()

    async def available(self) -> None:
        """Wait until the database has answered for the first time."""
        await self._availability.wait()

    async def contacted(self) -> bool:
        """Wait until it is known whether the database accepts our login, and return that."""
        return await self._availability.wait_known()

    @property
    def fault(self) -> Fault | None:
        """What prevents the use of the database, as far as it is known."""
        return self._availability.fault

    @property
    def outage(self) -> Outage:
        """Decides which failures of background work are caused by a fault of the database."""
        return self._availability

    @property
    def is_available(self) -> bool:
        """Whether a server that accepts writes is known."""
        return bool(self._availability)

    @property
    def reads_primary(self) -> bool:
        """Whether reads without a read preference of their own are sent to the primary."""
        return self.client.read_preference == ReadPreference.PRIMARY

    @property
    def election(self) -> ObjectId | None:
        """The election of the primary that reads are sent to; see `PrimaryState`."""
        known = self.client.topology_description
        if self._elected[0] is not known:
            primaries = [one for one in known.server_descriptions().values() if one.is_writable]
            self._elected = (known, primaries[0].election_id if primaries else None)
        return self._elected[1]

    @property
    def is_pool_busy(self) -> bool:
        """Whether all connections to the database are in use."""
        return not has_free_connection(self.client)

    @property
    def max_connections(self) -> int:
        """The most connections that this process opens to a server of the database; 0: no limit."""
        sizes = [find_pool_size(one) for one in self._clients]
        return sum(sizes) if all(sizes) else 0

    async def count_free_connections(self) -> int | None:
        """Return how many connections the database leaves us; None if our user may not know."""
        with translated():
            free = await count_free_connections(self.client)
        used = sum(map(count_used_connections, self._clients))
        return None if free is None else free + used

    async def ping(self, timeout: float, db: str = "admin") -> None:  # noqa: ASYNC109 - its point
        """Wait until the database answers, for at most that many seconds."""
        await self._commands.ping(timeout, db=db)

    async def set_clock(self, timeout: float) -> None:  # noqa: ASYNC109 - its point
        """Set `clock` to the time of the database, read within that many seconds."""
        await self.clock.set(self._commands.read_time(timeout))
