"""Several embedded `mongod` as one replica set, with the means to make its members fail."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

from docgraph.embedded import EmbeddedMongo
from docgraph.embedded.mongod_process import Mongod
from docgraph.embedded.mongod_setup import SET_NAME, MongodOptions

Document = dict[str, Any]

# A drill should not wait ten seconds for each election.
_BRISK = {"electionTimeoutMillis": 1000, "heartbeatIntervalMillis": 200}
_PATIENT = {"electionTimeoutMillis": 10_000, "heartbeatIntervalMillis": 2_000}
_NOT_YET_INITIALIZED = 94
_PRIMARY, _SECONDARY = 1, 2
_START_SECONDS = 60.0
_POLL_SECONDS = 0.02


def kill(mongo: EmbeddedMongo | Mongod) -> None:
    """End a `mongod` as a power cut would; its directory stays ours, and it can start again."""
    if (pid := mongo.pid) is not None:
        os.kill(pid, signal.SIGKILL)
    while mongo.is_running:
        time.sleep(_POLL_SECONDS)


class ReplicaSet:
    """Members in a directory each; they start together and stop together."""

    def __init__(self, directory: Path | str, options: MongodOptions, members: int = 3) -> None:
        self.nodes = [
            Mongod(Path(directory, f"member{number}"), options, lambda message: None)
            for number in range(members)
        ]

    @property
    def uri(self) -> str:
        """The connection string."""
        return f"mongodb://{','.join(self._hosts)}/?replicaSet={SET_NAME}"

    @property
    def is_running(self) -> bool:
        """Whether every member lives."""
        return all(node.is_running for node in self.nodes)

    def start(self) -> str:
        """Start what does not run, wait until one is primary and the others follow it."""
        deadline = time.monotonic() + _START_SECONDS
        try:
            for node in self.nodes:
                if not node.is_running:
                    node.launch(deadline)
            _until(self._configure, deadline)
            _until(self._is_complete, deadline)
        except BaseException:
            self.stop()
            raise
        return self.uri

    def stop(self) -> None:
        """Stop all members cleanly."""
        for node in self.nodes:
            node.request_stop()
        for node in self.nodes:
            node.stop()

    def await_primary(self, timeout: float = 30.0, besides: Mongod | None = None) -> Mongod:
        """Wait until some member accepts writes, besides one that is not asked."""
        found: list[Mongod] = []

        def look() -> bool:
            living = (node for node in self.nodes if node.is_running and node is not besides)
            found.extend(node for node in living if _is_primary(node.host))
            return bool(found)

        _until(look, time.monotonic() + timeout)
        return found[0]

    def step_down(self, seconds: int = 10) -> None:
        """Make the primary give way for that time; another member takes over."""
        with _connect(self.await_primary().host) as client:
            client.admin.command("replSetStepDown", seconds, secondaryCatchUpPeriodSecs=5)

    def be_patient(self) -> None:
        """Let members wait for each other as long as MongoDB's own settings do."""
        with MongoClient[Document](self.uri) as client:
            config = client.admin.command("replSetGetConfig")["config"]
            config["settings"] |= _PATIENT
            config["version"] += 1
            client.admin.command("replSetReconfig", config)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def _hosts(self) -> list[str]:
        return [node.host for node in self.nodes]

    def _configure(self) -> bool:
        """Name the members to the first one: at the first start, and where a port had to change."""
        members = [{"_id": number, "host": host} for number, host in enumerate(self._hosts)]
        with _connect(self._hosts[0]) as client:
            try:
                config = client.admin.command("replSetGetConfig")["config"]
            except OperationFailure as error:
                if error.code != _NOT_YET_INITIALIZED:
                    raise
                wanted = {"_id": SET_NAME, "members": members, "settings": _BRISK}
                client.admin.command("replSetInitiate", wanted)
                return True
            if [member["host"] for member in config["members"]] != self._hosts:
                config |= {"members": members, "version": config["version"] + 1}
                client.admin.command("replSetReconfig", config, force=True)
        return True

    def _is_complete(self) -> bool:
        with _connect(self._hosts[0]) as client:
            members = client.admin.command("replSetGetStatus")["members"]
        states = sorted(member["state"] for member in members)
        return states == [_PRIMARY] + [_SECONDARY] * (len(self.nodes) - 1)


def _connect(host: str) -> MongoClient[Document]:
    return MongoClient(
        host, directConnection=True, serverSelectionTimeoutMS=1000, socketTimeoutMS=10_000
    )


def _is_primary(host: str) -> bool:
    try:
        with _connect(host) as client:
            return bool(client.admin.command("hello")["isWritablePrimary"])
    except ConnectionFailure:  # a member that is down is not the primary
        return False


def _until(check: Callable[[], bool], deadline: float) -> None:
    """Ask again until it is so; members that start, end or vote refuse commands meanwhile."""
    while True:
        try:
            if check():
                return
        except PyMongoError:
            if time.monotonic() > deadline:
                raise
        if time.monotonic() > deadline:
            raise TimeoutError(check.__name__)
        time.sleep(_POLL_SECONDS)
