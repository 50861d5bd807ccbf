"""API keys over two instances of four workers: they end everywhere (decision 72)."""

from __future__ import annotations

import json
import threading
import time
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import bcrypt
import pytest
from pymongo import MongoClient
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.databases import drop, new_name
from tests.process.harness import Server, eventually, request, run_server

Mongo = MongoClient[dict[str, Any]]
BOUND = 2.0  # seconds within which every worker of every instance has to know
PATIENCE = 60.0


def settings_of(uri: str, db: str) -> dict[str, Any]:
    rule = {"role": "editor", "predicate": "path-prefix('/data')", "priority": 1}
    return {
        "mclient": {"connection-string": uri},
        "sample": {"enabled": False},
        "mongo": {"enabled": True, "mongo-mounts": [{"what": f"/{db}", "where": "/data"}]},
        "dbRealmAuthenticator": {"users-db": db, "create-user": False, "bcrypt-complexity": 4},
        "dbAclAuthorizer": {"acl-db": db},
        "fullAuthorizer": {"enabled": False},
        "fileAclAuthorizer": {"enabled": True, "permissions": [rule]},
        "apiKeyMechanism": {"enabled": True},
        "bruteForceAttackGuard": {"enabled": False},
    }


@dataclass
class Pair:
    """Two instances on one database."""

    servers: tuple[Server, Server]
    db: Any
    keys: list[str] = field(default_factory=list)

    def call(self, method: str, path: str, body: Any = None, user: str = "root") -> Any:
        """The answer of the first instance to an administrator."""
        login = b64encode(f"{user}:secret".encode()).decode()
        with self.servers[0].connect() as wire:
            content = None if body is None else json.dumps(body).encode()
            fields = {} if body is None else {"content_type": "application/json"}
            wire.send(request(method, path, content, authorization=f"Basic {login}", **fields))
            return wire.read(method)

    def make(self, name: str, owner: str, seconds: float = 86_400) -> str:
        """The text of a new key of that owner."""
        end = datetime.now(UTC) + timedelta(seconds=seconds)
        self.db["users"].update_one(
            {"_id": owner},
            {"$setOnInsert": {"roles": ["editor"], "password": hashed("secret")}},
            upsert=True,
        )
        order = {"name": name, "owner": owner, "roles": ["editor"], "notAfter": end.isoformat()}
        reply = self.call("POST", "/keys", order)
        assert reply.status == 201, reply.body
        text: str = reply.json["key"]
        return text


def hashed(password: str) -> str:
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(4)).decode()


@pytest.fixture(scope="module")
def pair(mongo_client: Mongo, mongo_uri: str) -> Iterator[Pair]:
    db = new_name()
    database = mongo_client[db]
    database["users"].insert_one({"_id": "root", "roles": ["admin"], "password": hashed("secret")})
    database.create_collection("things")
    settings = settings_of(mongo_uri, db)
    try:
        with (
            run_server(settings, workers=4) as one,
            run_server(settings, workers=4) as other,
        ):
            pair = Pair((one, other), database)
            streams = {"streams": [{"uri": "all", "stages": []}]}
            eventually(lambda: pair.call("PUT", "/data/things", streams).status == 200)
            yield pair
    finally:
        drop(mongo_client, db)


class Caller(threading.Thread):
    """Sends requests with a key, each over a connection of its own, to any worker."""

    def __init__(self, server: Server, text: str) -> None:
        super().__init__(daemon=True)
        self._server, self._text = server, text
        self.is_over = threading.Event()
        self.seen: list[tuple[float, int]] = []

    def run(self) -> None:
        while not self.is_over.is_set():
            began = time.monotonic()
            reply = self._server.get("/data/things", authorization=f"Bearer {self._text}")
            self.seen.append((began, reply.status))
            time.sleep(0.02)


@contextmanager
def listening(pair: Pair, text: str) -> Iterator[list[ClientConnection]]:
    """Eight streams of each instance, so that all workers have some."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(
                connect(
                    f"ws://127.0.0.1:{server.port}/data/things/_streams/all",
                    additional_headers={"Authorization": f"Bearer {text}"},
                    open_timeout=PATIENCE,
                )
            )
            for server in pair.servers
            for _ in range(8)
        ]


def wait_closed(client: ClientConnection) -> float:
    """When the server ended it."""
    try:
        while True:
            client.recv(timeout=PATIENCE)
    except ConnectionClosed:
        return time.monotonic()


def find_times(pair: Pair, text: str, end: Callable[[], object]) -> tuple[float, float]:
    """The seconds until the last stream has ended, and until the last request was accepted."""
    callers = [Caller(server, text) for server in pair.servers for _ in range(2)]
    with listening(pair, text) as clients:
        closed: list[float] = []
        waiting = [
            threading.Thread(target=lambda client=client: closed.append(wait_closed(client)))
            for client in clients
        ]
        for thread in (*callers, *waiting):
            thread.start()
        eventually(lambda: all(caller.seen for caller in callers))
        end()
        began = time.monotonic()
        for thread in waiting:
            thread.join(PATIENCE)
        time.sleep(max(0.0, began + BOUND + 0.3 - time.monotonic()))
    for caller in callers:
        caller.is_over.set()
        caller.join()
    seen = [one for caller in callers for one in caller.seen]
    accepted = [moment - began for moment, status in seen if status == 200]
    assert len(closed) == len(clients)
    assert max(moment for moment, _ in seen) > began + BOUND
    assert {status for _, status in seen} <= {200, 401, 403}
    return max(closed) - began, max(accepted)


def test_a_revoked_key_ends_on_all_workers_of_all_instances(pair: Pair) -> None:
    text = pair.make("revoked", "ada")
    streams, requests = find_times(pair, text, lambda: pair.call("DELETE", "/keys/ada/revoked"))
    assert streams < BOUND
    assert requests < BOUND


def test_a_key_loses_the_role_that_its_owner_loses_everywhere(pair: Pair) -> None:
    text = pair.make("demoted", "bob")
    streams, requests = find_times(
        pair, text, lambda: pair.call("PATCH", "/data/users/bob", {"roles": ["guest"]})
    )
    assert streams < BOUND
    assert requests < BOUND


def test_a_key_ends_with_its_owner_everywhere(pair: Pair) -> None:
    text = pair.make("orphan", "joe")
    streams, requests = find_times(pair, text, lambda: pair.call("DELETE", "/data/users/joe"))
    assert streams < BOUND
    assert requests < BOUND


def test_a_key_ends_with_the_password_of_its_owner_everywhere(pair: Pair) -> None:
    """Also where another program writes it, on an instance that has no part in it."""
    text = pair.make("known", "kim")
    change = {"$set": {"password": hashed("another")}}
    streams, requests = find_times(
        pair, text, lambda: pair.db["users"].update_one({"_id": "kim"}, change)
    )
    assert streams < BOUND
    assert requests < BOUND


def test_streams_of_a_key_end_at_its_end(pair: Pair) -> None:
    seconds = 5
    text = pair.make("short", "eve", seconds)
    end = time.monotonic() + seconds

    def wait() -> None:
        time.sleep(max(0.0, end - time.monotonic()))

    streams, requests = find_times(pair, text, wait)
    assert -1.5 < streams < BOUND
    assert requests < 0.5
