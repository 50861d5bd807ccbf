"""Equal requests at the same time run once, and never for one who has written since (52)."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from docgraph.exchange import Write, WriteKind
from docgraph.observe.engine_events import CacheUsed, CommandFinished
from tests.http.cache_harness import (
    CACHE,
    COLLAPSED,
    FIRST,
    PATIENT,
    STORED,
    ask_until_hit,
    find_graphql,
    status_of,
)
from tests.http.harness import (
    Document,
    Mongo,
    Reply,
    Service,
    eventually,
    identity,
    listening,
    listening_to_fields,
    running,
)

pytestmark = pytest.mark.anyio

SCHEMA = "type Query { things(n: Int): [Thing] } type Thing { n: Int name: String }"
QUERY = "query ($n: Int) { things(n: $n) { n name } }"


@pytest.fixture
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, PATIENT, identity("admin")) as service:
        service.insert("things", {"_id": 1, "n": 1, "name": "a"}, {"_id": 2, "n": 2, "name": "b"})
        mapped = {"Query": {"things": service.find("things", {"n": {"$arg": "n"}})}}
        await service.define("things", SCHEMA, mapped, **CACHE)
        await ask_until_hit(service, "things", QUERY, {"n": 1})
        yield service


def things(name: str) -> Document:
    return {"things": [{"n": 2, "name": name}]}


@contextmanager
def holding(service: Service, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Let the lists that are read in this block wait until they are released."""
    released = asyncio.Event()
    reads = service.app.store.reads
    find = reads.find

    async def find_later(*args: Any, **options: Any) -> Any:
        if "field" in (options.get("comment") or {}):
            await released.wait()
        return await find(*args, **options)

    with monkeypatch.context() as patch:
        patch.setattr(reads, "find", find_later)
        try:
            yield released.set
        finally:
            released.set()


def flights_of(service: Service) -> dict[bytes, Any]:
    """The executions in progress."""
    return find_graphql(service)._cache._flights


def list_waiting(service: Service) -> list[int]:
    """How many requests wait for each execution."""
    return [len(one.landed._waiters) if one.landed else 0 for one in flights_of(service).values()]


def send(service: Service, count: int) -> list[asyncio.Task[Reply]]:
    """Send equal requests at the same time."""
    return [asyncio.create_task(service.query("things", QUERY, {"n": 2})) for _ in range(count)]


async def ask_together(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Reply], list[CommandFinished]]:
    """Send 20 equal requests; the first one is executed when all others wait for it."""
    with listening_to_fields() as commands:
        with holding(service, monkeypatch) as release:
            sent = send(service, 20)
            await eventually(lambda: list_waiting(service) == [19])
            release()
        replies = await asyncio.gather(*sent)
    assert all(reply.data == things("b") for reply in replies)
    assert not flights_of(service)
    return replies, commands


async def test_concurrent_misses_run_once(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert status_of(await service.query("things", QUERY, {"n": 2})) == FIRST
    replies, commands = await ask_together(service, monkeypatch)
    assert len(commands) == 1
    assert sorted(map(status_of, replies)) == [COLLAPSED] * 19 + [STORED]


async def test_so_do_misses_that_are_not_stored(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening(CacheUsed) as used:
        replies, commands = await ask_together(service, monkeypatch)
    assert len(commands) == 1
    assert sorted(map(status_of, replies)) == [COLLAPSED] * 19 + [FIRST]
    reasons = Counter((one.result, one.reason) for one in used)
    assert reasons == {("miss", "first"): 1, ("hit", "collapsed"): 19}


async def test_a_request_after_a_write_shares_no_earlier_execution(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holding(service, monkeypatch) as release:
        (before,) = send(service, 1)
        await eventually(lambda: flights_of(service))
        (first,) = flights_of(service).values()
        write = Write(WriteKind.UPDATE, filter={"_id": 2}, update={"$set": {"name": "c"}})
        await service.write("things", write)
        after = send(service, 3)
        await eventually(lambda: list_waiting(service) == [2])
        assert first.landed is None
        release()
    replies = await asyncio.gather(before, *after)
    assert all(one.data == things("c") for one in replies)  # the first one was held, too
    assert [status_of(one) for one in replies].count(COLLAPSED) == 2


async def test_an_execution_that_began_before_the_lag_is_not_shared(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holding(service, monkeypatch) as release:
        (early,) = send(service, 1)
        await eventually(lambda: flights_of(service))
        (first,) = flights_of(service).values()
        first.began -= find_graphql(service).watch.max_lag + 1
        (late,) = send(service, 1)
        await eventually(lambda: first not in flights_of(service).values())
        release()
    replies = [await early, await late]
    assert [one.data for one in replies] == [things("b")] * 2
    assert COLLAPSED not in map(status_of, replies)


async def test_one_that_waits_runs_itself_when_the_first_one_leaves(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    with holding(service, monkeypatch) as release:
        first, second = send(service, 2)
        await eventually(lambda: list_waiting(service) == [1])
        first.cancel()
        await asyncio.wait([first])
        release()
    assert (await second).data == things("b")
    assert not flights_of(service)
