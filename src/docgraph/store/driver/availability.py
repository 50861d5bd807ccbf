"""Whether the database answers and lets us in, as the driver's own monitors and we see it.

What has to be done once the database is there (initializers, indexes, the first administrator)
waits here; each fault is told once, and once more when it is over or another one.

A database is away when no member of it can be reached, or all refuse our login, for a second. Then
nobody waits for it (`waiting.py`), and it is asked for all the time, so that its return is noticed
at once: the driver by itself would look every other second. A set that has members and no primary
is not away. One that has never let us in and refuses our login is away at once.

Before the database counts as found, and whenever a command was refused, we look at our own login
and rights (`login.py`); while something is missing there, every second.

The driver's events of its monitors are not used: they need a running loop when the client is made,
and come with a delay. Looking at what it knows costs next to nothing.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from pymongo.errors import OperationFailure, ServerSelectionTimeoutError

from docgraph.exchange.errors import StoreError
from docgraph.observe import emit
from docgraph.observe.events import DatabaseFound, RightsGranted
from docgraph.runtime import Tasks, cancel_until_over
from docgraph.store.driver.client import Client
from docgraph.store.driver.contact import (
    Contact,
    Fault,
    Lacking,
    Lost,
    Refused,
    explain_errors,
    find_reason,
)
from docgraph.store.driver.errors import AUTHENTICATION_FAILED, DRIVER_ERRORS, StoreDenied
from docgraph.store.driver.login import forget_connections, log_in, read_version
from docgraph.store.driver.waiting import Waits

if TYPE_CHECKING:
    from pymongo.topology_description import TopologyDescription

__all__ = ["Availability"]

_FIRST_LOOK = 0.01  # seconds after which it is looked again; doubled each time …
_INTERVAL = 0.2  # … up to this
_AWAY_SECONDS = 1.0  # without a member until the database counts as away
_LOGIN_SECONDS = 1.0  # between two looks at our rights, and between two logins that are refused
_PROBE_SECONDS = 5.0  # longest wait for one look, where nothing is known without it
_PATIENCE_SECONDS = 30.0  # longest wait for news before work that failed is tried again
_TASK = "database-availability"


class Availability:
    """Available means: there is a server that takes writes, and lets us in."""

    def __init__(
        self,
        client: Client,
        waits: Waits | None = None,
        contact: Contact | None = None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._waits = waits or Waits()
        self._contact = contact or Contact()
        self._clock = clock
        self._sleep = sleep
        self._client = client
        self._first = asyncio.Event()
        self._news = asyncio.Event()
        self._tasks = Tasks(first_pause=_INTERVAL)
        self._absence: Lost | Refused | None = None  # why it is not available
        self._lacking: Lacking | None = None
        self._refusal: Refused | None = None  # the latest
        self._available: bool | None = None  # None: not known yet
        self._lost_at = self._found_at = 0.0
        self._gone_at: float | None = None  # since when there is no member
        self._is_admitted = False  # since it was last there
        self._version = ""
        self._denied = 0  # how many refused commands were looked at
        self._login_at = float("-inf")  # when the last look at our login was over
        self._probe: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        return self._client.topology_description.has_writable_server()

    @property
    def fault(self) -> Fault | None:
        """What is wrong, as far as it is known."""
        return self._absence or self._refusal or self._lacking

    async def wait(self) -> None:
        """Return when the database has let us in for the first time, or at once if it has."""
        await self._first.wait()

    async def wait_known(self) -> bool:
        """Whether the database lets us in, as soon as that is known."""
        while self._available is None:
            await self._news.wait()
        return self._available

    def start(self) -> None:
        """Begin to connect and to look, in the background."""
        if not self._tasks.is_running(_TASK):
            self._tasks.start(_TASK, self._watch)

    async def stop(self) -> None:
        """End the background task, for good."""
        await self._tasks.close()
        if self._probe is not None:
            await cancel_until_over({self._probe})

    # --- work that fails because of it ------------------------------------------------------------

    async def explains(self, error: BaseException) -> bool:
        """Whether a failure comes of a fault that is told here, so that nobody tells it again."""
        if not isinstance(error, StoreError):
            return False
        asked = time.monotonic()
        if isinstance(error, StoreDenied):
            self._waits.note_denial(str(error.__cause__))
        await self._sleep(2 * _INTERVAL)  # it may have been noticed there before it is here
        if self._waits.is_refused and self._refusal is None:
            self._ask(0)  # a command has noticed it before we have asked ourselves
        if self._probe is not None and not self._probe.done():
            patience = _LOGIN_SECONDS if self.fault is not None else _PROBE_SECONDS
            await asyncio.wait((self._probe,), timeout=patience)
        if isinstance(error, StoreDenied) and self._lacking is not None:
            return True
        was_away = self._absence is not None or self._found_at >= asked
        return was_away or self._waits.is_refused

    async def over(self) -> None:
        """Return when it is worth another try: something has changed, or it has been a while."""
        if self.fault is None:
            return
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._news.wait()
        except TimeoutError:
            pass

    # --- looking ----------------------------------------------------------------------------------

    async def _watch(self) -> None:
        pause = _FIRST_LOOK
        while True:
            try:
                await self._client.aconnect()
            except DRIVER_ERRORS as error:  # a host name that is not found, for instance
                reason = explain_errors({str(error)}, self._contact, was_there=self._first.is_set())
                self._tell(Lost(self._contact, *reason))
            else:
                self._look(self._client.topology_description)
            self._note_absence(self._client.topology_description)
            await self._sleep(pause)
            pause = min(2 * pause, _INTERVAL)

    def _look(self, known: TopologyDescription) -> None:
        if self._waits.is_refused:
            return  # a server that does not let us in is as good as none
        if known.has_writable_server():
            if self._is_admitted and len(self._waits.denied) == self._denied:
                self._tell(None)
            self._check_login()
        elif _is_refusing(known):
            self._waits.is_refused = True
        elif reason := find_reason(known, self._contact, was_there=self._first.is_set()):
            self._is_admitted = False
            self._tell(Lost(self._contact, *reason))

    def _check_login(self) -> None:
        """Look at our rights where they are not known, or known to be incomplete."""
        is_new = not self._is_admitted or len(self._waits.denied) != self._denied
        if is_new or self._lacking is not None:
            self._ask(_LOGIN_SECONDS if self._is_admitted else 0)

    def _tell(self, absence: Lost | Refused | None) -> None:
        """Tell of a change, and only of a change."""
        if absence is None and not self._available:
            down = 0.0 if self._available is None else time.monotonic() - self._lost_at
            self._available, self._found_at = True, time.monotonic()
            self._first.set()
            emit(DatabaseFound(self._version, round(down, 3)))
        elif absence is not None and type(absence) is not type(self._absence):
            if self._available is not False:
                self._available, self._lost_at = False, time.monotonic()
            emit(absence.event)
        else:  # at most another reason for the same
            self._absence = absence
            return
        self._absence = absence
        self._announce()

    def _tell_lacking(self, lacking: Lacking | None) -> None:
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

    # --- away -------------------------------------------------------------------------------------

    def _note_absence(self, known: TopologyDescription) -> None:
        now = self._clock()
        is_refused = self._waits.is_refused
        if not is_refused and not _has_lost_all(known):
            self._gone_at = None
        elif self._gone_at is None:
            # What has never let us in does not do so within a second.
            self._gone_at = now if self._first.is_set() or not is_refused else now - _AWAY_SECONDS
        if self._gone_at is not None:
            self._ask(_LOGIN_SECONDS if self._refusal is not None else 0)
        is_away = self._gone_at is not None and now - self._gone_at >= _AWAY_SECONDS
        if is_refused:
            is_away = is_away and self._refusal is not None  # else we have not asked ourselves
            if is_away:
                self._is_admitted = False
                self._tell(self._refusal)
        self._waits.look(asyncio.get_running_loop().time(), is_away=is_away)

    def _ask(self, pause: float) -> None:
        """Log in, unless that is under way or was just done."""
        if self._probe is not None and not self._probe.done():
            return
        if time.monotonic() - self._login_at >= pause:
            self._probe = asyncio.create_task(self._log_in(), name="database-probe")

    async def _log_in(self) -> None:
        """As long as this waits for a server, the driver looks for one all the time."""
        denied = len(self._waits.denied)
        try:
            if self._waits.has_lost_login:
                self._waits.has_lost_login = False
                await forget_connections(self._client)  # all of them, whichever we would get
            fault = await log_in(self._client, self._contact, self._waits.denied)
            if not self._is_admitted and not isinstance(fault, Refused):
                self._version = await read_version(self._client)
        except ServerSelectionTimeoutError:
            self._waits.is_refused, self._refusal = False, None  # there is nobody to refuse us
            return
        except DRIVER_ERRORS:
            return  # it tells nothing of our login: the driver closes connections when it fails
        finally:
            self._login_at = time.monotonic()
        self._refusal = fault if isinstance(fault, Refused) else None
        self._waits.is_refused = self._refusal is not None
        if self._refusal is not None:
            return
        self._is_admitted, self._denied = True, denied
        self._gone_at, self._waits.is_away = None, False  # whatever else the driver has seen
        self._look(self._client.topology_description)  # whoever waits need not wait for the next
        self._tell_lacking(fault if isinstance(fault, Lacking) else None)


def _is_refusing(known: TopologyDescription) -> bool:
    """Whether the driver has given up a server because it did not let us in."""
    errors = (one.error for one in known.server_descriptions().values())
    return any(
        isinstance(error, OperationFailure) and error.code == AUTHENTICATION_FAILED
        for error in errors
    )


def _has_lost_all(known: TopologyDescription) -> bool:
    """Whether each member was looked for and none was found."""
    servers = known.server_descriptions().values()
    return all(one.error is not None and not one.is_server_type_known for one in servers)
