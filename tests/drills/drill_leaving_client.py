"""Clients that leave while their change of a password, or their removal of a user, is stored.

    make drill-leaving-client       ROUNDS=150 is the default

On a standalone, where no change stream tells of anything afterwards, and with users whose name is
not their `_id`. Each request is cut off a little later than the one before it: before it is read,
while it is stored, after it was answered. Then every user's token is tried: it is good if and only
if the change was not stored.
"""

from __future__ import annotations

import http.client
import json
import os
import socket
import struct
import time
from base64 import b64encode
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import bcrypt
import pytest
from bson import ObjectId
from pymongo import MongoClient

from docgraph.embedded.mongod_process import Mongod
from docgraph.embedded.mongod_setup import MongodOptions, build_uri
from tests.drills.server import DrillServer, serving

pytestmark = pytest.mark.timeout(300)

ROUNDS = int(os.environ.get("ROUNDS", "150"))
TOKENS = {
    "random": {"rndTokenManager__enabled": "true"},
    "signed": {
        "rndTokenManager__enabled": "false",
        "jwtTokenManager__enabled": "true",
        "jwtTokenManager__key": "a key of more than thirty-two bytes for drills",
    },
}
REALM = {
    "fullAuthorizer__authentication_required": "true",
    "basicAuthMechanism__enabled": "true",
    "tokenBasicAuthMechanism__enabled": "true",
    "bruteForceAttackGuard__enabled": "false",
    "dbRealmAuthenticator__enabled": "true",
    "dbRealmAuthenticator__users_db": "realm",
    "dbRealmAuthenticator__prop_id": "email",
    "dbRealmAuthenticator__bcrypt_complexity": "4",
    "dbRealmAuthenticator__create_user": "false",
    "mongo__mongo_mounts": json.dumps([{"what": "/realm", "where": "/"}]),
}
User = dict[str, Any]


@pytest.fixture
def standalone(tmp_path: Path) -> Iterator[str]:
    """The address of a `mongod` that is no member of a set."""
    options = MongodOptions(cache_gb=0.25, is_member=False)
    node = Mongod(tmp_path / "standalone", options, lambda message: None)
    try:
        node.launch(time.monotonic() + options.start_timeout)
        yield build_uri(node.host)
    finally:
        node.stop()


@pytest.mark.parametrize("tokens", TOKENS)
@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
def test_a_client_that_leaves_leaves_no_token_alive(
    standalone: str, tmp_path: Path, tokens: str, method: str
) -> None:
    with MongoClient[User](standalone) as mongo:
        users = prepare(mongo)
        options = {"mclient__connection_string": standalone, **REALM, **TOKENS[tokens]}
        with serving(tmp_path, **options) as server:
            for user in users:
                user["token"] = log_in(server, user["email"])
            root, *others = users
            usual = max(send(server, root, one, method, None) for one in others[:5])
            for number, user in enumerate(others[5:]):
                send(server, root, user, method, 1.5 * usual * number / ROUNDS)
            time.sleep(3)  # what is under way ends
            seen = Counter(look(server, mongo, user) for user in others)
    print(f"\n{method}, {tokens} tokens: a write takes {usual * 1000:.0f} ms; {dict(seen)}")
    assert set(seen) <= {("stored", 401), ("not stored", 200)}
    assert seen["stored", 401] > ROUNDS // 10
    assert seen["not stored", 200] > 0


def prepare(mongo: MongoClient[User]) -> list[User]:
    password = bcrypt.hashpw(b"secret", bcrypt.gensalt(4)).decode()
    users: list[User] = [
        {"_id": ObjectId(), "email": f"u{n}@example.org", "password": password, "roles": ["a"]}
        for n in range(ROUNDS + 6)
    ]
    mongo["realm"]["users"].drop()
    mongo["realm"]["users"].insert_many(users)
    return users


def log_in(server: DrillServer, name: str) -> str:
    status, headers = ask(server, name, "secret")
    assert status == 200, status
    token = headers["auth-token"]
    assert token
    return str(token)


def ask(server: DrillServer, name: str, password: str) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    try:
        connection.request("GET", "/users?pagesize=0", headers=authorize(name, password))
        response = connection.getresponse()
        response.read()
        return response.status, response.headers
    finally:
        connection.close()


def authorize(name: str, password: str) -> dict[str, str]:
    return {"Authorization": "Basic " + b64encode(f"{name}:{password}".encode()).decode()}


def send(server: DrillServer, root: User, user: User, method: str, seconds: float | None) -> float:
    """Ask for the change, and leave after so many seconds or with the answer; how long it took."""
    body = b'{"password": "another one"}' if method == "PATCH" else b""
    headers = authorize(root["email"], root["token"])
    head = (
        f"{method} /users/{user['_id']} HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/json\r\n"
        f"Authorization: {headers['Authorization']}\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    begun = time.monotonic()
    with socket.create_connection(("127.0.0.1", server.port), timeout=30) as connection:
        connection.sendall(head.encode() + body)
        if seconds is None:
            assert connection.recv(1000).startswith(b"HTTP/1.1 20")
        else:
            time.sleep(seconds)
            cut = struct.pack("ii", 1, 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, cut)
    return time.monotonic() - begun


def look(server: DrillServer, mongo: MongoClient[User], user: User) -> tuple[str, int]:
    """Whether the change was stored, and how the token of the user is answered."""
    found = mongo["realm"]["users"].find_one({"_id": user["_id"]})
    is_stored = found is None or found["password"] != user["password"]
    return "stored" if is_stored else "not stored", ask(server, user["email"], user["token"])[0]
