"""Supervisor that restarts an embedded MongoDB after a crash or a full disk."""

from __future__ import annotations

import threading
from collections.abc import Callable

from docgraph.embedded.binary import LastingThread
from docgraph.embedded.errors import SCARCE_BYTES, DiskFullError
from docgraph.embedded.mongo import EmbeddedMongo
from docgraph.exchange.errors import StartupError
from docgraph.observe import emit
from docgraph.observe.events import BackgroundFailed, DiskFull

_POLL_SECONDS = 0.5
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 30.0
_SPACE_PAUSE = 1.0  # between two checks of the free disk space


class Keeper:
    """Supervises in a thread, for the duration of a `with` block.

    The thread lives as long as the database is needed, so a `mongod` that it starts is tied to this
    process like the first one. `on_disk_full` is called when the disk is full, and when it is not
    any more.
    """

    def __init__(
        self, mongo: EmbeddedMongo, on_disk_full: Callable[[bool], None] = lambda is_full: None
    ) -> None:
        self._mongo = mongo
        self._on_disk_full = on_disk_full
        self._is_disk_full = False
        self._failures = 0
        self._done = threading.Event()
        self._thread = LastingThread(target=self._watch, name="docgraph-mongod", daemon=True)

    def __enter__(self) -> Keeper:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def request_stop(self) -> None:
        """Request a clean end of the database, also of a suspended one; it is not restarted."""
        self._done.set()
        self._mongo.request_stop()

    def kill(self) -> None:
        """Kill the database immediately."""
        self._done.set()
        self._mongo.kill()

    def _watch(self) -> None:
        while not self._done.wait(_POLL_SECONDS):
            pause = self.check_alive()
            if pause:
                self._done.wait(pause)

    def check_alive(self) -> float:
        """Restart the database if it has ended; return the seconds until the next check."""
        if self._mongo.is_running:
            self._failures = 0
            self._record_disk(is_full=False)
            return 0.0
        if self._is_disk_full and self._mongo.free_bytes < SCARCE_BYTES:
            return _SPACE_PAUSE
        try:
            if not self._is_disk_full:
                self._find_full_disk()
            self._mongo.start()
        except DiskFullError:
            self._record_disk(is_full=True)
            return _SPACE_PAUSE
        except StartupError as error:
            self._failures += 1
            pause: float = min(_FIRST_PAUSE * 2 ** (self._failures - 1), _LONGEST_PAUSE)
            emit(BackgroundFailed("embedded-mongodb", error, self._failures, pause))
            return pause
        return 0.0

    def _find_full_disk(self) -> None:
        """Raise if a full disk ended it; after other causes it is simply restarted."""
        try:
            self._mongo.check_alive()
        except DiskFullError:
            raise
        except StartupError:
            return

    def _record_disk(self, *, is_full: bool) -> None:
        """Report the state of the disk once, however often a start fails."""
        if is_full != self._is_disk_full:
            self._is_disk_full = is_full
            self._on_disk_full(is_full)
            if is_full:
                emit(DiskFull(str(self._mongo.directory)))
