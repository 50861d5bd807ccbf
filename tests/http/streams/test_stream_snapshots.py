"""`snapshot=true`: the documents first, then every change after that read."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import pytest

from tests.http.access_harness import ADA, ADMIN, NOBODY, allow, guarded
from tests.http.harness import Document, Mongo, Service
from tests.http.hosts import module_application
from tests.http.stream_harness import SSE, WEBSOCKET, Refused, emptied, listen, notes

pytestmark = pytest.mark.anyio

PAUSE = 0.003  # seconds between two writes, so that a slow client does not cost more of them

STREAMS: list[Document] = [
    {"uri": "all", "stages": [], "snapshot": {}},
    {"uri": "plain", "stages": []},
    {"uri": "few", "stages": [], "snapshot": {"limit": 2}},
    {
        "uri": "room",
        "stages": [{"$match": {"fullDocument.room": {"$var": "room"}}}],
        "snapshot": {"filter": {"room": {"$var": "room"}}},
        "notify_when": {"fullDocument::kind": {"$var": "kind"}},
    },
    {"uri": "hidden", "stages": [], "snapshot": {"filter": {"secret": {"$var": "value"}}}},
]


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(
        mongo_client, mongo_uri, {"graphql": {"default-limit": 50, "max-limit": 50}}
    ) as one:
        reply = await one.request("PUT", "/notes", headers=ADMIN, json={"streams": STREAMS})
        assert reply.status in (200, 201), reply.text
        yield one


@pytest.fixture
async def service(server: Service) -> AsyncIterator[Service]:
    async with emptied(server, "notes"):
        yield server


def stream(uri: str, **parameters: str) -> str:
    query = "&".join(f"{name}={quote(value)}" for name, value in parameters.items())
    return f"/notes/_streams/{uri}?snapshot=true" + (f"&{query}" if query else "")


async def read_snapshot(client: Any) -> list[Document]:
    """The documents until the end of the snapshot."""
    found = []
    while (event := await client.next())["operationType"] != "snapshot-end":
        assert event["operationType"] == "snapshot"
        found.append(event["fullDocument"])
    return found


def ids(documents: list[Document]) -> list[Any]:
    return sorted(document["_id"] for document in documents)


async def refusal(service: Service, path: str, who: Document) -> Refused:
    with pytest.raises(Refused) as refused:
        async with listen(service, path, who):
            pass
    return refused.value


async def test_the_documents_come_first_and_then_the_changes(service: Service, by: str) -> None:
    notes(service).insert_many([{"_id": n, "n": n} for n in range(300)])
    async with listen(service, stream("all"), ADMIN, by=by) as client:
        first = await client.next()
        assert first == {
            "fullDocument": {"_id": first["documentKey"]["_id"], "n": first["documentKey"]["_id"]},
            "documentKey": first["documentKey"],
            "operationType": "snapshot",
        }
        rest = await read_snapshot(client)
        assert ids([first["fullDocument"], *rest]) == list(range(300))
        notes(service).insert_one({"_id": 300})
        event = await client.next()
        assert (event["operationType"], event["documentKey"]) == ("insert", {"_id": 300})


async def test_nothing_is_missing_or_doubled_beside_writes(service: Service, by: str) -> None:
    """Each number is counted in the documents or in the events, and never in both."""
    notes(service).insert_many([{"_id": n, "v": 0} for n in range(20)])
    stop = asyncio.Event()

    def write(value: int) -> None:
        if value < 400:  # a snapshot may have 500 documents, and clients may be slow
            notes(service).insert_one({"_id": 100 + value})
        notes(service).update_one({"_id": value % 20}, {"$inc": {"v": 1}})

    async def keep_writing() -> int:
        value = 0
        while not stop.is_set() or value < 50:
            await asyncio.to_thread(write, value)
            await asyncio.sleep(PAUSE)
            value += 1
        return value

    writing = asyncio.create_task(keep_writing())
    for _ in range(5):
        async with listen(service, stream("all"), ADMIN, by=by) as client:
            state = {one["_id"]: one for one in await read_snapshot(client)}
            for _ in range(10):
                event = await client.next()
                document = event["fullDocument"]
                known = state.get(document["_id"])
                if event["operationType"] == "insert":
                    assert known is None, "told twice"
                    assert document["_id"] == max(99, *state) + 1, "one is missing"
                else:
                    assert known is not None
                    updated = event["updateDescription"]["updatedFields"]["v"]
                    assert updated == known["v"] + 1, "missing or told twice"
                    document = {**document, "v": updated}
                state[document["_id"]] = document
    stop.set()
    await writing


async def test_the_end_has_an_id_to_resume_after(service: Service) -> None:
    notes(service).insert_one({"_id": 1})
    async with listen(service, stream("all"), ADMIN) as client:
        assert ids(await read_snapshot(client)) == [1]
        # A client that comes back before the end has to read the documents again.
        assert client.place == ""
        assert [bool(id) for id in client.ids] == [False, True]
        end = client.ids[-1]
    notes(service).insert_many([{"_id": 2}, {"_id": 3}])
    for by in (SSE, WEBSOCKET):
        path = stream("all", **{"resume-after": end})  # as a browser does, with the same URL
        async with listen(service, path, ADMIN, by=by) as client:
            events = await client.take(2)
        assert [(one["operationType"], one["documentKey"]["_id"]) for one in events] == [
            ("insert", 2),
            ("insert", 3),
        ]


async def test_ids_are_in_the_messages_if_they_are_requested(service: Service) -> None:
    path = stream("all", **{"event-ids": "true"})
    async with listen(service, path, ADMIN, by=WEBSOCKET) as client:
        end = await client.next()
        assert list(end) == ["_id", "clusterTime", "operationType"]
        notes(service).insert_one({"_id": 1})
        assert (await client.next())["_id"]["_data"] > end["_id"]["_data"]


async def test_variables_and_notify_when_select_documents(service: Service, by: str) -> None:
    documents = [
        {"_id": 1, "room": "blue", "kind": "a"},
        {"_id": 2, "room": "blue", "kind": "b"},
        {"_id": 3, "room": "red", "kind": "a"},
    ]
    notes(service).insert_many(documents)
    blue = json.dumps({"room": "blue"})
    async with listen(service, stream("room", avars=blue), ADMIN, by=by) as client:
        assert ids(await read_snapshot(client)) == [1, 2]
    async with listen(service, stream("room", avars=blue, kind="a"), ADMIN, by=by) as client:
        assert ids(await read_snapshot(client)) == [1]
    refused = await refusal(service, stream("room"), ADMIN)
    assert (refused.status, refused.json["message"]) == (400, "variable room not bound")


async def test_too_many_documents_are_an_error_before_the_first(service: Service) -> None:
    notes(service).insert_many([{"_id": n} for n in range(3)])
    refused = await refusal(service, stream("few"), ADMIN)
    assert (refused.status, refused.json["code"]) == (422, "snapshot-too-large")
    notes(service).delete_one({"_id": 0})
    async with listen(service, stream("few"), ADMIN) as client:
        assert ids(await read_snapshot(client)) == [1, 2]
    # Ten times the most documents of a query, which this server limits to 50.
    notes(service).insert_many([{"_id": 10 + n} for n in range(498)])
    async with listen(service, stream("all"), ADMIN) as client:
        assert len(await read_snapshot(client)) == 500
    notes(service).insert_one({"_id": 5})
    assert (await refusal(service, stream("all"), ADMIN)).status == 422


async def test_a_stream_without_snapshot_says_so(service: Service) -> None:
    refused = await refusal(service, stream("plain"), ADMIN)
    assert (refused.status, refused.json["message"]) == (400, "the stream has no snapshot")
    async with listen(service, "/notes/_streams/all?snapshot=false", ADMIN) as client:
        notes(service).insert_one({"_id": 1})
        assert (await client.next())["operationType"] == "insert"


async def test_the_caller_needs_the_permission_to_get_the_collection(service: Service) -> None:
    await allow(service, "path-prefix('/notes/_streams')", "$unauthenticated")
    notes(service).insert_one({"_id": 1})
    for who in (ADA, NOBODY):
        refused = await refusal(service, stream("all"), who)
        assert refused.status == 403
    await allow(service, "path('/notes') and method(POST)", "$unauthenticated")
    assert (await refusal(service, stream("all"), ADA)).status == 403
    await allow(service, "path('/notes') and method(GET)", "user")
    async with listen(service, stream("all"), ADA) as client:
        assert ids(await read_snapshot(client)) == [1]
    assert (await refusal(service, stream("all"), NOBODY)).status == 403


async def test_rows_and_properties_are_those_of_a_list(service: Service, by: str) -> None:
    await allow(service, "path-prefix('/notes/_streams')", "user")
    mongo = {"readFilter": {"team": "@user.team"}, "projectResponse": {"secret": 0}}
    await allow(service, "path('/notes')", "user", mongo=mongo)
    documents = [{"_id": 1, "team": "blue", "secret": "s"}, {"_id": 2, "team": "red"}]
    notes(service).insert_many(documents)
    async with listen(service, stream("all"), ADA, by=by) as client:
        assert await read_snapshot(client) == [{"_id": 1, "team": "blue"}]
    # A variable cannot probe a property that a list would not show.
    probe = stream("hidden", avars=json.dumps({"value": "s"}))
    refused = await refusal(service, probe, ADA)
    assert refused.status == 403, refused.text


async def test_a_caller_who_sees_no_ids_gets_documents_without_them(service: Service) -> None:
    mongo = {"projectResponse": {"_id": 0}}
    await allow(service, "path-prefix('/notes')", "user", mongo=mongo)
    notes(service).insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 2}])
    async with listen(service, stream("all", **{"event-ids": "true"}), ADA) as client:
        events = await client.take(3)
        assert client.ids == ["", "", ""]
    assert sorted(one["fullDocument"]["n"] for one in events[:2]) == [1, 2]
    assert all(list(one) == ["fullDocument", "operationType"] for one in events[:2])
    assert list(events[2]) == ["clusterTime", "operationType"]


async def test_ids_of_all_types_and_large_documents_arrive(service: Service, by: str) -> None:
    text = "x" * 400_000
    ids = [None, 1, 1.5, "1", {"a": 1}, True, *(f"large{n}" for n in range(40))]
    notes(service).insert_many(
        [{"_id": one, "text": text if str(one).startswith("large") else ""} for one in ids]
    )
    async with listen(service, stream("all"), ADMIN, by=by) as client:
        found = [document["_id"] for document in await read_snapshot(client)]
    assert sorted(map(str, found)) == sorted(map(str, ids))


async def test_documents_that_exceed_one_read_arrive(service: Service) -> None:
    text = "x" * 2_500_000
    notes(service).insert_many([{"_id": n, "text": text} for n in range(16)])
    async with listen(service, stream("all"), ADMIN) as client:
        assert ids(await read_snapshot(client)) == list(range(16))


async def test_a_client_that_resumes_before_the_next_write_misses_nothing(
    service: Service, by: str
) -> None:
    """The id of the end is the moment after the read, which may not have come yet."""
    notes(service).insert_one({"_id": 1})
    async with listen(service, stream("all"), ADMIN) as client:
        assert ids(await read_snapshot(client)) == [1]
        end = client.ids[-1]
    path = stream("all", **{"resume-after": end})
    async with listen(service, path, ADMIN, by=by) as client:
        notes(service).insert_one({"_id": 2})
        assert (await client.next())["documentKey"] == {"_id": 2}
