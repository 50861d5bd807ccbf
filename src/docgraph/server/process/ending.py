"""The end of a server, which comes in time whatever hangs.

    SIGTERM ── the grace: requests finish ── +0.3 s: mongod is told ── +1.5 s: it is killed ── we go

Everything that a stop waits for has a bound of its own, and they would add up: a frozen database,
writes that wait for it, plugins, the driver. So a countdown begins with the first signal.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final, Protocol

from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.events import ServerStopping

__all__ = ["WORKER_MARGIN", "Ending"]

WORKER_MARGIN: Final = 1.0  # seconds beyond the grace in which a worker has to be over
_TELL_DATABASE: Final = 0.3  # seconds beyond the grace
_END_DATABASE: Final = 1.5
_LEAVE: Final = 1.8
_SHORTEST: Final = 0.5  # seconds that the database has for its end, however late it is


class Database(Protocol):
    """What has to end with us: an embedded `mongod` and its keeper."""

    def request_stop(self) -> None:
        """Ask for a clean end, also one that is suspended."""

    def kill(self) -> None:
        """End it at once."""


class Ending:
    """Around serving: begins to count when the server is asked to stop."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._begun: float | None = None
        self._timers: list[threading.Timer] = []
        self.database: Database | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count as soon as the server says that it stops; leave in order when all is done."""
        subscribe(self._hear, wants=lambda kind: kind is ServerStopping)
        try:
            yield
        finally:
            unsubscribe(self._hear)
            for timer in self._timers:
                timer.cancel()

    @property
    def left(self) -> float | None:
        """Seconds that the database has for its end; None where nobody has asked us to stop."""
        if self._begun is None:
            return None
        return max(self._begun + self._grace + _END_DATABASE - time.monotonic(), _SHORTEST)

    def _hear(self, event: Event) -> None:
        if isinstance(event, ServerStopping) and self._begun is None:
            self._begun = time.monotonic()
            self._after(self._grace + _TELL_DATABASE, self._tell_database)
            self._after(self._grace + _LEAVE, self._leave)

    def _after(self, seconds: float, work: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, work)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def _tell_database(self) -> None:
        """It ends while we do; what waits for an answer of a frozen one gets it, or its end."""
        if self.database is not None:
            self.database.request_stop()

    def _leave(self) -> None:
        if self.database is not None:
            self.database.kill()
        os._exit(0)
