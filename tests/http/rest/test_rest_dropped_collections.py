"""A collection that is dropped stays away: no write that was checked before makes it anew."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from pymongo import AsyncMongoClient
from pymongo.asynchronous.pool import AsyncConnection
from pymongo.server_api import ServerApi

from docgraph.exchange.deadline import Deadline
from docgraph.store.catalog import Catalog
from docgraph.store.driver.collection_uuid import find_collection, pinned
from docgraph.store.store import Store
from tests.http.harness import UNREACHABLE, Mongo, failing
from tests.http.hosts import module_application
from tests.http.rest_harness import BY_HOST, Api, serving

pytestmark = pytest.mark.anyio

PERSON = {"type": "object", "required": ["name"]}
WRITES = [
    ("POST", "/things", {"a": 1}, {}),
    ("POST", "/things", {"_id": "x"}, {"wm": "upsert"}),
    ("POST", "/things", [{"a": 1}, {"a": 2}], {}),
    ("POST", "/things", [{"_id": 1}, {"_id": 2}], {"wm": "upsert"}),
    ("PUT", "/things/x", {"a": 1}, {"wm": "upsert"}),
    ("PATCH", "/things/x", {"a": 1}, {"wm": "upsert"}),
    ("PATCH", "/things/x", [{"$set": {"a": 1}}], {"wm": "upsert"}),
    ("PUT", "/things/_indexes/a", {"keys": {"a": 1}}, {}),
]


@pytest.fixture
async def known(api: Api) -> Api:
    """An instance that has seen the collection `things`."""
    assert (await api.put("/others")).status == 201  # the database stays
    assert (await api.post("/things", {"_id": "seen"})).status == 201
    return api


@module_application
async def other_instance(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri, mounts=BY_HOST) as server:
        yield server


@pytest.mark.parametrize(("method", "path", "body", "parameters"), WRITES)
async def test_a_write_to_a_collection_that_others_have_dropped_is_404(
    known: Api, method: str, path: str, body: Any, parameters: dict[str, Any]
) -> None:
    known.things.drop()

    reply = await known.send(method, path, body, **parameters)

    assert (reply.status, reply.json["message"]) == (404, "Collection 'things' does not exist")
    assert "things" not in known.mongo[known.db].list_collection_names()


@pytest.mark.parametrize(("method", "path", "body", "parameters"), WRITES)
async def test_a_write_to_a_collection_that_was_made_anew_goes_there(
    known: Api, method: str, path: str, body: Any, parameters: dict[str, Any]
) -> None:
    known.things.drop()
    known.mongo[known.db].create_collection("things")

    reply = await known.send(method, path, body, **parameters)

    assert reply.status in (200, 201)
    if "_indexes" in path:
        assert "a" in known.things.index_information()
    else:
        written = len(body) if method == "POST" and isinstance(body, list) else 1
        assert known.things.count_documents({}) == written


async def test_writers_do_not_bring_back_what_is_deleted_under_them(api: Api) -> None:
    etag = (await api.put("/things", {})).headers["etag"]
    started = [asyncio.Event() for _ in range(8)]

    async def write(first: asyncio.Event) -> list[int]:
        """Write until the collection is gone, and a little longer."""
        statuses: list[int] = []
        while statuses.count(404) < 3 and len(statuses) < 2000:
            statuses.append((await api.post("/things", {"a": 1})).status)
            first.set()
        return statuses

    async with asyncio.TaskGroup() as group:
        writers = [group.create_task(write(event)) for event in started]
        for event in started:
            await event.wait()
        deleted = await api.delete("/things", headers={"if-match": etag})

    assert deleted.status == 204
    for statuses in (writer.result() for writer in writers):
        assert statuses == [201] * (len(statuses) - 3) + [404] * 3
    assert "things" not in api.mongo[api.db].list_collection_names()


async def test_another_instance_obeys_the_schema_of_the_new_collection(
    known: Api, other_instance: Api
) -> None:
    other = Api(other_instance.service, known.mongo, known.db, known.host)
    await other.put("/_schemas")
    await other.put("/_schemas/person", PERSON, wm="upsert")
    known.things.drop()
    made = await other.put("/things", {"jsonSchema": {"schemaId": "person"}})

    refused = await known.post("/things", {"a": 1})

    assert (made.status, refused.status) == (201, 400)
    assert known.things.count_documents({}) == 0


async def test_what_was_known_of_a_former_collection_is_not_held_of_the_new_one(
    api: Api, other_instance: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """News that come within a request clear what is remembered before them, and not after."""
    find = Catalog.find_collection

    async def find_and_hear(catalog: Catalog, *where: Any, **how: Any) -> Any:
        found = await find(catalog, *where, **how)
        catalog.announce()
        return found

    other = Api(other_instance.service, api.mongo, api.db, api.host)
    await other.put("/others")
    await other.put("/_schemas")
    await other.put("/_schemas/person", PERSON, wm="upsert")
    with monkeypatch.context() as patch:
        patch.setattr(Catalog, "find_collection", find_and_hear)
        assert (await api.post("/things", {"_id": "seen"})).status == 201
    api.things.drop()
    await other.put("/things", {"jsonSchema": {"schemaId": "person"}})

    assert (await api.post("/things", {"a": 1})).status == 400
    assert api.things.count_documents({}) == 0


async def test_metadata_of_a_collection_that_others_have_dropped_is_not_written(known: Api) -> None:
    known.things.drop()

    reply = await known.patch("/things", {"a": 1})

    assert reply.status == 404
    assert known.mongo[known.db]["_properties"].find_one({"_id": "_properties.things"}) is None


@pytest.mark.parametrize("body", [{"_id": 1}, [{"_id": 1}, {"_id": 2}]])
@pytest.mark.parametrize("fault", [{"closeConnection": True}, {"errorCode": UNREACHABLE}])
async def test_a_write_is_tried_again_after_a_fault_of_the_server_and_done_once(
    known: Api, body: Any, fault: dict[str, Any]
) -> None:
    count = len(body) if isinstance(body, list) else 1
    with failing(known.mongo, "insert", mode={"times": 1}, **fault):
        reply = await known.post("/things", body)

    assert reply.status in (200, 201)
    assert known.things.count_documents({}) == 1 + count


async def test_an_index_of_our_own_does_not_make_the_collection(
    known: Api, mongo_uri: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(mongo_uri)
    store = Store(client)

    async def find_and_lose(*arguments: Any) -> Any:
        found = await find_collection(*arguments)
        await client[known.db]["things"].drop()
        return found

    monkeypatch.setattr("docgraph.store.writes.find_collection", find_and_lose)
    await store.writes.ensure_index(
        known.db, "things", {"a": 1}, deadline=Deadline.after_ms(30_000), create=False
    )
    await client.close()

    assert "things" not in known.mongo[known.db].list_collection_names()


class Connection:
    """What the driver tells of a connection."""

    supports_sessions = True
    logical_session_timeout_minutes = 30

    def __init__(self, max_wire_version: int) -> None:
        self.max_wire_version = max_wire_version


@pytest.mark.parametrize(("version", "expected"), [(13, False), (17, True), (25, True)])
async def test_databases_before_6_are_asked_by_name(
    mongo_uri: str, version: int, expected: bool
) -> None:
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(mongo_uri)
    await client.admin.command("ping")
    command: dict[str, Any] = {"insert": "things"}

    async with pinned(client, bytes(16)) as session:
        assert session is not None
        connection = cast(AsyncConnection, Connection(version))
        session._apply_to(command, False, client.read_preference, connection)

    await client.close()
    assert ("collectionUUID" in command) is expected


async def test_under_api_strict_collections_are_known_by_name(mongo_uri: str) -> None:
    api = ServerApi("1", strict=True)
    client: AsyncMongoClient[dict[str, Any]] = AsyncMongoClient(mongo_uri, server_api=api)

    async with pinned(client, bytes(16)) as session:
        assert session is None

    await client.close()
