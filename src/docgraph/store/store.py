"""Store: the interface to MongoDB; all commands of docgraph pass here.

Each operation does the same steps in the same order: names, checks of stages and operators, guards,
the command with its deadline and limit, errors. A caller cannot skip any of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import ClassVar, Final

from bson import ObjectId
from pymongo import ReadPreference

from docgraph.config.section import PluginConfig
from docgraph.exchange.errors import StoreError
from docgraph.observe import emit
from docgraph.observe.events import ClocksDiffer
from docgraph.plugins.kinds import Provider
from docgraph.runtime.after_commit import ShieldedTasks
from docgraph.runtime.clock import elapsed
from docgraph.runtime.native import report_native
from docgraph.runtime.tasks import Outage
from docgraph.store.collection_stats import CollectionStats
from docgraph.store.driver.availability import Availability
from docgraph.store.driver.client import DriverClient, build_client, close_client
from docgraph.store.driver.command import Commands
from docgraph.store.driver.connection_status import ConnectionStatus, Fault
from docgraph.store.driver.driver_internals import count_used_connections, report_obstacle
from docgraph.store.driver.fast_path import find_pool_size
from docgraph.store.driver.login import count_free_connections
from docgraph.store.driver.malformed import translated
from docgraph.store.driver.rights import Right
from docgraph.store.driver.waiting import Waits
from docgraph.store.guard.shield import Guard
from docgraph.store.guard.stage_checks import Policy
from docgraph.store.intercept import Interceptors
from docgraph.store.reads import StoreReads
from docgraph.store.sections import AggregationSecurity, MClient, count_stream_connections
from docgraph.store.streams import StoreStreams
from docgraph.store.trials import Trials
from docgraph.store.writes import StoreWrites

_SETTLE_SECONDS: Final = 5.0


class Store:
    """The database: its `reads`, `writes` and `streams`; one per process."""

    shared_cursors = 0  # change streams for callers that all workers together open

    def __init__(  # noqa: PLR0913 - what differs between processes
        self,
        client: DriverClient,
        *,
        stream_client: DriverClient | None = None,
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
        # Decides which failures of background work are caused by a fault of the database.
        self.outage: Outage = self._availability
        self._commands = Commands(client, ceiling_ms=ceiling_ms, waits=self.waits)
        self._stream_commands = Commands(
            self.stream_client, ceiling_ms=ceiling_ms, waits=self.waits
        )
        self.stats = CollectionStats(self._commands)
        self.trials = Trials(self._commands)
        self._units = ShieldedTasks()
        self._elected: tuple[object, ObjectId | None] = (None, None)
        self.clock = DatabaseClock()
        self.reads = StoreReads(
            self.policy, self.guard, self.interceptors, self.stats, self._commands
        )
        self.writes = StoreWrites(
            client, self.policy, self.guard, self.interceptors, self._commands, self._units
        )
        self.streams = StoreStreams(
            self.stream_client, self.policy, self.guard, self._stream_commands
        )
        self.available, self.contacted = self._availability.wait, self._availability.wait_known
        self.was_pool_busy = self._commands.was_pool_busy
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
        await self.stats.close()
        await self.trials.close()
        await asyncio.gather(*map(close_client, self._clients))
        self._commands.close()
        self._stream_commands.close()

    @property
    def fault(self) -> Fault | None:
        """What prevents the use of the database, as far as it is known."""
        return self._availability.fault

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
        topology = self.client.topology_description
        if self._elected[0] is not topology:
            servers = topology.server_descriptions().values()
            primaries = [server for server in servers if server.is_writable]
            self._elected = (topology, primaries[0].election_id if primaries else None)
        return self._elected[1]

    @property
    def max_connections(self) -> int:
        """The most connections that this process opens to a server of the database; 0: no limit."""
        sizes = [find_pool_size(client) for client in self._clients]
        return sum(sizes) if all(sizes) else 0

    def count_connections(self, workers: int) -> int:
        """Return how many connections so many workers open, which share the cursors of callers."""
        return max(0, workers * self.max_connections - (workers - 1) * self.shared_cursors)

    async def count_free_connections(self) -> int | None:
        """Return how many connections the database leaves us; None if our user may not know."""
        with translated():
            free = await count_free_connections(self.client)
        used = sum(map(count_used_connections, self._clients))
        return None if free is None else free + used

    async def ping(self, timeout: float, db: str = "admin") -> None:  # noqa: ASYNC109 - its point
        """Wait until the database answers, for at most that many seconds."""
        await self._commands.ping(timeout, db=db)

    async def is_electing(self, timeout: float, db: str = "admin") -> bool:  # noqa: ASYNC109 - its point
        """Wait until the database answers; return whether requests wait for a new primary.

        A member has to answer then: an instance without a network is not ready (decision 60).
        """
        started = time.monotonic()
        if not self._availability.is_electing:
            try:
                await self.ping(timeout, db)
                return False
            except StoreError:
                timeout -= time.monotonic() - started
                if timeout <= 0 or not self._availability.is_electing:
                    raise
        await self._commands.ping(timeout, db=db, preference=ReadPreference.SECONDARY)
        return True

    async def set_clock(self, timeout: float) -> None:  # noqa: ASYNC109 - its point
        """Set `clock` to the time of the database, with a time limit in seconds."""
        await self.clock.set(self._commands.read_time(timeout))


def open_store(  # noqa: PLR0913 - what differs between processes
    mclient: MClient,
    security: AggregationSecurity,
    *,
    connection_string: str | None = None,
    wait_timeout_ms: int = 15_000,
    origin: str = "",
    rights: Sequence[Right] = (),
    max_cursors: int = 1,
) -> Store:
    """Return the store of this process; `connection_string` is that of the embedded database.

    `origin` is where the address was configured, `rights` what docgraph needs there. `max_cursors`
    bounds the change streams that this process opens for callers.
    """
    address = mclient.connection_string or connection_string
    if address is None:
        raise ValueError("neither configured nor embedded: there is no connection string")
    store = Store(
        build_client(mclient, address, wait_ms=wait_timeout_ms),
        stream_client=build_client(
            mclient,
            address,
            wait_ms=wait_timeout_ms,
            stream_connections=count_stream_connections(max_cursors),
        ),
        policy=Policy.from_section(security),
        ceiling_ms=mclient.command_ceiling_ms,
        wait_timeout_ms=wait_timeout_ms,
        contact=replace(
            ConnectionStatus.read(address, origin, rights),
            is_embedded=mclient.connection_string is None,
        ),
    )
    store.shared_cursors = max_cursors
    return store


class ClientProvider(Provider):
    """Provides the driver's client to plugins: without the checks and guards of the store."""

    name: ClassVar[str] = "mclientProvider"
    description: ClassVar[str] = "the client of the MongoDB driver, for plugins"
    provides: ClassVar[str] = "mclient"

    def __init__(self, config: PluginConfig, store: Store) -> None:
        self._store = store

    def get(self) -> DriverClient:
        return self._store.client


