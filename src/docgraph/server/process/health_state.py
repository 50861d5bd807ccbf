"""Health of an instance as its parent process sees it: the loops of the workers, the database.

Nothing here waits for a worker. Workers move a number in shared memory as long as their event loops
turn; a thread of the parent pings the database once a second with a client of its own.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection
from typing import Final, NamedTuple

from docgraph.store.driver.client import BlockingPing

_TURNS_WITHIN: Final = 30.0  # seconds; an instance without a turn of any event loop hangs
_ACCEPTS_WITHIN: Final = 10.0  # seconds; a worker without a turn accepts no connection
_GAP: Final = 5.0  # seconds without a check of ours: the whole machine may have been suspended
_INTERVAL: Final = 1.0  # seconds between two pings


class Health(NamedTuple):
    """The result of a check, as a response shows it."""

    status: int
    description: str
    latency_ms: int | None = None


class DatabaseCheck:
    """Pings once a second in a thread; `close` after use."""

    def __init__(
        self, ping: BlockingPing, timeout: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._ping = ping
        self._timeout = timeout
        self._clock = clock
        self._result: tuple[float, Health] | None = None
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="database-check", daemon=True)

    def start(self) -> None:
        """Start to check."""
        self._thread.start()

    def close(self) -> None:
        """Stop checking."""
        self._is_closed.set()
        self._ping.close()
        self._thread.join(self._timeout + _INTERVAL)

    def read(self) -> Health:
        """Return the last result; 503 before the first one, 504 if the check itself hangs."""
        if self._result is None:
            return Health(503, "the database was not checked yet")
        since, health = self._result
        if self._clock() - since > self._timeout + 3 * _INTERVAL:
            return Health(504, "no answer in time")
        return health

    def _run(self) -> None:
        while not self._is_closed.is_set():
            health = self._check()
            self._result = (self._clock(), health)
            self._is_closed.wait(_INTERVAL)

    def _check(self) -> Health:
        started = self._clock()
        try:
            self._ping.ping()
            status, description = 200, "ping successful"
        except TimeoutError as error:
            status, description = 504, str(error)
        except ConnectionError as error:
            status, description = 503, str(error)
        return Health(status, description, round((self._clock() - started) * 1000))


class HealthState:
    """Liveness and readiness; `check` is called at least once a second."""

    def __init__(
        self,
        pulses: memoryview,
        database: Callable[[], Health],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._pulses = pulses
        self._database = database
        self._clock = clock
        self._checked = clock()
        self._known = list(pulses)
        self._turned: dict[int, float] = {}  # by the number of the worker
        self.ready: Collection[int] = ()  # the numbers of the workers that have reported it
        self.is_stopping = False

    def check(self) -> None:
        """Record which event loops have turned since the last call."""
        now = self._clock()
        if now - self._checked > _GAP:  # they had no chance to turn either
            self._turned = dict.fromkeys(self._turned, now)
        self._checked = now
        for place, pulse in enumerate(self._pulses):
            if pulse != self._known[place]:
                self._known[place], self._turned[place + 1] = pulse, now
        for number in self.ready:
            self._turned.setdefault(number, now)

    def read_liveness(self) -> Health:
        """Return whether any event loop turns."""
        self.check()
        if not self._turned:
            return Health(503, "no worker has started yet")
        if self._clock() - max(self._turned.values()) > _TURNS_WITHIN:
            return Health(503, f"no event loop has turned for {_TURNS_WITHIN:.0f} s")
        return Health(200, "a worker is alive")

    def read_readiness(self) -> Health:
        """Return whether the database answers, and a worker accepts connections."""
        self.check()
        if self.is_stopping:
            return Health(503, "stopping")
        since = self._clock() - _ACCEPTS_WITHIN
        if not any(self._turned.get(number, since) > since for number in self.ready):
            return Health(503, "no worker accepts connections")
        return self._database()
