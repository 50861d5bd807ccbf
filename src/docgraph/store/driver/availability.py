"""Database availability (circuit breaker): whether it answers and accepts our login.

Work that needs the database (initializers, indexes, the first administrator) waits here. Each fault
is reported once, and again when it ends or changes.

A database is away if no member can be reached, or all reject our login, for a second. Then commands
do not wait for it (`waiting.py`), and docgraph tries to reach it all the time, so that its return
is noticed immediately: the driver by itself would check every other second. A replica set that has
members and no primary is not away. A database that never accepted our login and rejects it is away
immediately.

Before the database counts as available, and whenever a command was denied, docgraph checks its own
login and privileges (`login.py`); while some are missing, every second.

The events of the driver's monitors are not used: they need a running loop when the client is
created, and they are delayed. Reading the driver's topology costs next to nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from pymongo.errors import OperationFailure, ServerSelectionTimeoutError
from pymongo.topology_description import TopologyDescription

from docgraph.exchange.errors import StoreError
from docgraph.observe import emit
from docgraph.observe.events import ConnectionsUsed, DatabaseFound, ElectionAwaited, RightsGranted
from docgraph.runtime import Tasks, cancel_until_over
from docgraph.store.driver.client import DriverClient
from docgraph.store.driver.connection_status import (
    ConnectionStatus,
    Fault,
    Lacking,
    Lost,
    Refused,
    explain_errors,
    find_reason,
)
from docgraph.store.driver.driver_internals import count_used_connections, forget_connections
from docgraph.store.driver.errors import AUTHENTICATION_FAILED, DRIVER_ERRORS, StoreDenied
from docgraph.store.driver.fast_path import find_pool_size
from docgraph.store.driver.login import log_in, read_version
from docgraph.store.driver.waiting import Election, Waits

_FIRST_LOOK = 0.01  # seconds until the next check; doubled each time …
_INTERVAL = 0.2  # … up to this
_AWAY_SECONDS = 1.0  # without a member until the database counts as away
_LOGIN_SECONDS = 1.0  # between two checks of our privileges, and between two rejected logins
_PROBE_SECONDS = 5.0  # maximum wait for one check, if nothing is known without it
_PATIENCE_SECONDS = 30.0  # maximum wait for a change before failed work is retried
_TASK = "database-availability"


class Availability:
    """Tracks whether a server accepts writes and our login (circuit breaker)."""

    def __init__(
        self,
        client: DriverClient,
        waits: Waits | None = None,
        contact: ConnectionStatus | None = None,
        *,
        stream_client: DriverClient | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._waits = waits or Waits()
        self._contact = contact or ConnectionStatus()
        self._clock = clock
        self._sleep = sleep
        self._client = client
        self._clients = {"requests": client}
        if stream_client is not None:
            self._clients["streams"] = stream_client
        longest = client.options.server_selection_timeout
        self._election = Election(min(self._waits.limit, longest), clock)
        self._was_electing = False
        self._used: dict[str, int] = {}  # connections, by the name of their client
        self._first = asyncio.Event()
        self._news = asyncio.Event()
        self._tasks = Tasks(first_pause=_INTERVAL)
        self._absence: Lost | Refused | None = None  # why it is not available
        self._lacking: Lacking | None = None
        self._refusal: Refused | None = None  # the latest
        self._available: bool | None = None  # None: not known yet
        self._lost_at = self._found_at = 0.0
        self._gone_at: float | None = None  # since when no member can be reached
        self._is_admitted = False  # since it was last available
        self._version = ""
        self._denied = 0  # how many denied commands were checked
        self._login_at = float("-inf")  # end of the last check of our login
        self._probe: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        return self._client.topology_description.has_writable_server()

    @property
    def fault(self) -> Fault | None:
        return self._absence or self._refusal or self._lacking

    @property
    def is_electing(self) -> bool:
        """Whether the set has members and no primary, and requests still wait for one."""
        return self._election.is_awaited(self._client.topology_description)

    async def wait(self) -> None:
        """Wait until the database has accepted our login for the first time."""
        await self._first.wait()

    async def wait_known(self) -> bool:
        """Wait until it is known whether the database accepts our login, and return that."""
        while self._available is None:
            await self._news.wait()
        return self._available

    def start(self) -> None:
        """Start to connect and to check, in the background."""
        if not self._tasks.is_running(_TASK):
            self._tasks.start(_TASK, self._watch)

    async def stop(self) -> None:
        """End the background task permanently."""
        await self._tasks.close()
        if self._probe is not None:
            await cancel_until_over({self._probe})

    async def explains(self, error: BaseException) -> bool:
        """Check if a failure is caused by a fault that is reported here: do not report it twice."""
        if not isinstance(error, StoreError):
            return False
        asked = time.monotonic()
        if isinstance(error, StoreDenied):
            self._waits.record_denial(str(error.__cause__))
        await self._sleep(2 * _INTERVAL)  # the command may have noticed it before the monitor
        if self._waits.is_refused and self._refusal is None:
            self._try_login(0)  # a command noticed it before our own check
        if self._probe is not None and not self._probe.done():
            patience = _LOGIN_SECONDS if self.fault is not None else _PROBE_SECONDS
            await asyncio.wait((self._probe,), timeout=patience)
        if isinstance(error, StoreDenied) and self._lacking is not None:
            return True
        was_away = self._absence is not None or self._found_at >= asked
        return was_away or self._waits.is_refused

    async def over(self) -> None:
        """Wait until a retry makes sense: something changed, or some time has passed."""
        if self.fault is None:
            return
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._news.wait()
        except TimeoutError:
            pass

    async def _watch(self) -> None:
        pause = _FIRST_LOOK
        while True:
            try:
                await self._client.aconnect()
            except DRIVER_ERRORS as error:  # an unresolvable host name, for example
                reason = explain_errors({str(error)}, self._contact, was_there=self._first.is_set())
                self._report(Lost(self._contact, *reason))
            else:
                self._check_topology(self._client.topology_description)
            self._record_absence(self._client.topology_description)
            for name, client in self._clients.items():
                used = count_used_connections(client)
                if self._used.get(name) != used:
                    self._used[name] = used
                    emit(ConnectionsUsed(name, used, find_pool_size(client)))
            if self.is_electing != self._was_electing:
                self._was_electing = not self._was_electing
                emit(ElectionAwaited(self._was_electing))
            await self._sleep(pause)
            pause = min(2 * pause, _INTERVAL)

    def _check_topology(self, topology: TopologyDescription) -> None:
        if self._waits.is_refused:
            return  # a server that rejects our login is as good as none
        if topology.has_writable_server():
            is_checked = self._is_admitted and len(self._waits.denied) == self._denied
            if is_checked:
                self._report(None)
            # Check our privileges if they are not known, or known to be incomplete.
            if not is_checked or self._lacking is not None:
                self._try_login(_LOGIN_SECONDS if self._is_admitted else 0)
        elif _is_refusing(topology):
            self._waits.is_refused = True
        elif reason := find_reason(topology, self._contact, was_there=self._first.is_set()):
            self._is_admitted = False
            self._report(Lost(self._contact, *reason))

    def _report(self, absence: Lost | Refused | None) -> None:
        """Report a change, and only a change."""
        if absence is None and not self._available:
            down = 0.0 if self._available is None else time.monotonic() - self._lost_at
            self._available, self._found_at = True, time.monotonic()
            self._first.set()
            emit(DatabaseFound(self._version, round(down, 3)))
        elif absence is not None and type(absence) is not type(self._absence):
            if self._available is not False:
                self._available, self._lost_at = False, time.monotonic()
            emit(absence.event)
        else:  # at most another reason for the same fault
            self._absence = absence
            return
        self._absence = absence
        self._announce()

    def _report_lacking(self, lacking: Lacking | None) -> None:
        if lacking == self._lacking:
            return
        if lacking is not None:
            emit(lacking.event)
        elif self._lacking is not None:
            emit(RightsGranted(self._lacking.user))
        self._lacking = lacking
        self._announce()

    def _announce(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def _record_absence(self, topology: TopologyDescription) -> None:
        now = self._clock()
        is_refused = self._waits.is_refused
        if not is_refused and not _has_lost_all(topology):
            self._gone_at = None
        elif self._gone_at is None:
            # A database that never accepted our login will not do so within a second.
            self._gone_at = now if self._first.is_set() or not is_refused else now - _AWAY_SECONDS
        if self._gone_at is not None:
            self._try_login(_LOGIN_SECONDS if self._refusal is not None else 0)
        is_away = self._gone_at is not None and now - self._gone_at >= _AWAY_SECONDS
        if is_refused:
            is_away = is_away and self._refusal is not None  # else we have not checked ourselves
            if is_away:
                self._is_admitted = False
                self._report(self._refusal)
        self._waits.expire(asyncio.get_running_loop().time(), is_away=is_away)

    def _try_login(self, pause: float) -> None:
        """Log in, unless a login is in progress or was just completed."""
        if self._probe is not None and not self._probe.done():
            return
        if time.monotonic() - self._login_at >= pause:
            self._probe = asyncio.create_task(self._log_in(), name="database-probe")

    async def _log_in(self) -> None:
        """Log in; while this waits for a server, the driver searches for one all the time."""
        denied = len(self._waits.denied)
        try:
            if self._waits.has_lost_login:
                self._waits.has_lost_login = False
                for client in self._clients.values():
                    await forget_connections(client)  # all of them: any could be used next
            fault = await log_in(self._client, self._contact, self._waits.denied)
            if not self._is_admitted and not isinstance(fault, Refused):
                self._version = await read_version(self._client)
        except ServerSelectionTimeoutError:
            self._waits.is_refused, self._refusal = False, None  # no server can reject us
            return
        except (*DRIVER_ERRORS, StoreError):
            return  # it says nothing about our login: the driver closes connections when it fails
        finally:
            self._login_at = time.monotonic()
        self._refusal = fault if isinstance(fault, Refused) else None
        self._waits.is_refused = self._refusal is not None
        if self._refusal is not None:
            return
        self._is_admitted, self._denied = True, denied
        self._gone_at, self._waits.is_away = None, False  # whatever else the driver has seen
        # Waiting work need not wait for the next check.
        self._check_topology(self._client.topology_description)
        self._report_lacking(fault if isinstance(fault, Lacking) else None)


def _is_refusing(topology: TopologyDescription) -> bool:
    """Check if the driver has given up a server because it rejected our login."""
    errors = (server.error for server in topology.server_descriptions().values())
    return any(
        isinstance(error, OperationFailure) and error.code == AUTHENTICATION_FAILED
        for error in errors
    )


def _has_lost_all(topology: TopologyDescription) -> bool:
    """Check if each member was tried and none was reached."""
    servers = topology.server_descriptions().values()
    return all(server.error is not None and not server.is_server_type_known for server in servers)
