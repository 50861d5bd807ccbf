"""Three instances behind HAProxy are upgraded one at a time, beside clients that read and write.

    make drill-rolling                        from this version to one with the next number
    EARLIER=../other make drill-rolling       from the version of another checkout to this one

Needs `haproxy` (Debian: haproxy). 16 clients use the proxy, somebody changes definitions, rules and
logins at one instance and looks at all of them, and one follows a change stream. No client sees an
error, nothing that was acknowledged is lost, and who asks 2 s after a change sees it, everywhere.
Another time an instance is killed: then clients see errors, after which they know what to do. And
the primary of the database is killed: requests wait for the next one, at every instance.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pymongo import MongoClient
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from docgraph.embedded.mongod_setup import MongodOptions
from tests.drills.elections import await_successor
from tests.drills.fleet import SOURCES, Fleet, copy_as_next_version, has_delay, read_version
from tests.drills.rolling_changes import PASSWORD, Changes, basic, build_user
from tests.drills.rolling_clients import Account, Clients
from tests.drills.server import wait_until
from tests.programs import require
from tests.replica_set import ReplicaSet, kill

pytestmark = pytest.mark.timeout(300)

LONGEST_SPREAD = 2.0  # seconds
SETTLED = 2.0  # seconds of load before, between and after
USERS = 400
STREAM = "/things/_streams/all?event-ids=true"


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ReplicaSet]:
    require("haproxy")
    options = MongodOptions(cache_gb=0.25, oplog_mb=64)
    with ReplicaSet(tmp_path_factory.mktemp("set"), options) as members:
        yield members


@pytest.fixture
def fleet(members: ReplicaSet, tmp_path: Path) -> Fleet:
    with MongoClient[dict[str, Any]](members.uri) as mongo:
        mongo.drop_database("docgraph")
        fill(mongo)
    options = {
        "mclient__connection_string": members.uri,
        "jwtTokenManager__key": "a key that all of the instances have",
        "logging__format": "json",
        "logging__requests": "false",
    }
    return Fleet(tmp_path, options)


def fill(mongo: MongoClient[dict[str, Any]]) -> None:
    """Users, rules, an app, and a collection with a change stream."""
    db = mongo["docgraph"]
    users = [build_user("admin", "admin"), build_user("client", "client")]
    users.append(build_user("guest", "guest"))
    same = users[0] | {"roles": []}
    db["users"].insert_many(users + [same | {"_id": f"user{n}"} for n in range(USERS)])
    predicate = "path-prefix('/things') or path-prefix('/graphql/things')"
    upsert = {"mongo": {"allowWriteMode": True}}
    db["acl"].insert_one({"_id": "client", "roles": ["client"], "predicate": predicate, **upsert})
    everybody = {"_id": "roles", "roles": ["$authenticated"], "predicate": "path-prefix('/roles')"}
    db["acl"].insert_one(everybody)
    db.create_collection("things")
    stream = {"uri": "all", "stages": [{"_$match": {"operationType": "insert"}}]}
    db["_properties"].insert_one({"_id": "_properties.things", "streams": [stream]})
    db["gql-apps"].insert_one(
        {
            "_id": "things",
            "descriptor": {"uri": "things", "name": "things", "enabled": True},
            "schema": "type Query { things: [Thing] } type Thing { mark: String }",
            "mappings": {
                "Query": {
                    "things": {"db": "docgraph", "collection": "things", "find": {}, "limit": 5}
                }
            },
        }
    )


class Follower(threading.Thread):
    """Follows the change stream through the proxy, and goes on after the last event it got."""

    def __init__(self, port: int, authorization: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.connections = 0
        self.failure: Exception | None = None
        self._is_over = False
        self._url = f"ws://127.0.0.1:{port}{STREAM}"
        self._headers = {"Authorization": authorization}
        self._last: Any = None

    def stop(self) -> None:
        self._is_over = True
        self.join()

    def run(self) -> None:
        try:
            while not self._is_over:
                self._follow()
        except Exception as error:
            self.failure = error

    def _follow(self) -> None:
        after = "" if self._last is None else f"&resume-after={quote(json.dumps(self._last))}"
        try:
            with connect(self._url + after, additional_headers=self._headers) as socket:
                self.connections += 1
                while not self._is_over:
                    try:
                        event = json.loads(socket.recv(timeout=0.5))
                    except TimeoutError:
                        continue
                    self._last = event["_id"]
                    self.ids.append(str(event["documentKey"]["_id"]))
        except ConnectionClosed:
            pass  # the instance stops: another one goes on
        except InvalidStatus as refused:
            if refused.response.status_code not in (502, 503):
                raise


@contextmanager
def load(fleet: Fleet, members: ReplicaSet) -> Iterator[tuple[Account, Changes, Follower]]:
    """Clients, changes and a follower; in the end nothing is lost."""
    client = basic("client", PASSWORD)
    changes = Changes(fleet, basic("admin", PASSWORD))
    follower = Follower(fleet.port, client)
    follower.start()
    wait_until(lambda: follower.connections > 0 or not follower.is_alive())
    try:
        with Clients(fleet.port, client).calling() as seen, changes.going_on():
            time.sleep(SETTLED)
            yield seen, changes, follower
            time.sleep(SETTLED)
        with MongoClient[dict[str, Any]](members.uri) as mongo:
            things = list(mongo["docgraph"]["things"].find())
        wait_until(lambda: len(follower.ids) >= len(things) or not follower.is_alive(), 20)
    finally:
        follower.stop()
    print(f"\n{seen.describe()}\n{changes.describe()}")
    check_stored(things, seen, follower)
    assert not seen.wrong, seen.wrong[:5]
    assert not changes.failures, changes.failures
    late = [one for one in changes.made if one.seconds > LONGEST_SPREAD]
    assert not late, "\n".join(map(str, late))


def check_stored(things: list[dict[str, Any]], seen: Account, follower: Follower) -> None:
    """What was acknowledged is there once, what was not at most once; every event came once."""
    marks = Counter(one["mark"] for one in things)
    assert {marks[mark] for mark in seen.marks} == {1}
    assert all(marks[mark] <= 1 for mark in seen.doubtful)
    by_id = {str(one["_id"]): one for one in things}
    for id, (least, most) in seen.counts.items():
        assert least <= by_id[id]["n"] <= most, (id, by_id[id]["n"], least, most)
    assert follower.failure is None
    ids = [
        json.loads(one.replace("'", '"'))["$oid"] if "$oid" in one else one for one in follower.ids
    ]
    assert sorted(ids) == sorted(by_id)
    print(
        f"{len(seen.marks)} documents acknowledged, all there; {len(things)} events by "
        f"{follower.connections} connections"
    )


def test_an_upgrade_one_at_a_time_is_seen_by_no_client(
    fleet: Fleet, members: ReplicaSet, tmp_path: Path
) -> None:
    earlier = os.environ.get("EARLIER")
    before = Path(earlier, "src").resolve() if earlier else SOURCES
    after = SOURCES if earlier else copy_as_next_version(tmp_path)
    print(f"\nfrom {read_version(before)} to {read_version(after)}", end="")
    with fleet.running(before), load(fleet, members) as (seen, _, _):
        for instance in fleet.instances:
            instance.stop()
            instance.start(after)
            fleet.await_up(instance)
            time.sleep(SETTLED)
        assert {one.version for one in fleet.instances} == {read_version(after)}
    if has_delay(before):  # else requests were on their way when a listener closed
        assert not seen.unknown
        assert not seen.retried


def test_an_instance_that_is_killed_costs_what_it_was_working_on(
    fleet: Fleet, members: ReplicaSet
) -> None:
    with fleet.running(SOURCES), load(fleet, members) as (seen, _, _):
        victim = fleet.instances[0]
        victim.kill()
        time.sleep(SETTLED)
        victim.start(SOURCES)
        fleet.await_up(victim)
    assert len(seen.unknown) <= 8  # of each client that writes the request that was under way


def test_an_election_costs_no_request(fleet: Fleet, members: ReplicaSet) -> None:
    """With MongoDB's own time until an election (decision 60)."""
    members.be_patient()
    clients = Clients(fleet.port, basic("client", PASSWORD))
    with fleet.running(SOURCES), clients.calling() as seen:
        time.sleep(SETTLED)
        primary, begun = members.await_primary(), time.monotonic()
        kill(primary)
        succession = await_successor(members, primary, begun)
        time.sleep(SETTLED)
    members.start()
    print(f"\n{succession.describe()}; {seen.describe()}")
    assert not seen.wrong, seen.wrong[:5]
    assert not seen.retried
    assert all(one.startswith("create") for one in seen.unknown)
