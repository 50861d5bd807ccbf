"""A `mongod` with authentication: a replica set of one that lets nobody in without a login."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from docgraph.embedded.mongod_process import Mongod
from docgraph.embedded.mongod_setup import SET_NAME, MongodOptions

Document = dict[str, Any]

_ROOT = "root"
_SECONDS = 60.0
_POLL_SECONDS = 0.05


class GuardedMongo:
    """Where it is, and an administrator's client; users are made for a test and go with it."""

    def __init__(self, host: str, password: str) -> None:
        self.host = host
        # Polling needs one connection, opened at once: no test sees another one appear later.
        self.admin: MongoClient[Document] = MongoClient(
            self.render_uri(_ROOT, password), serverMonitoringMode="poll"
        )
        self.admin.admin.command("ping")

    def render_uri(self, user: str, password: str) -> str:
        """The connection string of a user."""
        return f"mongodb://{user}:{password}@{self.host}/?directConnection=true"

    @contextmanager
    def user(self, roles: Sequence[Any], password: str = "secret") -> Iterator[str]:
        """The name of a user with these roles, for a while."""
        name = f"user-{uuid4().hex[:8]}"
        self.admin.admin.command("createUser", name, pwd=password, roles=list(roles))
        try:
            yield name
        finally:
            self.admin.admin.command("dropUser", name)


@contextmanager
def guarding(directory: Path, options: MongodOptions) -> Iterator[GuardedMongo]:
    """It, started, with its first user."""
    password, key = secrets.token_hex(16), write_key(directory / "key")
    node = Mongod(directory / "data", replace(options, key_file=key), lambda message: None)
    try:
        node.launch(time.monotonic() + _SECONDS)
        _configure(node.host, password)
        mongo = GuardedMongo(node.host, password)
        with mongo.admin:
            yield mongo
    finally:
        node.kill()  # a clean end takes a second, and is of no use
        node.stop()


def write_key(path: Path) -> Path:
    """The file of a key that members of a set have in common."""
    path.write_text(secrets.token_hex(32))
    path.chmod(0o600)
    return path


def _configure(host: str, password: str) -> None:
    """From this machine the first user may be made, and nothing else."""
    deadline = time.monotonic() + _SECONDS
    members = [{"_id": 0, "host": host}]
    with MongoClient[Document](host, directConnection=True) as client:
        client.admin.command("replSetInitiate", {"_id": SET_NAME, "members": members})
        while not client.admin.command("hello")["isWritablePrimary"]:
            assert time.monotonic() < deadline
            time.sleep(_POLL_SECONDS)
        while True:
            try:
                client.admin.command("createUser", _ROOT, pwd=password, roles=["root"])
            except PyMongoError:  # an election may not be over
                assert time.monotonic() < deadline
                time.sleep(_POLL_SECONDS)
            else:
                return
