"""Overload (decision 51): heavy reads wait in their lane, large answers for memory, then 503."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from docgraph.observe.engine_events import CommandFinished, LoadShed, QueryFailed
from docgraph.observe.events import DatabaseLost
from tests.http.batches import entry
from tests.http.harness import Mongo, Reply, eventually, listening
from tests.http.rest_harness import Api, serving
from tests.http.store.test_abandoned_reads import running, waiting

pytestmark = pytest.mark.anyio

POOL = {"mclient": {"min-pool-size": 0, "max-pool-size": 4}}
HEAVY_AT_A_TIME = 2  # three quarters of the connections for reads, of which there are three
FEW_REQUESTS = {"connection-options": {"max-requests-in-flight": 8, "queue": 0}}
IMPATIENT = {"core": {"wait-timeout-ms": 400}}
NO_MEMORY = {"connection-options": {"max-answer-bytes": 1}}


async def start_slow_reads(api: Api, count: int) -> list[asyncio.Task[Reply]]:
    """Reads that the database does not answer; as many as may be heavy have begun."""
    reads = [asyncio.create_task(api.get("/slow", filter='{"n":{"$gt":0}}')) for _ in range(count)]
    namespace = f"{api.db}.slow"

    def is_full() -> bool:
        return len(running(api.mongo, namespace)) == min(count, HEAVY_AT_A_TIME)

    async with asyncio.timeout(60):
        while not await asyncio.to_thread(is_full):  # noqa: ASYNC110 - the database is asked
            await asyncio.sleep(0.01)
    return reads


async def test_heavy_reads_wait_and_leave_room_for_light_ones(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """They have a part of the connections, and none of the places of requests while they wait."""
    async with serving(mongo_client, mongo_uri, POOL, FEW_REQUESTS) as api:
        mongo_client[api.db]["slow"].insert_one({"n": 1})
        api.things.insert_one({"_id": "x"})
        assert (await api.get("/things/x")).status == 200
        with waiting(mongo_client, f"{api.db}.slow"):
            reads = await start_slow_reads(api, HEAVY_AT_A_TIME + 1)
            while len(reads) < 20:
                reads.append(asyncio.create_task(api.get("/slow", filter='{"n":{"$gt":0}}')))
                await asyncio.sleep(0)
                assert (await api.get("/things/x")).status == 200
            begun = await asyncio.to_thread(running, mongo_client, f"{api.db}.slow")
            assert len(begun) == HEAVY_AT_A_TIME
            assert not any(read.done() for read in reads)
        replies = await asyncio.gather(*reads)

    assert {reply.status for reply in replies} == {200}


async def test_heavy_reads_that_wait_do_not_delay_writes(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """They have no connection, however many they are, and one is left for writes."""
    async with serving(mongo_client, mongo_uri, POOL) as api:
        mongo_client[api.db]["slow"].insert_one({"n": 1})
        with waiting(mongo_client, f"{api.db}.slow"):
            reads = await start_slow_reads(api, 20)
            written = await api.put("/things/x", {"a": 1}, wm="upsert")
            assert not any(read.done() for read in reads)
        await asyncio.gather(*reads)

    assert written.status == 201


async def test_reads_that_waited_too_long_are_load_shedding_and_no_fault(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    async with serving(mongo_client, mongo_uri, POOL, IMPATIENT) as api:
        mongo_client[api.db]["slow"].insert_one({"n": 1})
        late = 7  # those that never get a connection
        with (
            listening(LoadShed) as shed,
            listening(QueryFailed) as failed,
            listening(DatabaseLost) as lost,
            listening(CommandFinished) as commands,
        ):
            with waiting(mongo_client, f"{api.db}.slow"):
                reads = await start_slow_reads(api, HEAVY_AT_A_TIME + late)
                await eventually(lambda: sum(read.done() for read in reads) == late)
                refused = [read.result() for read in reads if read.done()]
            replies = await asyncio.gather(*reads)

    assert {(reply.status, reply.json["code"]) for reply in refused} == {(503, "overloaded")}
    assert {reply.headers["retry-after"] for reply in refused} == {"1"}
    assert sorted(reply.status for reply in replies) == [200] * HEAVY_AT_A_TIME + [503] * late
    assert [event.bound for event in shed] == ["pool"] * late
    assert not failed
    assert not lost
    own = [one.ok for one in commands if one.collection == "slow"]
    assert own == [True] * HEAVY_AT_A_TIME


async def test_large_answers_are_built_one_after_the_other(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """None of them waits for ever, also where one request needs several of them."""
    async with serving(mongo_client, mongo_uri, NO_MEMORY) as api:
        api.things.insert_many({"_id": n, "text": "x" * 400_000} for n in "abc")
        mapping = {"Query": {"a": _find(api.db), "b": _find(api.db)}}
        schema = "type Query { a: [Thing] b: [Thing] } type Thing { text: String }"
        await api.service.define("app", schema, mapping)
        batch = [entry("GET", f"/things/{name}") for name in "abc"]

        calls: list[Any] = [api.get("/things") for _ in range(6)]
        calls += [api.service.query("app", "{ a { text } b { text } }") for _ in range(6)]
        calls += [api.post("/_batch", batch) for _ in range(3)]
        replies = await asyncio.gather(*calls)

    assert {reply.status for reply in replies} == {200}, replies[-1].text[:300]
    assert all(len(reply.text) > 1_200_000 for reply in replies)


def _find(db: str) -> dict[str, Any]:
    return {"db": db, "collection": "things", "find": {}}


async def test_a_large_answer_without_memory_is_503(mongo_client: Mongo, mongo_uri: str) -> None:
    """A small one beside it is served."""
    async with serving(mongo_client, mongo_uri, NO_MEMORY, IMPATIENT) as api:
        api.things.insert_many({"_id": n, "text": "x" * 400_000} for n in "abc")
        mongo_client[api.db]["small"].insert_one({"_id": "x"})
        for path in ("/small/x", "/things"):  # the first read of a shape is a trial
            assert (await api.get(path)).status == 200
        with listening(LoadShed) as shed, waiting(mongo_client, f"{api.db}.things"):
            first = asyncio.create_task(api.get("/things"))
            await eventually(lambda: bool(running(mongo_client, f"{api.db}.things")))
            second = await api.get("/things")
            small = await api.get("/small/x")
        answered = await first

    assert (second.status, second.json["code"]) == (503, "overloaded")
    assert [event.bound for event in shed] == ["memory"]
    assert (small.status, answered.status) == (200, 200)
