"""The same requests to a running RESTHeart and to docgraph with the converted configuration.

Needs `RESTHEART_HOME`, a directory with `restheart.jar`, and a Java runtime. Both servers use one
database. For each caller it prints how many requests show more, fewer or other things; more must be
zero, unless the report of the migration has a line in its first list.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2 as httpx
import pytest
from pymongo import MongoClient
from tests.http.realms import hashed

Mongo = MongoClient[dict[str, Any]]

PROGRAM = [sys.executable, "-m", "docgraph"]
HOME = os.environ.get("RESTHEART_HOME", "")
USERS = {
    "root": ["admin"],
    "ada": ["user"],
    "bob": ["user", "editor"],
    "eve": ["editor", "user"],
    "tim": ["tied"],
    "uma": ["reader"],
    "vic": ["writer"],
    "wes": [],
    "xia": ["stranger"],
    "yan": ["reader", "writer"],
}
CALLERS = (*USERS, "anonymous", "wrong")  # twelve
COLLECTIONS = ("notes", "open", "missing")
PATHS = (
    *(f"/{name}{rest}" for name in COLLECTIONS for rest in ("", "/a", "/_size", "?page=0")),
    *(f"/notes?{query}" for query in ("filter={'owner':'ada'}", "keys={'n':1}", "sort=-n")),
    *("/", "/users", "/users/ada", "/acl", "/ping", "/roles/ada", "/token", "/graphql/none"),
    *("/notes/_aggrs/all", "/notes/_indexes", "/_schemas", "/notes/_meta"),
)


def build_rules() -> list[dict[str, Any]]:
    everything = "path-prefix('/notes')"
    own = {"readFilter": {"owner": "@user._id"}}
    return [
        {"_id": "1", "roles": ["user"], "predicate": everything, "priority": 5, "mongo": own},
        {"_id": "2", "roles": ["editor"], "predicate": everything, "priority": 1},
        {"_id": "3", "roles": ["tied"], "predicate": everything, "mongo": {"readFilter": {"n": 1}}},
        {"_id": "4", "roles": ["tied"], "predicate": everything, "mongo": {"readFilter": {"n": 2}}},
        {"_id": "5", "roles": ["reader"], "predicate": f"{everything} and method(GET)"},
        {"_id": "6", "roles": ["writer"], "predicate": f"{everything} and method(POST)"},
        {"_id": "7", "roles": ["$unauthenticated"], "predicate": "path('/open')"},
    ]


def fill(db: Any) -> None:
    db["users"].insert_many(
        {"_id": name, "roles": roles, "password": hashed("secret")} for name, roles in USERS.items()
    )
    db["acl"].insert_many(build_rules())
    db["notes"].insert_many([{"_id": "a", "owner": "ada", "n": 1}, {"_id": "b", "owner": "bob"}])
    db["open"].insert_one({"_id": "a"})


@contextmanager
def serving(command: list[str], port: int, **more: Any) -> Iterator[str]:
    """Run a server until `/ping` answers; end it afterwards."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, **more)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + 90
        while True:
            try:
                httpx.get(f"{address}/ping", timeout=2)
                break
            except httpx.HTTPError:
                assert process.poll() is None, f"{command[0]} ended"
                assert time.monotonic() < deadline, f"{command[0]} does not answer"
                time.sleep(0.2)
        yield address
    finally:
        process.terminate()
        process.wait(30)


def list_headers(caller: str) -> dict[str, str]:
    if caller == "anonymous":
        return {}
    name, password = ("ada", "no") if caller == "wrong" else (caller, "secret")
    return {"authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


def summarise(reply: httpx.Response) -> tuple[int, list[str]]:
    """The status, and the ids of what is shown."""
    try:
        content = reply.json()
    except ValueError:
        content = None
    rows = content if isinstance(content, list) else [content]
    ids = [str(row.get("_id")) for row in rows if isinstance(row, dict) and "_id" in row]
    return reply.status_code, ids if reply.is_success else []


def compare(theirs: tuple[int, list[str]], ours: tuple[int, list[str]]) -> str:
    if theirs == ours:
        return "equal"
    was_allowed, is_allowed = theirs[0] < 400, ours[0] < 400
    if (is_allowed and theirs[0] in (401, 403)) or set(ours[1]) - set(theirs[1]):
        return "more"
    if (was_allowed and ours[0] in (401, 403)) or set(theirs[1]) - set(ours[1]):
        return "fewer"
    return "different"


def test_lockstep(mongo_uri: str, mongo_client: Mongo, tmp_path: Path) -> None:
    if not HOME or not shutil.which("java"):
        pytest.fail("set RESTHEART_HOME to a directory with restheart.jar, and install Java")
    name = f"drill_{os.getpid()}"
    fill(mongo_client[name])
    overrides = tmp_path / "overrides.yml"
    sections = ("mongoRealmAuthenticator/users", "mongoAclAuthorizer/acl")
    overrides.write_text(
        f"/mclient/connection-string: '{mongo_uri}'\n/http-listener/port: 18080\n"
        f"/mongo/mongo-mounts: [{{what: /{name}, where: /}}]\n/graphql/db: {name}\n"
        + "".join(f"/{section}-db: {name}\n" for section in sections)
    )
    new = tmp_path / "docgraph.yml"
    migrate = [*PROGRAM, "migrate", "restheart", "-o", str(overrides), "--output", str(new)]
    report = subprocess.run(migrate, capture_output=True, text=True, check=False)
    assert report.returncode in (0, 3), report.stderr
    print(report.stdout)
    java = ["java", "-jar", "restheart.jar", "-o", str(overrides)]
    ours = [*PROGRAM, "serve", "-c", str(new), "--set", "/http-listener/port=18081"]
    ours += ["--set", "/bruteForceAttackGuard/enabled=false", "--set", "/logging/level=error"]
    counts: dict[str, Counter[str]] = {caller: Counter() for caller in CALLERS}
    wider: set[tuple[str, str]] = set()
    try:
        with serving(java, 18080, cwd=HOME) as old, serving(ours, 18081) as docgraph:
            for caller in CALLERS:
                for path in PATHS:
                    pair = [
                        summarise(httpx.get(f"{one}{path}", headers=list_headers(caller)))
                        for one in (old, docgraph)
                    ]
                    outcome = compare(*pair)
                    counts[caller][outcome] += 1
                    wider |= {(caller, path)} if outcome == "more" else set()
                    if outcome != "equal":
                        print(f"{outcome:10} {caller:10} GET {path}: {pair[0]} {pair[1]}")
    finally:
        mongo_client.drop_database(name)
    for caller, found in counts.items():
        print(f"{caller:10}", dict(found))
    assert sum(map(Counter.total, counts.values())) >= 300
    # Rules for everyone also concern authenticated callers: the first list has a line for it.
    assert "public-rule:permission_7" in report.stdout
    unreported = {one for one in wider if not one[1].startswith("/open")}
    assert not unreported
    assert not {"anonymous", "wrong"} & {caller for caller, _ in wider}