_TOLERATED: Final = 10.0  # seconds by which the time of day may differ before it is reported
_DRIFT: Final = 1e-4  # seconds by which two clocks may drift apart within a second


class DatabaseClock:
    """The database's time in seconds since the epoch.

    It is read periodically and advances by the local monotonic clock in between. So reading it
    costs nothing, and changes of this machine's time of day have no effect. Until the first read it
    is the time of day of the start.
    """

    def __init__(
        self, measure: Callable[[], float] = elapsed, time_of_day: Callable[[], float] = time.time
    ) -> None:
        self._measure = measure
        self._time_of_day = time_of_day
        self._differs = False  # and that was reported
        self._offset = time_of_day() - measure()
        self._error: float | None = None  # None: never read
        self._read_at = 0.0

    def __call__(self) -> float:
        return self._measure() + self._offset

    @property
    def is_set(self) -> bool:
        """Whether the time of the database was ever read."""
        return self._error is not None

    def earliest(self) -> float:
        """Return the earliest possible time: for values that must not seem too young."""
        return self() - (self._find_error(self._measure()) or 0.0)

    def latest(self) -> float:
        """Return the latest possible time: for values that must not seem too old."""
        return self() + (self._find_error(self._measure()) or 0.0)

    async def set(self, read: Awaitable[datetime]) -> None:
        """Read the time of the database and adopt it."""
        asked = self._measure()
        time = await read
        self.learn(time.replace(tzinfo=UTC).timestamp(), asked, self._measure())

    def learn(self, time: float, asked: float, answered: float) -> None:
        """Adopt the time that the database returned between two moments of the monotonic clock.

        The result of a faster response is retained, unless the two contradict each other.
        """
        error = (answered - asked) / 2
        offset = time - (asked + answered) / 2
        current = self._find_error(answered)
        if current is None or error <= current or abs(offset - self._offset) > error + current:
            self._offset, self._error, self._read_at = offset, error, answered
        self._compare()

    def _compare(self) -> None:
        """Report a wrong time of day once, and again if it was right in the meantime."""
        ahead = self._time_of_day() - self()
        sure = abs(ahead) - (self._error or 0.0)
        if sure > _TOLERATED and not self._differs:
            emit(ClocksDiffer(round(ahead, 1)))
        self._differs = sure > _TOLERATED

    def _find_error(self, now: float) -> float | None:
        """Return by how much the clock may be wrong: the error grows since the last read."""
        return None if self._error is None else self._error + (now - self._read_at) * _DRIFT
