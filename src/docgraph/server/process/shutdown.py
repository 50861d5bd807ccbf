"""Graceful shutdown with an overall deadline, even if something hangs.

    SIGTERM ── grace: requests finish ── +0.3 s: stop mongod ── +1.5 s: kill it ── exit

Everything that a stop waits for has its own timeout, and they would add up: a frozen database,
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

WORKER_MARGIN: Final = 1.0  # seconds beyond the grace in which a worker has to end
_TELL_DATABASE: Final = 0.3  # seconds beyond the grace
_END_DATABASE: Final = 1.5
_LEAVE: Final = 1.8
_SHORTEST: Final = 0.5  # seconds that the database has to shut down, however late it is


class EmbeddedDatabase(Protocol):
    """An embedded `mongod` and its keeper process, which end with this process."""

    def request_stop(self) -> None:
        """Request a clean shutdown, also of a suspended process."""

    def kill(self) -> None:
        """Kill it immediately."""


class Shutdown:
    """Wraps serving: the countdown begins when the server is asked to stop."""

    def __init__(self, grace: float) -> None:
        self._grace = grace
        self._begun: float | None = None
        self._timers: list[threading.Timer] = []
        self.database: EmbeddedDatabase | None = None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Start the countdown when the server stops; exit normally when all is done."""
        subscribe(self._hear, wants=lambda kind: kind is ServerStopping)
        try:
            yield
        finally:
            unsubscribe(self._hear)
            for timer in self._timers:
                timer.cancel()

    @property
    def left(self) -> float | None:
        """Seconds that the database has to shut down; None without a request to stop."""
        if self._begun is None:
            return None
        return max(self._begun + self._grace + _END_DATABASE - time.monotonic(), _SHORTEST)

    def _hear(self, event: Event) -> None:
        if isinstance(event, ServerStopping) and self._begun is None:
            self._begun = time.monotonic()
            self._after(self._grace + _TELL_DATABASE, self._stop_database)
            self._after(self._grace + _LEAVE, self._leave)

    def _after(self, seconds: float, work: Callable[[], None]) -> None:
        timer = threading.Timer(seconds, work)
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def _stop_database(self) -> None:
        """Stop the database during the shutdown; commands that wait for a frozen one then end."""
        if self.database is not None:
            self.database.request_stop()

    def _leave(self) -> None:
        if self.database is not None:
            self.database.kill()
        os._exit(0)
