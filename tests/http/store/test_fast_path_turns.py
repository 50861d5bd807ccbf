"""Reads on the fast path have connections in the order they came, and nobody waits in vain."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from functools import partial

import pytest
from pymongo import ReadPreference
from pymongo.errors import ExecutionTimeout

from docgraph.exchange.deadline import Deadline, Patience
from docgraph.exchange.errors import PoolExhausted, StoreUnavailable
from docgraph.store.driver.client import build_client
from docgraph.store.driver.command import Commands
from docgraph.store.driver.fast_path import FastPath
from docgraph.store.driver.lanes import NO_WAIT, ReadCost, Wait
from docgraph.store.driver.waiting import WaitingCommand
from docgraph.store.sections import MClient
from tests.http.harness import Mongo, failing
from tests.http.store.test_abandoned_reads import running, waiting

pytestmark = pytest.mark.anyio

CALLERS, READS = 12, 10
PING = {"ping": 1}


def joined(uri: str, *options: str) -> str:
    return uri + ("&" if "?" in uri else "?") + "&".join(options)


async def test_nobody_who_comes_later_is_answered_earlier(mongo_uri: str) -> None:
    uri = joined(mongo_uri, "maxPoolSize=1")
    overtaken: list[int] = []
    done = 0

    async with build_client(MClient(), uri) as client:
        path = FastPath.find(client)
        assert path is not None

        async def ask() -> None:
            nonlocal done
            for _ in range(READS):
                before = done
                await path.read("admin", PING, ReadPreference.PRIMARY)
                overtaken.append(done - before)
                done += 1

        await asyncio.gather(*(ask() for _ in range(CALLERS)))

    assert done == CALLERS * READS
    assert max(overtaken) < CALLERS  # only by those who were there before


async def test_reads_that_last_do_not_keep_others_from_opening_connections(
    mongo_uri: str, mongo_client: Mongo, database: str
) -> None:
    mongo_client[database]["items"].insert_one({"_id": 1})
    place, command = f"{database}.items", {"find": "items", "filter": {}}

    async with build_client(MClient(), mongo_uri) as client:
        path = FastPath.find(client)
        assert path is not None
        with waiting(mongo_client, place):
            reads = [
                asyncio.create_task(path.read(database, command, ReadPreference.PRIMARY))
                for _ in range(2 * CALLERS)
            ]
            async with asyncio.timeout(60):
                while len(await asyncio.to_thread(running, mongo_client, place)) < len(reads):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)
        await asyncio.gather(*reads)


async def test_a_read_that_gets_no_connection_in_time_is_told(
    mongo_uri: str, mongo_client: Mongo, database: str
) -> None:
    mongo_client[database]["items"].insert_one({"_id": 1})
    uri = joined(mongo_uri, "maxPoolSize=1", "waitQueueTimeoutMS=50")
    async with build_client(MClient(), uri) as client:
        path = FastPath.find(client)
        assert path is not None
        await path.read("admin", PING, ReadPreference.PRIMARY)
        with waiting(mongo_client, f"{database}.items"):
            command = {"find": "items", "filter": {}}
            first = asyncio.create_task(path.read(database, command, ReadPreference.PRIMARY))
            await asyncio.sleep(0)
            with pytest.raises(StoreUnavailable):
                await path.read("admin", PING, ReadPreference.PRIMARY)
        await first
        reply, _ = await path.read("admin", PING, ReadPreference.PRIMARY)
        assert reply["ok"] == 1


@asynccontextmanager
async def another_trial(path: FastPath) -> AsyncIterator[None]:
    """A second read of unknown cost, which wants the turn of the first."""
    server = await path._find_server(ReadPreference.PRIMARY, {"find": "items"})
    lanes, cost = path._find_lanes(server.pool), ReadCost(is_point=False)
    assert await lanes.begin_trial(cost, NO_WAIT, is_first=False)
    try:
        yield
    finally:
        lanes.end_trial(cost)


@pytest.mark.parametrize("is_alone", [False, True])
async def test_a_trial_that_takes_long_is_ended_for_others_and_the_read_repeated(
    mongo_uri: str, mongo_client: Mongo, database: str, is_alone: bool
) -> None:
    mongo_client[database]["items"].insert_one({"_id": 1})
    command = {"find": "items", "filter": {"n": None}}
    wait = Wait(Deadline(patience=Patience(60.0)))
    async with build_client(MClient(), mongo_uri) as client:
        path = FastPath.find(client)
        assert path is not None
        place = f"{database}.items"
        with failing(
            mongo_client,
            "find",
            namespace=place,
            mode={"times": 1},
            blockConnection=True,
            blockTimeMS=200,
        ):
            async with nullcontext() if is_alone else another_trial(path):
                reply, _ = await path.read(database, dict(command), ReadPreference.PRIMARY, wait)
        cost = path._costs.find(database, command)

        assert [one["_id"] for one in reply["cursor"]["firstBatch"]] == [1]
        assert cost is not None
        assert (cost.has_failed, cost.is_known) == (not is_alone, True)

        limited = {"find": "items", "filter": {"m": None}, "maxTimeMS": 50}
        with (
            failing(mongo_client, "find", namespace=place, blockConnection=True, blockTimeMS=200),
            pytest.raises(ExecutionTimeout),
        ):
            await path.read(database, limited, ReadPreference.PRIMARY, wait)


async def test_the_waits_of_the_writes_of_a_request_add_up(mongo_uri: str) -> None:
    async with build_client(MClient(), joined(mongo_uri, "maxPoolSize=1")) as client:
        commands, patience = Commands(client, ceiling_ms=0), Patience(60.0)
        deadline = Deadline(patience=patience)
        write = partial(
            WaitingCommand, commands.waits, client, None, lambda: True, Deadline(), is_write=True
        )
        with write():
            waiting = asyncio.create_task(commands.await_connection(deadline))
            await asyncio.sleep(0)
            assert not waiting.done()
        await waiting
        assert patience.left < 60

        patience.left = 0.0
        with write(), pytest.raises(PoolExhausted):
            await commands.await_connection(deadline)
        assert patience.left <= 0


async def test_a_cursor_has_the_time_of_its_read_and_not_that_of_a_trial(
    mongo_uri: str, mongo_client: Mongo, database: str
) -> None:
    mongo_client[database]["items"].insert_many({"_id": n} for n in range(5))
    command = {"find": "items", "filter": {"n": None}, "batchSize": 2, "maxTimeMS": 60_000}
    wait = Wait(Deadline(patience=Patience(60.0)))
    async with build_client(MClient(), mongo_uri) as client:
        path = FastPath.find(client)
        assert path is not None
        async with another_trial(path):
            reply, server = await path.read(database, dict(command), ReadPreference.PRIMARY, wait)
        idle = {"type": "idleCursor", "ns": f"{database}.items"}
        operations = mongo_client["admin"].aggregate(
            [{"$currentOp": {"idleCursors": True, "localOps": True}}, {"$match": idle}]
        )
        limits = [one["cursor"]["originatingCommand"]["maxTimeMS"] for one in operations]
        further = {"getMore": reply["cursor"]["id"], "collection": "items"}
        rest = await path.send(server, database, further, ReadPreference.PRIMARY)

    assert limits == [60_000]  # and the cursor of the trial is closed
    assert [one["_id"] for one in rest["cursor"]["nextBatch"]] == [2, 3, 4]
