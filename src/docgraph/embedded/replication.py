"""Making started `mongod` processes a replica set, and waiting until it has a primary.

The set is told its members' addresses again whenever a port had to change: by force, since a member
that does not find itself in its configuration cannot vote for a new one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError

from docgraph.embedded.binary import SET_NAME
from docgraph.exchange.errors import StartupError

__all__ = ["await_primary", "build_uri", "find_primary", "serves_directory", "step_down"]

POLL_SECONDS = 0.02
NOT_YET_INITIALIZED = 94
PRIMARY, SECONDARY = 1, 2
# A member that still reads its configuration, or is being given one.
_PASSING = frozenset({23, 91, 94, 109, 11600, 11602, 13436})

Document = dict[str, Any]


def build_uri(hosts: Sequence[str]) -> str:
    """The connection string: direct for one member, by the name of the set for several."""
    option = "directConnection=true" if len(hosts) == 1 else f"replicaSet={SET_NAME}"
    return f"mongodb://{','.join(hosts)}/?{option}"


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
    """Whether the `mongod` of that directory, and not another process, answers on the port."""
    try:
        with _connect(f"127.0.0.1:{port}") as client:
            options = client.admin.command("getCmdLineOpts")
    except PyMongoError:  # whatever it is, it is not ours or not up
        return False
    return bool(options["parsed"].get("storage", {}).get("dbPath") == str(data))


def await_primary(
    hosts: Sequence[str], settings: Mapping[str, Any], check: Callable[[], None]
) -> None:
    """Configure the set and wait for its primary; `check` raises when there is no more hope."""
    configured = False
    with _connect(hosts[0]) as client:
        while True:
            check()
            try:
                configured = configured or _configure(client, hosts, settings)
                if configured and _is_ready(client, len(hosts)):
                    return
            except ConnectionFailure:  # a member may end here; `check` knows
                pass
            except OperationFailure as error:
                _check_passing(error)
            time.sleep(POLL_SECONDS)


def find_primary(hosts: Sequence[str]) -> str | None:
    """The host that is primary, as the members themselves see it."""
    for host in hosts:
        try:
            with _connect(host) as client:
                if client.admin.command("hello")["isWritablePrimary"]:
                    return host
        except ConnectionFailure:  # a member that is down is not the primary
            continue
    return None


def step_down(host: str, seconds: int) -> None:
    """Make the primary at `host` give way for that time."""
    with _connect(host) as client:
        client.admin.command("replSetStepDown", seconds, secondaryCatchUpPeriodSecs=5)


def _configure(
    client: MongoClient[Document], hosts: Sequence[str], settings: Mapping[str, Any]
) -> bool:
    members = [{"_id": number, "host": host} for number, host in enumerate(hosts)]
    try:
        config = client.admin.command("replSetGetConfig")["config"]
    except OperationFailure as error:
        if error.code != NOT_YET_INITIALIZED:
            raise
        wanted = {"_id": SET_NAME, "members": members, "settings": dict(settings)}
        client.admin.command("replSetInitiate", wanted)
        return True
    if [member["host"] for member in config["members"]] != list(hosts):
        config["members"] = members
        config["version"] += 1
        client.admin.command("replSetReconfig", config, force=True)
    return True


def _is_ready(client: MongoClient[Document], count: int) -> bool:
    if count == 1:
        return bool(client.admin.command("hello")["isWritablePrimary"])
    members = client.admin.command("replSetGetStatus")["members"]
    states = sorted(member["state"] for member in members)
    return states == [PRIMARY] + [SECONDARY] * (count - 1)


def _check_passing(error: OperationFailure) -> None:
    if error.code not in _PASSING:
        raise StartupError(
            f"the embedded MongoDB refused its replica-set configuration: {error.details}",
            hint="the data may belong to another replica set: choose another directory with "
            "core.data-directory",
        ) from error
