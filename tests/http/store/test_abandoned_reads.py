"""Reads that nobody waits for any more end at the database, and nothing else does.

The relay before the database keeps its side open when a client leaves, so that the database does
not find out by itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any
from uuid import uuid4

import pytest

from docgraph.exchange import Deadline
from docgraph.observe import Event
from docgraph.observe.events import UnattendedFailed
from docgraph.store import Store
from tests.http.harness import Document, Mongo, eventually, failing, listening
from tests.http.proxy import Proxy, proxying
from tests.http.store.test_store_faults import distant_store

pytestmark = pytest.mark.anyio


@pytest.fixture
def proxy(mongo_uri: str) -> Iterator[Proxy]:
    with proxying(mongo_uri, lingers=True) as proxy:
        yield proxy


@pytest.fixture
async def distant(proxy: Proxy) -> AsyncIterator[Store]:
    async with distant_store(proxy) as store:
        await store.available()
        yield store


@contextmanager
def waiting(mongo: Mongo, namespace: str) -> Iterator[None]:
    """Let every `find` on that collection wait, as long as it is not interrupted."""
    point = {"configureFailPoint": "waitInFindBeforeMakingBatch"}
    data = {"nss": namespace, "shouldCheckForInterrupt": True}
    mongo.admin.command({**point, "mode": "alwaysOn", "data": data})
    try:
        yield
    finally:
        mongo.admin.command({**point, "mode": "off"})


def running(mongo: Mongo, namespace: str) -> list[Document]:
    mine = {"ns": namespace, "active": True}
    return list(mongo.admin.aggregate([{"$currentOp": {}}, {"$match": mine}]))


def find(store: Store, database: str, request: str, deadline: Deadline) -> Any:
    comment = {"request": request}
    return store.find(database, "items", {}, limit=5, deadline=deadline, comment=comment)


@pytest.mark.parametrize("is_same_request", [False, True])
async def test_a_cancelled_read_ends_and_every_other_goes_on(
    distant: Store, mongo_client: Mongo, database: str, is_same_request: bool
) -> None:
    """Also one with the same id: those of a WebSocket, or of a caller who sends it."""
    mongo_client[database]["items"].insert_one({"_id": 1})
    place, gone = f"{database}.items", uuid4().hex
    staying = gone if is_same_request else uuid4().hex
    with waiting(mongo_client, place):
        tasks = [
            asyncio.create_task(find(distant, database, request, Deadline.never()))
            for request in (gone, staying)
        ]
        await eventually(lambda: len(running(mongo_client, place)) == 2)

        tasks[0].cancel()
        await eventually(lambda: len(running(mongo_client, place)) == 1)

        (left,) = running(mongo_client, place)
        assert left["command"]["comment"]["request"] == staying
        # Until it would have been found by the second look, too.
        store_task = distant._commands._abandoned._task
        assert store_task is not None
        await store_task
        assert len(running(mongo_client, place)) == 1
    assert await tasks[1] == [{"_id": 1}]


async def test_a_read_without_a_request_is_left_to_the_database(
    distant: Store, mongo_client: Mongo, database: str
) -> None:
    mongo_client[database]["items"].insert_one({"_id": 1})
    place = f"{database}.items"
    with waiting(mongo_client, place), listening(Event) as events:
        read = distant.find(database, "items", {}, limit=5, deadline=Deadline.never())
        task = asyncio.create_task(read)
        await eventually(lambda: running(mongo_client, place))
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert not [one for one in events if isinstance(one, UnattendedFailed)]


async def test_a_database_that_lists_no_operations_is_told_once(
    distant: Store, mongo_client: Mongo, database: str
) -> None:
    mongo_client[database]["items"].insert_one({"_id": 1})
    place, strict = f"{database}.items", 323
    with listening(UnattendedFailed) as failures:
        for _ in range(2):
            with (
                waiting(mongo_client, place),
                failing(
                    mongo_client, "aggregate", namespace="admin.$cmd.aggregate", errorCode=strict
                ),
            ):
                task = asyncio.create_task(find(distant, database, "a", Deadline.never()))
                await eventually(lambda: running(mongo_client, place))
                task.cancel()
                await asyncio.wait([task])
                await eventually(lambda: failures)
    assert [failure.work for failure in failures] == ["end abandoned reads"]
