"""Live queries while the database elects another primary (decision 52)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from pymongo import MongoClient

from tests.http.harness import Document, Service, identity, running
from tests.http.live_harness import LiveEventsClient, subscribe
from tests.replica_set import ReplicaSet, kill

pytestmark = pytest.mark.anyio

SCHEMA = "type Query { things: [Thing] } type Thing { n: Int }"
QUERY = "query @live { things { n } }"


def show(number: int) -> Document:
    return {"data": {"things": [{"n": number}]}}


@asynccontextmanager
async def listening(replica_set: ReplicaSet) -> AsyncIterator[tuple[LiveEventsClient, Service]]:
    """A client that has the first answer."""
    uri = await asyncio.to_thread(replica_set.start)
    with MongoClient[Document](uri) as mongo:
        async with running(mongo, uri, identity("admin")) as service:
            service.insert("things", {"_id": 1, "n": 1})
            mapped: Any = {"Query": {"things": service.find("things", {})}}
            await service.define("things", SCHEMA, mapped, live=True)
            async with subscribe(service, "things", QUERY) as client:
                assert await client.next() == show(1)
                yield client, service


async def write(service: Service, number: int) -> None:
    """Change the document straight in the database."""
    things = service.mongo[service.db].things
    await asyncio.to_thread(things.update_one, {"_id": 1}, {"$set": {"n": number}})


async def read_until(client: LiveEventsClient, number: int) -> None:
    """Read answers until there is this one; after an error the previous one may come again."""
    while (answer := await client.next()) != show(number):
        assert "errors" in answer or answer == show(number - 1), answer


async def test_changes_before_and_after_an_election_are_sent(replica_set: ReplicaSet) -> None:
    async with listening(replica_set) as (client, service):
        await write(service, 2)
        await asyncio.to_thread(replica_set.step_down)
        await read_until(client, 2)
        await asyncio.to_thread(replica_set.await_primary)
        await write(service, 3)
        await read_until(client, 3)


async def test_changes_after_the_death_of_the_primary_are_sent(replica_set: ReplicaSet) -> None:
    async with listening(replica_set) as (client, service):
        primary = await asyncio.to_thread(replica_set.await_primary)
        await asyncio.to_thread(kill, primary)
        await asyncio.to_thread(replica_set.await_primary, besides=primary)
        await write(service, 2)
        await read_until(client, 2)
    await asyncio.to_thread(replica_set.start)
