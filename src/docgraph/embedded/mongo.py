"""The embedded MongoDB: a real `mongod`, owned by one docgraph process, found by the others.

`EmbeddedMongo` is what the server starts when no connection string is configured: a replica set
of one member on loopback, with its data, log and port in one directory. `EmbeddedReplicaSet` is
the same with several members, for drills. Both are synchronous: they run before anything is served.
"""

from __future__ import annotations

import atexit
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from docgraph.embedded.binary import MongodOptions
from docgraph.embedded.directory import DataDirectory
from docgraph.embedded.node import LOOPBACK, Node, Progress
from docgraph.embedded.replication import (
    await_primary,
    build_uri,
    find_primary,
    serves_directory,
    step_down,
)

__all__ = ["EmbeddedMongo", "EmbeddedReplicaSet", "MongodOptions"]

POLL_SECONDS = 0.05
# A drill should not wait ten seconds for each election.
_BRISK = {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 200}


def _say_nothing(message: str) -> None:
    """The default for `on_progress`: progress is not shown."""


class _Cluster:
    """What one and several members have in common: start together, stop together."""

    _settings: Mapping[str, Any] = {}

    def __init__(self, nodes: list[Node], options: MongodOptions, progress: Progress) -> None:
        self._nodes = nodes
        self._options = options
        self._progress = progress

    @property
    def uri(self) -> str:
        """The connection string."""
        return build_uri([node.host for node in self._nodes])

    @property
    def is_running(self) -> bool:
        """Whether every member lives."""
        return all(node.is_running for node in self._nodes)

    def start(self) -> str:
        """Start what does not run, wait for the primary, and return the connection string."""
        self._progress("starting MongoDB")
        atexit.unregister(self.stop)
        atexit.register(self.stop)
        deadline = time.monotonic() + self._options.start_timeout
        try:
            for node in self._nodes:
                if not node.is_running:
                    node.launch(deadline)
            self._await_primary(deadline)
        except BaseException:
            self.stop()
            raise
        return self.uri

    def stop(self) -> None:
        """Stop cleanly and leave nothing behind; in a forked copy, and once stopped, do nothing."""
        for node in self._nodes:
            node.request_stop()
        for node in self._nodes:
            node.stop()
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

    def _await_primary(self, deadline: float) -> None:
        def check() -> None:
            for node in self._nodes:
                node.check_alive()
                node.check_time(deadline)

        await_primary([node.host for node in self._nodes], self._settings, check)


class EmbeddedMongo(_Cluster):
    """A `mongod` in a directory of the user's choice, from `start` to `stop`."""

    def __init__(
        self,
        directory: Path | str,
        *,
        options: MongodOptions | None = None,
        on_progress: Progress = _say_nothing,
    ) -> None:
        chosen = options or MongodOptions()
        self._node = Node(directory, chosen, on_progress)
        super().__init__([self._node], chosen, on_progress)

    @property
    def directory(self) -> Path:
        """Where the data lies."""
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

    def kill(self) -> None:
        """End `mongod` as a power cut would; `start` brings it back."""
        self._node.kill()

    @staticmethod
    def find_running(directory: Path | str, *, timeout: float = 10.0) -> str | None:
        """The connection string of the `mongod` that a running docgraph owns in that directory.

        While the owner is still starting it, wait up to `timeout` seconds.
        """
        place = DataDirectory(directory)
        end = time.monotonic() + timeout
        while place.lock.is_held():
            port = place.recall().port
            host = f"{LOOPBACK}:{port}"
            if port and serves_directory(port, place.data) and find_primary([host]):
                return build_uri([host])
            if time.monotonic() > end:
                return None
            time.sleep(POLL_SECONDS)
        return None


class EmbeddedReplicaSet(_Cluster):
    """Several members, each in a directory of its own, with the means to make them fail."""

    _settings = _BRISK

    def __init__(
        self,
        directory: Path | str,
        *,
        members: int = 3,
        options: MongodOptions | None = None,
        on_progress: Progress = _say_nothing,
    ) -> None:
        chosen = options or MongodOptions(cache_gb=0.25, oplog_mb=64)
        self.nodes = [
            Node(Path(directory, f"member{number}"), chosen, on_progress)
            for number in range(members)
        ]
        super().__init__(self.nodes, chosen, on_progress)

    @property
    def primary(self) -> Node | None:
        """The member that accepts writes now, if there is one."""
        host = find_primary([node.host for node in self.nodes if node.is_running])
        return next((node for node in self.nodes if node.host == host), None)

    def await_primary(self, timeout: float = 30.0) -> Node:
        """Wait until some member accepts writes."""
        end = time.monotonic() + timeout
        while (primary := self.primary) is None:
            if time.monotonic() > end:
                raise TimeoutError(f"no primary within {timeout:g} s")
            time.sleep(POLL_SECONDS)
        return primary

    def step_down(self, seconds: int = 10) -> None:
        """Make the primary give way; another member takes over."""
        step_down(self.await_primary().host, seconds)
