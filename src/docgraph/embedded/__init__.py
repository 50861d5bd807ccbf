"""Embedded MongoDB: a real `mongod`, owned and supervised by one docgraph process, found by others.

The server starts `EmbeddedMongo` when no connection string is configured: a replica set of one
member on loopback, with its data, log and port in one directory. It is synchronous because it runs
before any request is served.
"""

from __future__ import annotations

import atexit
import shutil
import threading
import time
from collections.abc import Callable
from pathlib import Path

from docgraph.embedded.directory import DataDirectory
from docgraph.embedded.errors import SCARCE_BYTES, DiskFullError
from docgraph.embedded.mongod_process import LOOPBACK, Mongod, Progress
from docgraph.embedded.mongod_setup import (
    LastingThread,
    MongodOptions,
    await_primary,
    build_uri,
    is_primary,
    serves_directory,
)
from docgraph.exchange.errors import StartupError
from docgraph.observe import emit
from docgraph.observe.events import BackgroundFailed, DiskFull
from docgraph.runtime.backoff import GrowingPauses

__all__ = ["EmbeddedMongo", "Keeper", "MongodOptions"]

_FIND_SECONDS, _PAUSE_SECONDS = 10.0, 0.05  # for one that is being started


class EmbeddedMongo(Mongod):
    """A `mongod` in a directory of the user's choice, from `start` to `stop`."""

    def __init__(
        self,
        directory: Path | str,
        *,
        options: MongodOptions | None = None,
        on_progress: Progress = lambda message: None,
    ) -> None:
        super().__init__(directory, options or MongodOptions(), on_progress)

    @property
    def uri(self) -> str:
        return build_uri(self.host)

    @property
    def free_bytes(self) -> int:
        """Free space on the disk of the data, in bytes."""
        return shutil.disk_usage(self.directory).free

    def start(self) -> str:
        """Start `mongod` if needed, wait for the primary, and return the connection string."""
        self._progress("starting MongoDB")
        atexit.unregister(self.stop)
        atexit.register(self.stop)
        deadline = time.monotonic() + self._options.start_timeout

        def check() -> None:
            self.check_alive()
            self.check_time(deadline)

        try:
            if not self.is_running:
                self.launch(deadline)
            await_primary(self.host, check)
        except BaseException:
            self.stop()
            raise
        return self.uri

    def stop(self, timeout: float | None = None) -> None:
        """Stop cleanly and release everything; do nothing in a forked copy or when stopped."""
        super().stop(timeout)
        atexit.unregister(self.stop)

    def __enter__(self) -> str:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    @staticmethod
    def find_running(directory: Path | str) -> str | None:
        """Return the connection string of the `mongod` that a running docgraph owns there.

        While the owner is still starting it, wait for some seconds.
        """
        place = DataDirectory(directory)
        end = time.monotonic() + _FIND_SECONDS
        while place.lock.is_held():
            port = place.recall().port
            host = f"{LOOPBACK}:{port}"
            if port and serves_directory(port, place.data) and is_primary(host):
                return build_uri(host)
            if time.monotonic() > end:
                return None
            time.sleep(_PAUSE_SECONDS)
        return None


_WATCH_SECONDS = 0.5
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
        self._pauses = GrowingPauses(_FIRST_PAUSE, _LONGEST_PAUSE, least=1)
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
        while not self._done.wait(_WATCH_SECONDS):
            pause = self.check_alive()
            if pause:
                self._done.wait(pause)

    def check_alive(self) -> float:
        """Restart the database if it has ended; return the seconds until the next check."""
        if self._mongo.is_running:
            self._failures = 0
            self._pauses.reset()
            self._record_disk(is_full=False)
            return 0.0
        if self._is_disk_full and self._mongo.free_bytes < SCARCE_BYTES:
            return _SPACE_PAUSE
        try:
            if not self._is_disk_full:
                try:
                    self._mongo.check_alive()
                except DiskFullError:
                    raise  # after other causes it is simply restarted
                except StartupError:
                    pass
            self._mongo.start()
        except DiskFullError:
            self._record_disk(is_full=True)
            return _SPACE_PAUSE
        except StartupError as error:
            self._failures += 1
            pause = next(self._pauses)
            emit(BackgroundFailed("embedded-mongodb", error, self._failures, pause))
            return pause
        return 0.0

    def _record_disk(self, *, is_full: bool) -> None:
        """Report the state of the disk once, however often a start fails."""
        if is_full != self._is_disk_full:
            self._is_disk_full = is_full
            self._on_disk_full(is_full)
            if is_full:
                emit(DiskFull(str(self._mongo.directory)))
