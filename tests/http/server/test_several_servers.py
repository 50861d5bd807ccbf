"""A database of several servers: who is asked, and what streams tell when the primary changes.

All in one module, for which the servers start once. The profiler of each server tells which
commands came to it. W04: elections and dead primaries lose no event of a stream and double none.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from urllib.parse import quote

import pytest
from pymongo import MongoClient, WriteConcern

from tests.http.harness import Document, Mongo, profiled
from tests.http.reads import AGGREGATION, READS, with_parameter
from tests.http.rest_harness import COLLECTION, Api, serving
from tests.http.stream_harness import SSE, WEBSOCKET, Refused, listen
from tests.numbered import write_numbers
from tests.replica_set import ReplicaSet, kill

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

PATH = "/things/_streams/all?event-ids=true"
PART = 30  # writes before, between and after the faults


# --- who is asked ---------------------------------------------------------------------------------


@pytest.fixture
def three_servers(replica_set: ReplicaSet) -> str:
    """The connection string of the set, of which a test before may have killed a member."""
    return replica_set.start()


@pytest.fixture
async def spread(three_servers: str) -> AsyncIterator[tuple[Api, list[Mongo]]]:
    """The API on three servers that all have the things, and a client of each: primary first."""
    uri = three_servers
    with ExitStack() as stack:
        client: Mongo = stack.enter_context(MongoClient(uri))
        hello = client.admin.command("hello")
        hosts = [hello["primary"], *sorted(set(hello["hosts"]) - {hello["primary"]})]
        servers: list[Mongo] = [
            stack.enter_context(MongoClient(host, directConnection=True)) for host in hosts
        ]
        async with serving(client, uri) as api:
            assert (await api.put("/things", AGGREGATION)).status == 200
            settled = api.things.with_options(write_concern=WriteConcern(3))
            settled.insert_one({"_id": "a", "n": 1})
            yield api, servers
            client.drop_database(api.db)


@contextmanager
def all_profiled(servers: list[Mongo], db: str) -> Iterator[list[list[Document]]]:
    seen: list[list[Document]] = []
    with ExitStack() as stack:
        seen += [stack.enter_context(profiled(server, db, COLLECTION)) for server in servers]
        yield seen


@pytest.mark.parametrize(
    ("preference", "by_primary"),
    [
        ("", True),
        ("primary", True),
        ("primaryPreferred", True),
        ("secondary", False),
        ("SECONDARYPREFERRED", False),
    ],
)
async def test_read_preference_chooses_the_server(
    spread: tuple[Api, list[Mongo]], preference: str, by_primary: bool
) -> None:
    api, servers = spread
    parameter = f"readPreference={preference}" if preference else "x=y"
    paths = (*READS, "/things/_size?count=estimated")

    with all_profiled(servers, api.db) as seen:
        replies = [await api.get(with_parameter(path, parameter)) for path in paths]

    assert [reply.status for reply in replies] == [200] * len(paths)
    first, *others = (len(commands) for commands in seen)
    assert (first, sum(others)) == ((len(paths), 0) if by_primary else (0, len(paths)))


async def test_nearest_reads_from_any_server(spread: tuple[Api, list[Mongo]]) -> None:
    api, _ = spread

    reply = await api.get("/things?readPreference=nearest")

    assert (reply.status, reply.json[0]["_id"]) == (200, "a")


async def test_what_was_written_is_shown_from_where_it_was_written(
    spread: tuple[Api, list[Mongo]],
) -> None:
    api, servers = spread

    with all_profiled(servers, api.db) as seen:
        reply = await api.patch(
            "/things/a",
            {"n": 2},
            headers={"prefer": "return=representation"},
            readPreference="secondary",
        )

    assert (reply.status, reply.json["n"]) == (200, 2)
    assert [len(commands) for commands in seen] == [2, 0, 0]


# --- streams over a change of the primary ---------------------------------------------------------


@pytest.fixture
async def streaming(replica_set: ReplicaSet) -> AsyncIterator[Api]:
    """The API on three servers, all of which live again after the test."""
    uri = await asyncio.to_thread(replica_set.start)
    with MongoClient[Document](uri) as client:
        async with serving(client, uri) as one:
            assert (
                await one.put("/things", {"streams": [{"uri": "all", "stages": []}]})
            ).status == 200
            yield one
            await asyncio.to_thread(replica_set.start)


def step_down(members: ReplicaSet) -> None:
    members.step_down()


def kill_primary(members: ReplicaSet) -> None:
    kill(members.await_primary())


FAULTS: list[Callable[[ReplicaSet], None]] = [step_down, kill_primary]


async def write_amid_faults(api: Api, members: ReplicaSet) -> int:
    """Numbered writes; before, between and after the faults, and while they happen."""
    written = 0
    for fault in FAULTS:
        numbers = range(written, written + PART)
        writing = asyncio.to_thread(write_numbers, api.things, numbers)
        await asyncio.gather(writing, asyncio.to_thread(fault, members))
        written += PART
    await asyncio.to_thread(write_numbers, api.things, range(written, written + PART))
    return written + PART


def numbers_of(events: list[Document]) -> list[Any]:
    return [one["documentKey"]["_id"] for one in events]


async def test_a_client_that_stays_gets_every_event_once_in_order(
    streaming: Api, replica_set: ReplicaSet
) -> None:
    api = streaming
    async with (
        listen(api.service, PATH, by=SSE) as one,
        listen(api.service, PATH, by=WEBSOCKET) as other,
    ):
        written = await write_amid_faults(api, replica_set)
        api.things.insert_one({"_id": "last"})
        expected = [*range(written), "last"]
        for client in (one, other):
            assert numbers_of(await client.take(written + 1)) == expected


async def test_a_client_that_is_cut_goes_on_after_the_last_id_or_an_older_one(
    streaming: Api, replica_set: ReplicaSet
) -> None:
    api = streaming
    events: list[Document] = []
    async with listen(api.service, PATH) as client:
        writing = asyncio.create_task(write_amid_faults(api, replica_set))
        events.append(await client.next())
    connections = 0
    while not writing.done() or len(events) < 3 * PART:
        connections += 1
        await resume(api, events, by=WEBSOCKET if connections % 2 else SSE)
        assert numbers_of(events) == list(range(len(events)))  # or it would go on for ever
    assert numbers_of(events) == list(range(await writing))
    older = json.dumps(events[PART]["_id"])
    async with listen(api.service, f"{PATH}&resume-after={quote(older)}") as client:
        repeated = await client.take(2 * PART - 1)
    assert repeated == events[PART + 1 :]


async def resume(api: Api, events: list[Document], by: str) -> None:
    """Read a few events after the last one that is known; the database may be away."""
    token = quote(json.dumps(events[-1]["_id"]))
    try:
        async with listen(api.service, f"{PATH}&resume-after={token}", by=by) as client:
            for _ in range(7):
                if events[-1]["documentKey"]["_id"] == 3 * PART - 1:
                    break
                events.append(await client.next())
    except Refused as refused:
        if refused.json["code"] != "STORE_UNAVAILABLE":
            raise
