"""A server that starts before its database, with hosts that are not there, or loses its login.

make drill-beginning            make drill-f06 for one of them
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from docgraph.embedded.mongod_process import Mongod
from docgraph.embedded.mongod_setup import MongodOptions
from tests.drills.server import DrillServer, serving, wait_until
from tests.guarded_mongo import write_key
from tests.replica_set import ReplicaSet

pytestmark = pytest.mark.timeout(300)

MOUNTS = '[{"what": "/drill", "where": "/drill"}]'
THINGS = "/drill/things?pagesize=1"
LONGEST_START, LONGEST_UNTIL_WELL = 10.0, 5.0  # seconds


@pytest.fixture
def members(tmp_path: Path) -> Iterator[ReplicaSet]:
    members = ReplicaSet(tmp_path, MongodOptions(cache_gb=0.25, oplog_mb=64), members=1)
    uri = members.start()
    with MongoClient[dict[str, Any]](uri) as mongo:
        mongo["drill"]["things"].insert_one({"n": 0})
    try:
        yield members
    finally:
        members.stop()


def is_well(server: DrillServer) -> bool:
    return server.ask("GET", THINGS)[0] == 200


def test_f06_the_database_comes_after_the_server(members: ReplicaSet, tmp_path: Path) -> None:
    uri = members.uri
    members.stop()
    begun = time.monotonic()
    with serving(tmp_path, mclient__connection_string=uri, mongo__mongo_mounts=MOUNTS) as server:
        up = time.monotonic() - begun
        first = server.ask("GET", THINGS)
        time.sleep(10)
        later = server.ask("GET", THINGS)
        ping, health = server.ask("GET", "/ping"), server.ask("GET", "/health/db")
        members.start()
        well = wait_until(lambda: is_well(server))
    print(f"\nf06, up after {up:.1f} s; {first[0]} in {first[2]:.1f} s", end="")
    print(f", 10 s later {later[0]} in {later[2]:.2f} s; well {well:.2f} s after the database")
    assert up < LONGEST_START
    assert (first[0], later[0], ping[0], health[0]) == (500, 500, 200, 503)
    assert first[2] < 16
    assert later[2] < 0.5
    assert well < LONGEST_UNTIL_WELL


@pytest.mark.parametrize("other", ["nowhere.invalid:27017", "127.0.0.1:9"])
def test_f20_a_host_is_not_there(members: ReplicaSet, tmp_path: Path, other: str) -> None:
    uri = members.uri.replace("mongodb://", f"mongodb://{other},")
    begun = time.monotonic()
    with serving(tmp_path, mclient__connection_string=uri, mongo__mongo_mounts=MOUNTS) as server:
        up = time.monotonic() - begun
        well = wait_until(lambda: is_well(server))
        times = [server.ask("GET", THINGS)[2] for _ in range(20)]
    print(f"\nf20, {other}: up after {up:.1f} s, answers after {well:.1f} s", end="")
    print(f", then within {max(times) * 1000:.0f} ms")
    assert up + well < LONGEST_START
    assert max(times) < 2.0


@contextmanager
def guarded_database(directory: Path) -> Iterator[str]:
    """A `mongod` that asks for logins; its address, which stays the same at every start."""
    key = write_key(directory.with_suffix(".key"))
    options = MongodOptions(cache_gb=0.25, is_member=False, key_file=key)
    node = Mongod(directory, options, lambda message: None)
    try:
        node.launch(time.monotonic() + options.start_timeout)
        yield node.host
    finally:
        node.stop()


def create_user(address: str, password: str) -> None:
    """The first user, whom anybody on the machine may make."""
    with MongoClient[dict[str, Any]](address) as mongo:
        mongo.admin.command("createUser", "app", pwd=password, roles=["root"])


def change_password(address: str, old: str, new: str) -> None:
    with MongoClient[dict[str, Any]](f"mongodb://app:{old}@{address}/") as mongo:
        mongo["drill"]["things"].insert_one({"n": 0})
        mongo.admin.command("updateUser", "app", pwd=new)


def test_f22_the_login_is_changed_under_a_running_server(tmp_path: Path) -> None:
    """Connections that are open go on; new ones are refused until the server has the new one."""
    old, new = "first-secret", "second-secret"
    data = tmp_path / "data"
    options = {"mongo__mongo_mounts": MOUNTS}
    with guarded_database(data) as address:
        create_user(address, old)
    uri = f"mongodb://app:{old}@{address}/"
    with ExitStack() as stack:
        database = stack.enter_context(ExitStack())
        address = database.enter_context(guarded_database(data))
        server = stack.enter_context(serving(tmp_path, mclient__connection_string=uri, **options))
        wait_until(lambda: server.ask("PUT", "/drill")[0] in (200, 201))
        change_password(address, old, new)
        meanwhile = server.ask("GET", THINGS)
        database.close()
        database.enter_context(guarded_database(data))
        time.sleep(3)
        restarted = server.ask("GET", THINGS)
        log = server.log.read_text()
    print(f"\nf22, the password is changed: {meanwhile[0]} on open connections", end="")
    print(f"; new ones: {restarted[0]} in {restarted[2]:.2f} s")
    assert meanwhile[0] == 200
    assert restarted[0] == 500
    assert restarted[2] < 0.5
    assert old not in log
    assert new not in log
    with guarded_database(data):
        begun = time.monotonic()
        renewed = uri.replace(old, new)
        with serving(tmp_path, mclient__connection_string=renewed, **options) as server:
            wait_until(lambda: is_well(server))
            took = time.monotonic() - begun
    print(f"with the new password it answers {took:.1f} s after its start")
    assert took < LONGEST_START
