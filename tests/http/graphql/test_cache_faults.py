"""Cached answers while the database fails, and with several workers (52)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import pytest
from pymongo import MongoClient

from docgraph.exchange import Write, WriteKind
from docgraph.observe.engine_events import WatchReset
from docgraph.store.change_stream import ChangeEvents, RawEvent
from tests.databases import drop, new_name
from tests.http.cache_harness import (
    CACHE,
    FIRST,
    HIT,
    PATIENT,
    ask_until,
    ask_until_hit,
    find_graphql,
    status_of,
)
from tests.http.harness import (
    CHEAP,
    OPEN,
    Document,
    Mongo,
    Service,
    eventually,
    identity,
    listening,
    merge,
    running,
    starting,
)
from tests.replica_set import ReplicaSet

pytestmark = pytest.mark.anyio

SCHEMA = "type Query { things: [Thing] } type Thing { n: Int }"
QUERY = "{ things { n } }"
LOST = 286  # ChangeStreamHistoryLost


async def prepare(service: Service) -> None:
    service.insert("things", {"_id": 1, "n": 1})
    mapped = {"Query": {"things": service.find("things", {})}}
    await service.define("things", SCHEMA, mapped, **CACHE)


def write(service: Service, number: int) -> None:
    """Change the document straight in the database."""
    service.mongo[service.db].things.update_one({"_id": 1}, {"$set": {"n": number}})


def things(number: int) -> Document:
    return {"things": [{"n": number}]}


@pytest.fixture
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, PATIENT, identity("admin")) as service:
        await prepare(service)
        await ask_until_hit(service, "things", QUERY)
        yield service


@contextmanager
def failing(mongo: Mongo, db: str, **failure: object) -> Iterator[None]:
    """Let the cursors of a database fail that follow all of it."""
    data = {"failCommands": ["getMore"], "namespace": f"{db}.$cmd.aggregate", **failure}
    mongo.admin.command({"configureFailPoint": "failCommand", "mode": "alwaysOn", "data": data})
    try:
        yield
    finally:
        mongo.admin.command({"configureFailPoint": "failCommand", "mode": "off"})


async def test_a_standalone_has_no_cache(standalone_uri: str) -> None:
    with MongoClient[Document](standalone_uri, serverMonitoringMode="poll") as mongo:
        async with running(mongo, standalone_uri, PATIENT, identity("admin")) as service:
            await prepare(service)
            assert status_of(await service.query("things", QUERY)) == FIRST
            async with asyncio.timeout(60):
                while True:
                    reply = await service.query("things", QUERY)
                    assert reply.data == things(1)
                    if status_of(reply) == "docgraph; fwd=bypass; detail=standalone":
                        break
                    assert status_of(reply) == "docgraph; fwd=bypass; detail=starting"


async def test_reads_from_secondaries_are_not_cached(mongo_client: Mongo, mongo_uri: str) -> None:
    uri = f"{mongo_uri}&readPreference=secondaryPreferred"
    async with running(mongo_client, uri, PATIENT, identity("admin")) as service:
        await prepare(service)
        reply = await service.query("things", QUERY)
        assert status_of(reply) == "docgraph; fwd=bypass; detail=read-preference"


async def test_a_lost_resume_point_empties_the_cache(service: Service) -> None:
    with listening(WatchReset) as resets, failing(service.mongo, service.db, errorCode=LOST):
        await eventually(lambda: resets)
        write(service, 2)
        assert (await service.query("things", QUERY)).data == things(2)
    assert (await ask_until_hit(service, "things", QUERY)).data == things(2)


async def test_a_slow_stream_bypasses_the_cache(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = find_graphql(service).watch._watches[service.db]
    with (
        monkeypatch.context() as patch,
        failing(service.mongo, service.db, blockConnection=True, blockTimeMS=1_000),
    ):
        patch.setattr(watch, "_max_lag", 0.5)
        async with asyncio.timeout(60):
            while True:
                reply = await service.query("things", QUERY)
                if status_of(reply) == "docgraph; fwd=bypass; detail=lag":
                    break
                await asyncio.sleep(0.01)
    assert (await ask_until_hit(service, "things", QUERY)).data == things(1)


async def test_a_killed_cursor_misses_nothing(service: Service) -> None:
    for number in range(2, 7):
        await ask_until_hit(service, "things", QUERY)
        await asyncio.to_thread(kill_cursors, service)
        write(service, number)
        await ask_until(service, "things", QUERY, things(number))


def kill_cursors(service: Service) -> None:
    """Kill the cursors that follow the whole database."""
    namespace = f"{service.db}.$cmd.aggregate"
    stages: list[Document] = [
        {"$currentOp": {"allUsers": True, "idleCursors": True}},
        {"$match": {"ns": namespace, "cursor.cursorId": {"$exists": True}}},
    ]
    found = [one["cursor"]["cursorId"] for one in service.mongo.admin.aggregate(stages)]
    if found:
        service.mongo[service.db].command({"killCursors": "$cmd.aggregate", "cursors": found})


async def test_a_dropped_database_empties_the_cache(service: Service) -> None:
    with listening(WatchReset):
        await asyncio.to_thread(service.mongo.drop_database, service.db)
        service.insert("things", {"_id": 1, "n": 2})
        mapped = {"Query": {"things": service.find("things", {})}}
        await service.define("things", SCHEMA, mapped, **CACHE)
        await ask_until(service, "things", QUERY, things(2))
    await ask_until_hit(service, "things", QUERY)


async def test_the_cache_is_emptied_when_another_primary_is_elected(
    replica_set: ReplicaSet,
) -> None:
    uri = await asyncio.to_thread(replica_set.start)
    with MongoClient[Document](uri) as mongo:
        async with running(mongo, uri, PATIENT, identity("admin")) as service:
            await prepare(service)
            await ask_until_hit(service, "things", QUERY)
            answers = find_graphql(service)._cache.answers
            with listening(WatchReset) as resets:
                await asyncio.to_thread(replica_set.step_down)
                await eventually(lambda: resets, 60)
            assert not len(answers)
            await asyncio.to_thread(replica_set.await_primary)
            await asyncio.to_thread(write, service, 2)
            await ask_until(service, "things", QUERY, things(2))
            await ask_until_hit(service, "things", QUERY)


# --- several workers ------------------------------------------------------------------------------


@pytest.fixture
async def workers(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[tuple[Service, Service]]:
    """Two workers of one instance, with an answer in the cache of each."""
    db = new_name()
    own: Document = {"graphql": {"db": db}, "mclient": {"connection-string": mongo_uri}}
    settings = merge(OPEN, CHEAP, own, PATIENT, identity("admin"))
    try:
        async with starting(mongo_uri, settings, workers=2) as started:
            one, two = (Service(app, client, mongo_client, db) for app, client in started)
            await prepare(one)
            await ask_until_hit(one, "things", QUERY)
            await ask_until_hit(two, "things", QUERY)
            yield one, two
    finally:
        drop(mongo_client, db)


async def write_through(service: Service, number: int) -> None:
    update = {"$set": {"n": number}}
    await service.write("things", Write(WriteKind.UPDATE, filter={"_id": 1}, update=update))


@asynccontextmanager
async def holding_changes(db: str, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    """No worker gets change events for its cached answers in this block."""
    held, released = set[Any](), asyncio.Event()
    read = ChangeEvents.try_next_raw

    async def hold(events: ChangeEvents) -> RawEvent | None:
        task = asyncio.current_task()
        if task is not None and task.get_name() == f"graphql-watch-{db}":
            held.add(task)
            await released.wait()
        return await read(events)

    monkeypatch.setattr(ChangeEvents, "try_next_raw", hold)
    try:
        await eventually(lambda: len(held) == 2)
        yield
    finally:
        released.set()


async def test_every_worker_reads_the_writes_of_the_others(
    workers: tuple[Service, Service],
) -> None:
    one, two = workers
    for number in range(2, 8):
        await ask_until_hit(one, "things", QUERY)
        await ask_until_hit(two, "things", QUERY)
        await write_through(two, number)
        assert (await one.query("things", QUERY)).data == things(number)
        one, two = two, one


async def test_a_worker_reads_a_write_of_another_one_before_its_change_event(
    workers: tuple[Service, Service], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The counters of writes report it."""
    one, two = workers
    async with holding_changes(one.db, monkeypatch):
        assert status_of(await two.query("things", QUERY)) == HIT
        await write_through(one, 2)
        assert (await two.query("things", QUERY)).data == things(2)


async def test_every_worker_reads_a_write_in_the_database(
    workers: tuple[Service, Service],
) -> None:
    """The change events report it: the counters of writes do not count it."""
    await asyncio.to_thread(write, workers[0], 2)
    for one in workers:
        await ask_until(one, "things", QUERY, things(2))
