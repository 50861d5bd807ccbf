"""F15: a worker dies while it stores the definition of an app: that is the old one or the new one.

    make drill-definitions          ROUNDS=6 for a first impression

Version n of the app has the field `v<n>` in its schema and in its mappings. Another instance has
the version that is stored soon after, whatever became of the request.
"""

from __future__ import annotations

import json
import os
import random
import socket
import time
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.drills.drill_killed import find_workers
from tests.drills.server import DrillServer, describe_load, serving, wait_until

ROUNDS = int(os.environ.get("ROUNDS", "100"))
TTR_MS = 500
LONGEST = TTR_MS / 1000 + 2  # seconds
LONGEST_ROUND = 20.0
LIVES = 5  # that one server gives: it replaces a worker that dies again and again ever later
Mongo = MongoClient[dict[str, Any]]
NAMES = {"query": '{__type(name: "Query") {fields {name}}}'}

pytestmark = pytest.mark.timeout(120 + ROUNDS * LONGEST_ROUND)


def define(version: int) -> dict[str, Any]:
    find = {"db": "versions", "collection": "things", "find": {}}
    return {
        "descriptor": {"uri": "versions", "name": "versions", "enabled": True},
        "schema": f"type Query {{ v{version}: [Thing] }} type Thing {{ n: Int }}",
        "mappings": {"Query": {f"v{version}": find}},
    }


def put(port: int, version: int) -> socket.socket:
    body = json.dumps(define(version))
    lines = ["PUT /versions/gql-apps/versions HTTP/1.1", "Host: localhost"]
    lines += ["Content-Type: application/json", f"Content-Length: {len(body)}", "", body]
    client = socket.create_connection(("127.0.0.1", port))
    client.sendall("\r\n".join(lines).encode())
    return client


def read_version(server: DrillServer) -> int:
    _, content, _ = server.ask("POST", "/graphql/versions", NAMES)
    (field,) = json.loads(content)["data"]["__type"]["fields"]
    return int(field["name"][1:])


def await_version(server: DrillServer, version: int) -> float:
    return wait_until(lambda: read_version(server) == version, LONGEST)


def kill_holder(server: DrillServer, client: socket.socket) -> None:
    """End the worker that has this connection, if it still has it."""
    port = client.getsockname()[1]
    for worker in find_workers(server):
        if any(one.raddr and one.raddr.port == port for one in worker.net_connections("tcp")):
            worker.kill()
            worker.wait()


def kill_while_storing(mongo: Mongo, one: DrillServer, version: int, moment: float) -> int:
    """Which version is stored after a worker was killed at this moment of a change to this one."""
    wait_until(lambda: len(find_workers(one)) == 2 and one.ask("GET", "/ping")[0] == 200)
    with put(one.port, version) as client:
        time.sleep(moment)
        kill_holder(one, client)
    stored = mongo["versions"]["gql-apps"].find_one() or {}
    (name,) = stored["mappings"]["Query"]
    assert f"{{ {name}:" in stored["schema"]
    return int(name[1:])


def test_f15_a_definition_is_stored_as_a_whole(mongo_uri: str, tmp_path: Path) -> None:
    options = {
        "mclient__connection_string": mongo_uri,
        "graphql__db": "versions",
        "graphql__app_cache_ttr": str(TTR_MS),
        "mongo__mongo_mounts": '[{"what": "/versions", "where": "/versions"}]',
    }
    places = [tmp_path / name for name in ("one", "other")]
    for place in places:
        place.mkdir()
    chance = random.Random(15)
    current, kept, longest = 0, 0, 0.0
    with Mongo(mongo_uri) as mongo, serving(places[1], **options) as other:
        mongo.drop_database("versions")
        mongo["versions"]["gql-apps"].insert_one({"_id": "versions", **define(0)})
        wait_until(lambda: other.ask("POST", "/graphql/versions", NAMES)[0] == 200)
        for first in range(1, ROUNDS + 1, LIVES):
            with serving(places[0], core__workers="2", **options) as one:
                for version in range(first, min(first + LIVES, ROUNDS + 1)):
                    found = kill_while_storing(mongo, one, version, chance.uniform(0, 0.02))
                    assert found in (current, version)
                    kept += found == current
                    current = found
                    longest = max(longest, await_version(other, current))
    print(f"\nf15, {ROUNDS} times: {kept} times the old definition, else the new one", end="")
    print(f"; at the other instance after {longest:.1f} s; {describe_load()}")
