"""Tokens over real processes: two workers of one instance, two instances on one database.

Decisions 32 and 33: a token is one for all workers, its end holds for all of them at once and on
other instances within a second.
"""

from __future__ import annotations

import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import bcrypt
import jwt
import pytest
from pymongo import MongoClient

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


@pytest.fixture
def users(mongo_client: MongoClient[dict[str, Any]], database: str) -> Any:
    """The users collection, with `ada` in it."""
    collection = mongo_client[database]["users"]
    password = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    collection.insert_one({"_id": "ada", "password": password, "roles": ["user"]})
    return collection


def ask(wire: Wire, path: str, login: str | None = None, method: str = "GET") -> Response:
    headers = {}
    if login is not None:
        headers["authorization"] = f"Basic {b64encode(login.encode()).decode()}"
    wire.send(request(method, path, **headers))
    return wire.read(method)


@contextmanager
def one_wire_per_worker(server: Server, count: int) -> Iterator[list[Wire]]:
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
            return len(wires) == count

        eventually(connect, 30)
        yield list(wires.values())


@pytest.mark.parametrize("manager", list(MANAGERS))
def test_a_token_is_one_for_all_workers_and_ends_for_all_at_once(
    mongo_uri: str, database: str, users: Any, manager: str
) -> None:
    with (
        serving(mongo_uri, database, manager) as server,
        one_wire_per_worker(server, 2) as (one, two),
    ):
        eventually(lambda: ask(one, "/roles/ada", "ada:secret")["auth-token"])
        first, second = (ask(wire, "/tokens/ada", "ada:secret").json for wire in (one, two))
        assert first == second
        token = first["auth_token"]
        assert [ask(wire, "/roles/ada", f"ada:{token}").status for wire in (one, two)] == [200, 200]
        assert ask(one, "/tokens/ada", f"ada:{token}", "DELETE").status == 204
        assert [ask(wire, "/roles/ada", f"ada:{token}").status for wire in (two, one)] == [401, 401]
        fresh = ask(two, "/tokens/ada", "ada:secret", "POST").json["auth_token"]
        assert fresh != token
        assert ask(one, "/roles/ada", f"ada:{fresh}").status == 200


@pytest.mark.parametrize("manager", list(MANAGERS))
def test_another_instance_learns_of_an_end_within_a_second(
    mongo_uri: str, database: str, users: Any, manager: str
) -> None:
    with (
        serving(mongo_uri, database, manager, workers=1) as one,
        serving(mongo_uri, database, manager, workers=1) as two,
        one.connect() as here,
        two.connect() as there,
    ):
        eventually(lambda: ask(here, "/roles/ada", "ada:secret")["auth-token"])
        eventually(lambda: ask(there, "/roles/ada", "ada:secret")["auth-token"])
        token = ask(here, "/roles/ada", "ada:secret")["auth-token"]
        known = ask(there, "/roles/ada", f"ada:{token}").status
        assert known == (401 if manager == "random" else 200)
        assert ask(here, "/tokens/ada", f"ada:{token}", "DELETE").status == 204
        ended = time.monotonic()
        eventually(lambda: ask(there, "/roles/ada", f"ada:{token}").status == 401)
        assert time.monotonic() - ended < 15


@pytest.mark.parametrize("manager", list(MANAGERS))
def test_a_user_who_is_deleted_in_the_database_has_no_token_a_second_later(
    mongo_uri: str, database: str, users: Any, manager: str
) -> None:
    with (
        serving(mongo_uri, database, manager) as server,
        one_wire_per_worker(server, 2) as wires,
    ):
        eventually(lambda: all(ask(w, "/roles/ada", "ada:secret")["auth-token"] for w in wires))
        token = ask(wires[0], "/roles/ada", "ada:secret")["auth-token"]
        assert [ask(wire, "/roles/ada", f"ada:{token}").status for wire in wires] == [200, 200]
        for wire in wires:
            probe_stream(users, wire)
        users.delete_one({"_id": "ada"})
        deleted = time.monotonic()
        for wire in wires:
            eventually(lambda wire=wire: ask(wire, "/roles/ada", f"ada:{token}").status == 401)
        assert time.monotonic() - deleted < 15


def probe_stream(users: Any, wire: Wire) -> None:
    """Wait until changes behind the back of the server are heard of."""
    password = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()

    def is_heard() -> bool:
        users.insert_one({"_id": "probe", "password": password, "roles": []})
        token = ask(wire, "/roles/probe", "probe:secret")["auth-token"]
        users.delete_one({"_id": "probe"})
        time.sleep(0.2)
        return ask(wire, "/roles/probe", f"probe:{token}").status == 401

    eventually(is_heard, 30)


def test_a_worker_that_is_killed_comes_back_and_knows_the_tokens(
    mongo_uri: str, database: str, users: Any
) -> None:
    with serving(mongo_uri, database, "random") as server:
        with one_wire_per_worker(server, 2) as wires:
            eventually(lambda: ask(wires[0], "/roles/ada", "ada:secret")["auth-token"])
            token = ask(wires[0], "/roles/ada", "ada:secret")["auth-token"]
        server.workers()[0].kill()
        with one_wire_per_worker(server, 2) as wires:
            assert [ask(w, "/roles/ada", f"ada:{token}").status for w in wires] == [200, 200]


def test_as_long_as_revocations_could_not_be_read_a_token_is_neither_taken_nor_refused() -> None:
    """A database that is down is 500, never 401, never 200."""
    settings = {
        **MANAGERS["signed"],
        "jwtAuthenticationMechanism": {"enabled": True, "key": KEY, "issuer": "docgraph"},
        "mclient": {"connection-string": "mongodb://127.0.0.1:9/"},
        "mongo": {"enabled": False},
    }
    claims = {"sub": "ada", "iss": "docgraph", "exp": time.time() + 60, "jti": "x"}
    token = jwt.encode(claims, KEY, algorithm="HS256")
    with run_server(settings) as server, server.connect() as wire:
        assert wire.get("/roles/ada", authorization=f"Bearer {token}").status == 500
        assert wire.get("/roles/ada", authorization=f"Bearer {token}x").status == 401
        assert wire.get("/ping").status == 200
