"""Replica set of one member: initiates it, and waits until the `mongod` is its primary.

The configuration of the set gets the new address whenever the port had to change. It is forced,
because a member that does not find itself in its configuration cannot vote for a new one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

from docgraph.embedded.binary import SET_NAME
from docgraph.exchange.errors import StartupError

POLL_SECONDS = 0.02
NOT_YET_INITIALIZED = 94
# Errors of a member that still reads its configuration, or is receiving one.
_PASSING = frozenset({23, 91, 94, 109, 11600, 11602, 13436})

Document = dict[str, Any]


def build_uri(host: str) -> str:
    """Build the connection string: direct, because there is only one member."""
    return f"mongodb://{host}/?directConnection=true"


def _connect(host: str) -> MongoClient[Document]:
    return MongoClient(
        host,
        directConnection=True,
        serverSelectionTimeoutMS=1000,
        connectTimeoutMS=1000,
        socketTimeoutMS=10_000,
        appname="docgraph-embedded",
    )


def serves_directory(port: int, data: Path) -> bool:
    """Return whether the `mongod` of that directory, and no other process, uses the port."""
    try:
        with _connect(f"127.0.0.1:{port}") as client:
            options = client.admin.command("getCmdLineOpts")
    except PyMongoError:  # any error: it is not ours or not up
        return False
    return bool(options["parsed"].get("storage", {}).get("dbPath") == str(data))


def await_primary(host: str, check: Callable[[], None]) -> None:
    """Configure the set and wait for its primary; `check` raises when waiting is hopeless."""
    configured = False
    with _connect(host) as client:
        while True:
            check()
            try:
                configured = configured or _configure(client, host)
                if configured and _is_writable(client):
                    return
            except ConnectionFailure:  # the member may end here; `check` detects it
                pass
            except OperationFailure as error:
                _check_passing(error)
            time.sleep(POLL_SECONDS)


def is_primary(host: str) -> bool:
    """Return whether the member accepts writes, according to itself."""
    try:
        with _connect(host) as client:
            return _is_writable(client)
    except ConnectionFailure:  # a member that is down is not the primary
        return False


def _configure(client: MongoClient[Document], host: str) -> bool:
    members = [{"_id": 0, "host": host}]
    try:
        config = client.admin.command("replSetGetConfig")["config"]
    except OperationFailure as error:
        if error.code != NOT_YET_INITIALIZED:
            raise
        client.admin.command("replSetInitiate", {"_id": SET_NAME, "members": members})
        return True
    if [member["host"] for member in config["members"]] != [host]:
        config["members"] = members
        config["version"] += 1
        client.admin.command("replSetReconfig", config, force=True)
    return True


def _is_writable(client: MongoClient[Document]) -> bool:
    return bool(client.admin.command("hello")["isWritablePrimary"])


def _check_passing(error: OperationFailure) -> None:
    if error.code not in _PASSING:
        raise StartupError(
            f"the embedded MongoDB refused its replica-set configuration: {error.details}",
            hint="the data may belong to another replica set: choose another directory with "
            "core.data-directory",
        ) from error
