"""The `documentKey` of an event can be sent back as it is: to streams and to reads."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest
from bson import Binary

from tests.http.access_harness import ADMIN, guarded
from tests.http.graphql.test_graphql_ids import IDS, SAME
from tests.http.harness import Document, Mongo, Service
from tests.http.hosts import module_application
from tests.http.stream_harness import SSE, WEBSOCKET, emptied, listen, notes

pytestmark = pytest.mark.anyio

KINDS: dict[str, Any] = {
    **IDS,
    "hexadecimal text": next(one for text in SAME for one in SAME[text] if len(text) == 24),
    "binary": Binary(b"\x00\x01", 0),
    "object": {"a": 1, "b": "2"},
}
ONE = [{"$match": {"documentKey._id": {"$var": "id"}}}]


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        streams = [{"uri": "all", "stages": []}, {"uri": "one", "stages": ONE}]
        reply = await one.request("PUT", "/notes", headers=ADMIN, json={"streams": streams})
        assert reply.status in (200, 201), reply.text
        yield one


@pytest.fixture
async def service(server: Service) -> AsyncIterator[Service]:
    async with emptied(server, "notes"):
        yield server


async def read(service: Service, id: Any) -> list[Document]:
    """Read the documents with that id by REST."""
    path = f"/notes?filter={quote(json.dumps({'_id': id}))}"
    reply = await service.request("GET", path, headers=ADMIN)
    assert reply.status == 200, reply.text
    documents: list[Document] = reply.json
    return documents


async def receive_inserted(client: Any) -> list[Document]:
    """Return the events up to the last insertion; the first may be of what was deleted before."""
    events: list[Document] = []
    while sum(one["operationType"] == "insert" for one in events) < len(KINDS):
        events.append(await client.next())
    return events


@pytest.mark.parametrize(
    ("mode", "by"), [("", SSE), ("", WEBSOCKET), ("canonical", WEBSOCKET), ("relaxed", SSE)]
)
async def test_the_key_of_a_document_selects_its_events_and_reads_it(
    service: Service, mode: str, by: str
) -> None:
    query = f"?jsonMode={mode}" if mode else ""
    async with listen(service, f"/notes/_streams/all{query}", ADMIN, by=by) as client:
        notes(service).insert_many([{"_id": id, "kind": kind} for kind, id in KINDS.items()])
        received = await receive_inserted(client)
        events = [one for one in received if one["operationType"] == "insert"]

    for kind, event in zip(KINDS, events, strict=True):
        key = event["documentKey"]["_id"]
        assert event["fullDocument"]["_id"] == key
        assert [one["kind"] for one in await read(service, key)] == [kind]
        path = f"/notes/_streams/one?avars={quote(json.dumps({'id': key}))}"
        async with listen(service, path, ADMIN, by=by) as client:
            notes(service).update_many({}, {"$inc": {"n": 1}})
            changed = await client.next()
        assert changed["fullDocument"]["kind"] == kind


async def test_a_resumed_stream_gives_out_the_same_keys(service: Service) -> None:
    async with listen(service, "/notes/_streams/all", ADMIN) as client:
        notes(service).insert_many([{"_id": id, "kind": kind} for kind, id in KINDS.items()])
        events = await receive_inserted(client)
        ids = client.ids[-len(events) :]

    for number, id in enumerate(ids[:-1]):
        headers = {**ADMIN, "Last-Event-ID": id}
        async with listen(service, "/notes/_streams/all", headers) as client:
            resumed = await client.next()
        assert resumed["documentKey"] == events[number + 1]["documentKey"]
