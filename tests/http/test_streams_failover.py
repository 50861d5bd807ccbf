"""W04: elections and dead primaries lose no event of a stream and double none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import quote

import pytest
from pymongo import MongoClient

from tests.http.harness import Document
from tests.http.rest_harness import Api, serving
from tests.http.stream_harness import SSE, WEBSOCKET, Refused, listen
from tests.numbered import write_numbers
from tests.replica_set import ReplicaSet, kill

pytestmark = [pytest.mark.anyio, pytest.mark.timeout(300)]

PATH = "/things/_streams/all?event-ids=true"
PART = 30  # writes before, between and after the faults


@pytest.fixture
async def api(replica_set: ReplicaSet) -> AsyncIterator[Api]:
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
    api: Api, replica_set: ReplicaSet
) -> None:
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
    api: Api, replica_set: ReplicaSet
) -> None:
    events: list[Document] = []
    async with listen(api.service, PATH) as client:
        writing = asyncio.create_task(write_amid_faults(api, replica_set))
        events.append(await client.next())
    connections = 0
    while not writing.done() or len(events) < 3 * PART:
        connections += 1
        await resume(api, events, by=WEBSOCKET if connections % 2 else SSE)
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
