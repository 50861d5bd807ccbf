"""Tokens over real processes: two workers of one instance, two instances on one database.

Decisions 32 and 33: a token is one for all workers, its end holds for all of them at once and on
other instances within a second.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import bcrypt
import jwt
import pytest
from pymongo import MongoClient

from tests.databases import drop, new_name
from tests.process.harness import Response, Server, Wire, eventually, request, run_server

KEY = "a key of more than thirty-two bytes for tests"
MANAGERS: dict[str, dict[str, Any]] = {
    "random": {"rndTokenManager": {"enabled": True}},
    "signed": {
        "rndTokenManager": {"enabled": False},
        "jwtTokenManager": {"enabled": True, "key": KEY},
    },
}


@contextmanager
def serving(uri: str, database: str, manager: str, workers: int = 2) -> Iterator[Server]:
    """An instance whose users are in that database."""
    settings = {
        "mclient": {"connection-string": uri},
        # What is no token may be a password, which is hashed before the answer is 401.
        "dbRealmAuthenticator": {
            "users-db": database,
            "create-user": False,
            "bcrypt-complexity": 4,
        },
        "bruteForceAttackGuard": {"enabled": False},
        "mongo": {"enabled": False},  # the sample has its place
        **MANAGERS[manager],
    }
    with run_server(settings, workers=workers) as server:
        yield server


@dataclass
class Users:
    """The users of one database."""

    collection: Any
    _names: Iterator[int] = field(default_factory=count)

    def add(self) -> str:
        """A user that nobody else has; the password is `secret`."""
        name = f"user{next(self._names)}"
        password = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
        self.collection.insert_one({"_id": name, "password": password, "roles": ["user"]})
        return name

    def remove(self, name: str) -> None:
        self.collection.delete_one({"_id": name})


@pytest.fixture(scope="module")
def users(mongo_client: MongoClient[dict[str, Any]]) -> Iterator[Users]:
    """In a database of this module."""
    database = new_name()
    yield Users(mongo_client[database]["users"])
    drop(mongo_client, database)


@pytest.fixture(scope="module", params=list(MANAGERS))
def two_workers(
    request: pytest.FixtureRequest, mongo_uri: str, users: Users
) -> Iterator[list[Wire]]:
    """A connection to each worker of a server that no test changes."""
    with (
        serving(mongo_uri, users.collection.database.name, request.param) as server,
        one_wire_per_worker(server, 2) as wires,
    ):
        yield wires


def ask(wire: Wire, path: str, login: str | None = None, method: str = "GET") -> Response:
    headers = {}
    if login is not None:
        headers["authorization"] = f"Basic {b64encode(login.encode()).decode()}"
    wire.send(request(method, path, **headers))
    return wire.read(method)


@contextmanager
def one_wire_per_worker(server: Server, workers: int) -> Iterator[list[Wire]]:
    """Connections, each to another worker."""
    with ExitStack() as stack:
        wires: dict[int, Wire] = {}

        def connect() -> bool:
            wire = server.connect()
            number = wire.get("/ping").json["worker"]
            if number in wires:
                wire.socket.close()
            else:
                wires[number] = stack.enter_context(wire)
            return len(wires) == workers

        eventually(connect)
        yield list(wires.values())


def log_in(wire: Wire, user: str) -> str:
    """The token that a server gives for the password, once it has found its database."""
    token = eventually(lambda: ask(wire, f"/roles/{user}", f"{user}:secret")["auth-token"])
    assert token is not None
    return token


def use(wire: Wire, user: str, token: str) -> int:
    return ask(wire, f"/roles/{user}", f"{user}:{token}").status


def test_a_token_is_one_for_all_workers_and_ends_for_all_at_once(
    two_workers: list[Wire], users: Users
) -> None:
    one, two = two_workers
    user = users.add()
    path, login = f"/tokens/{user}", f"{user}:secret"
    log_in(one, user)
    first, second = (ask(wire, path, login).json for wire in (one, two))
    assert first == second
    token = first["auth_token"]
    assert [use(wire, user, token) for wire in (one, two)] == [200, 200]
    assert ask(one, path, f"{user}:{token}", "DELETE").status == 204
    assert [use(wire, user, token) for wire in (two, one)] == [401, 401]
    fresh = ask(two, path, login, "POST").json["auth_token"]
    assert fresh != token
    assert use(one, user, fresh) == 200


def test_a_user_who_is_deleted_in_the_database_has_no_token_any_more(
    two_workers: list[Wire], users: Users
) -> None:
    user = users.add()
    for wire in two_workers:
        token = log_in(wire, user)
        await_stream(users, wire)
    assert [use(wire, user, token) for wire in two_workers] == [200, 200]

    users.remove(user)

    for wire in two_workers:
        eventually(lambda wire=wire: use(wire, user, token) == 401)  # type: ignore[misc]


def await_stream(users: Users, wire: Wire) -> None:
    """Wait until changes behind the back of the server are heard of: users made for it end."""
    tokens: list[tuple[str, str]] = []

    def is_heard() -> bool:
        probe = users.add()
        tokens.append((probe, log_in(wire, probe)))
        users.remove(probe)
        return any(use(wire, *token) == 401 for token in tokens)

    eventually(is_heard)


@pytest.mark.parametrize("manager", list(MANAGERS))
def test_another_instance_learns_of_an_end(mongo_uri: str, users: Users, manager: str) -> None:
    database, user = users.collection.database.name, users.add()
    with (
        serving(mongo_uri, database, manager, workers=1) as one,
        serving(mongo_uri, database, manager, workers=1) as two,
        one.connect() as here,
        two.connect() as there,
    ):
        log_in(there, user)
        token = log_in(here, user)
        assert use(there, user, token) == (401 if manager == "random" else 200)
        assert ask(here, f"/tokens/{user}", f"{user}:{token}", "DELETE").status == 204
        eventually(lambda: use(there, user, token) == 401)


def test_a_worker_that_is_killed_comes_back_and_knows_the_tokens(
    mongo_uri: str, users: Users
) -> None:
    user = users.add()
    with serving(mongo_uri, users.collection.database.name, "random") as server:
        with one_wire_per_worker(server, 2) as wires:
            token = log_in(wires[0], user)
        server.workers()[0].kill()
        eventually(lambda: len(server.named("worker-started")) == 3)
        with one_wire_per_worker(server, 2) as wires:
            eventually(lambda: [use(wire, user, token) for wire in wires] == [200, 200])


def test_as_long_as_revocations_could_not_be_read_a_token_is_neither_taken_nor_refused() -> None:
    """A database that is down is 500, never 401, never 200."""
    settings = {
        **MANAGERS["signed"],
        "jwtAuthenticationMechanism": {"enabled": True, "key": KEY, "issuer": "docgraph"},
        "mclient": {"connection-string": "mongodb://127.0.0.1:9/"},
        "mongo": {"enabled": False},
    }
    claims = {"sub": "ada", "iss": "docgraph", "exp": time.time() + 3600, "jti": "x"}
    token = jwt.encode(claims, KEY, algorithm="HS256")
    with run_server(settings) as server, server.connect() as wire:
        assert wire.get("/roles/ada", authorization=f"Bearer {token}").status == 500
        assert wire.get("/roles/ada", authorization=f"Bearer {token}x").status == 401
        assert wire.get("/ping").status == 200
