"""Embedded MongoDB server: a real `mongod`, owned by one docgraph process and found by others.

The server starts `EmbeddedMongo` when no connection string is configured: a replica set of one
member on loopback, with its data, log and port in one directory. It is synchronous because it runs
before any request is served.
"""

from __future__ import annotations

import atexit
import shutil
import time
from pathlib import Path
from types import TracebackType

from docgraph.embedded.binary import MongodOptions
from docgraph.embedded.directory import DataDirectory
from docgraph.embedded.mongod_process import LOOPBACK, Mongod, Progress
from docgraph.embedded.replication import (
    await_primary,
    build_uri,
    is_primary,
    serves_directory,
)

__all__ = ["EmbeddedMongo", "MongodOptions"]

POLL_SECONDS = 0.05


def _say_nothing(message: str) -> None:
    """Ignore progress messages; the default of `on_progress`."""


class EmbeddedMongo:
    """A `mongod` in a directory of the user's choice, from `start` to `stop`."""

    def __init__(
        self,
        directory: Path | str,
        *,
        options: MongodOptions | None = None,
        on_progress: Progress = _say_nothing,
    ) -> None:
        self._options = options or MongodOptions()
        self._progress = on_progress
        self._node = Mongod(directory, self._options, on_progress)

    @property
    def uri(self) -> str:
        """The connection string."""
        return build_uri(self._node.host)

    @property
    def is_running(self) -> bool:
        """Whether the process is alive."""
        return self._node.is_running

    @property
    def directory(self) -> Path:
        """The data directory."""
        return self._node.directory.path

    @property
    def log(self) -> Path:
        """The log of `mongod`."""
        return self._node.directory.log

    @property
    def port(self) -> int:
        """The port on loopback, known from the first start on."""
        return self._node.port

    @property
    def pid(self) -> int | None:
        """The process id of `mongod` while it runs."""
        return self._node.pid

    @property
    def free_bytes(self) -> int:
        """Free space on the disk of the data, in bytes."""
        return shutil.disk_usage(self.directory).free

    def check_alive(self) -> None:
        """Raise the cause if it has ended by itself."""
        self._node.check_alive()

    def start(self) -> str:
        """Start it if needed, wait for the primary, and return the connection string."""
        self._progress("starting MongoDB")
        atexit.unregister(self.stop)
        atexit.register(self.stop)
        deadline = time.monotonic() + self._options.start_timeout
        try:
            if not self._node.is_running:
                self._node.launch(deadline)
            self._await_primary(deadline)
        except BaseException:
            self.stop()
            raise
        return self.uri

    def request_stop(self) -> None:
        """Request a clean end without waiting for it."""
        self._node.request_stop()

    def kill(self) -> None:
        """Kill it immediately; the journal makes this safe."""
        self._node.kill()

    def stop(self, timeout: float | None = None) -> None:
        """Stop cleanly and release everything; do nothing in a forked copy or when stopped.

        A process that does not end within `timeout` seconds is killed.
        """
        self._node.stop(timeout)
        atexit.unregister(self.stop)

    def __enter__(self) -> str:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @staticmethod
    def find_running(directory: Path | str, *, timeout: float = 10.0) -> str | None:
        """Return the connection string of the `mongod` that a running docgraph owns there.

        While the owner is still starting it, wait up to `timeout` seconds.
        """
        place = DataDirectory(directory)
        end = time.monotonic() + timeout
        while place.lock.is_held():
            port = place.recall().port
            host = f"{LOOPBACK}:{port}"
            if port and serves_directory(port, place.data) and is_primary(host):
                return build_uri(host)
            if time.monotonic() > end:
                return None
            time.sleep(POLL_SECONDS)
        return None

    def _await_primary(self, deadline: float) -> None:
        def check() -> None:
            self._node.check_alive()
            self._node.check_time(deadline)

        await_primary(self._node.host, check)
