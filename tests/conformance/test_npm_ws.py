"""npm's `ws` as a client of a change stream of a real server."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.databases import drop, new_name
from tests.npm import install
from tests.process.harness import run_server

CLIENT = Path(__file__).parent / "npm_ws"


@pytest.mark.usefixtures("preloaded")
def test_ws_of_npm_gets_events_and_is_told_of_the_shutdown(
    mongo_uri: str, mongo_client: MongoClient[dict[str, Any]]
) -> None:
    install(CLIENT, "ws")
    db = new_name()
    things = mongo_client[db]["things"]
    mongo_client[db]["_properties"].insert_one(
        {"_id": "_properties.things", "streams": [{"uri": "all", "stages": []}]}
    )
    things.insert_one({"n": 0})
    settings = {
        "mclient": {"connection-string": mongo_uri},
        "sample": {"enabled": False},
        "mongo": {"enabled": True, "mongo-mounts": [{"what": f"/{db}", "where": "/data"}]},
        "fullAuthorizer": {"enabled": True, "authentication-required": False},
    }
    try:
        with run_server(settings) as server:
            url = f"ws://127.0.0.1:{server.port}/data/things/_streams/all"
            command = ["node", "listen.js", url]
            with subprocess.Popen(command, cwd=CLIENT, stdout=subprocess.PIPE, text=True) as client:
                assert client.stdout is not None
                opened = json.loads(client.stdout.readline())
                things.insert_many([{"n": number} for number in range(3)])
                told = [json.loads(client.stdout.readline()) for _ in range(3)]
                server.stop()
                closed = json.loads(client.stdout.readline())
                assert client.wait(60) == 0
    finally:
        drop(mongo_client, db)
    assert opened == {"kind": "open", "value": "permessage-deflate"}
    assert {one["kind"] for one in told} == {"text"}
    assert [json.loads(one["value"])["fullDocument"]["n"] for one in told] == [0, 1, 2]
    assert (closed["kind"], closed["value"][0]) == ("close", 1012)
