"""`before=true`: events with the document as it was before the change, if the caller may see it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.http.access_harness import ADA, ADMIN, allow, guarded
from tests.http.harness import Document, Mongo, Service, until
from tests.http.hosts import module_application
from tests.http.stream_harness import Refused, emptied, listen, notes

pytestmark = pytest.mark.anyio

BEFORE = "fullDocumentBeforeChange"
STREAMS: list[Document] = [
    {"uri": "both", "stages": [], "before": True},
    {"uri": "plain", "stages": []},
    {
        "uri": "left",
        "stages": [{"$match": {f"{BEFORE}.room": {"$var": "room"}}}],
        "before": True,
    },
]


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        for name in ("notes", "users"):
            reply = await one.request("PUT", f"/{name}", headers=ADMIN, json={"streams": STREAMS})
            assert reply.status in (200, 201), reply.text
        yield one


@pytest.fixture
async def service(server: Service) -> AsyncIterator[Service]:
    async with emptied(server, "notes"):
        yield server


async def test_events_have_the_document_before_the_change(service: Service, by: str) -> None:
    async with listen(service, "/notes/_streams/both?before=true", ADMIN, by=by) as client:
        notes(service).insert_one({"_id": 1, "n": 1})
        notes(service).update_one({"_id": 1}, {"$set": {"n": 2}})
        notes(service).replace_one({"_id": 1}, {"n": 3})
        notes(service).delete_one({"_id": 1})
        events = await client.take(4)
    assert [one.get(BEFORE) for one in events] == [
        None,
        {"_id": 1, "n": 1},
        {"_id": 1, "n": 2},
        {"_id": 1, "n": 3},
    ]
    assert [one["operationType"] for one in events] == ["insert", "update", "replace", "delete"]


async def test_it_has_to_be_requested_and_allowed(service: Service, by: str) -> None:
    for path in ("/notes/_streams/both", "/notes/_streams/both?before=false"):
        async with listen(service, path, ADMIN, by=by) as client:
            notes(service).insert_one({"_id": path})
            notes(service).delete_one({"_id": path})
            assert not any(BEFORE in one for one in await client.take(2))
    with pytest.raises(Refused) as refused:
        async with listen(service, "/notes/_streams/plain?before=true", ADMIN, by=by):
            pass
    assert refused.value.status == 400
    assert "before" in refused.value.json["message"]


async def test_stages_see_the_document_before_the_change(service: Service, by: str) -> None:
    path = '/notes/_streams/left?before=true&avars={"room":"blue"}'.replace('"', "%22")
    async with listen(service, path, ADMIN, by=by) as client:
        notes(service).insert_one({"_id": 1, "room": "blue"})
        notes(service).update_one({"_id": 1}, {"$set": {"room": "red"}})
        notes(service).update_one({"_id": 1}, {"$set": {"room": "green"}})
        notes(service).insert_one({"_id": 2, "room": "blue"})
        notes(service).delete_one({"_id": 2})
        first, second = await client.take(2)
    assert first["fullDocument"]["room"] == "red"
    assert second[BEFORE] == {"_id": 2, "room": "blue"}


async def test_it_is_shown_only_if_the_row_filter_admits_it(service: Service, by: str) -> None:
    mongo = {"readFilter": {"team": "@user.team"}}
    await allow(service, "path-prefix('/notes')", "user", mongo=mongo)
    async with listen(service, "/notes/_streams/both?before=true", ADA, by=by) as client:
        notes(service).insert_one({"_id": 1, "team": "red", "n": 1})  # not visible
        notes(service).update_one({"_id": 1}, {"$set": {"team": "blue"}})  # enters
        notes(service).update_one({"_id": 1}, {"$set": {"n": 2}})  # stays
        notes(service).update_one({"_id": 1}, {"$set": {"team": "red"}})  # leaves
        notes(service).delete_one({"_id": 1})  # not visible
        notes(service).insert_one({"_id": 2, "team": "blue"})
        notes(service).delete_one({"_id": 2})
        events = await client.take(5)
    assert [(one["operationType"], one.get(BEFORE)) for one in events] == [
        ("insert", None),
        ("update", {"_id": 1, "team": "blue", "n": 1}),
        ("delete", {"_id": 1, "team": "blue", "n": 2}),
        ("insert", None),
        ("delete", {"_id": 2, "team": "blue"}),
    ]


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        ({"secret": 0, "deep.secret": 0}, {"_id": 1, "n": 1, "deep": {"x": 1}}),
        ({"n": 1}, {"n": 1}),
        ({"_id": 1, "deep.x": 1}, {"_id": 1, "deep": {"x": 1}}),
    ],
    ids=str,
)
async def test_hidden_properties_are_removed_from_it(
    service: Service, by: str, shown: Document, expected: Document
) -> None:
    await allow(service, "path-prefix('/notes')", "user", mongo={"projectResponse": shown})
    document = {"_id": 1, "n": 1, "secret": "s", "deep": {"secret": "s", "x": 1}}
    async with listen(service, "/notes/_streams/both?before=true", ADA, by=by) as client:
        notes(service).insert_one(document)
        notes(service).update_one({"_id": 1}, {"$set": {"m": 2}})
        notes(service).delete_one({"_id": 1})
        _, updated, deleted = await client.take(3)
    assert updated[BEFORE] == expected
    deleted[BEFORE].pop("m", None)
    assert deleted[BEFORE] == expected


async def test_passwords_are_removed_from_it(service: Service, by: str) -> None:
    await allow(service, "path-prefix('/users')", "user")
    users = service.mongo[service.db]["users"]
    async with listen(service, "/users/_streams/both?before=true", ADA, by=by) as client:
        users.insert_one({"_id": f"eve-{by}", "password": "$2b$", "roles": []})
        users.delete_one({"_id": f"eve-{by}"})
        _, deleted = await client.take(2)
    assert deleted[BEFORE] == {"_id": f"eve-{by}", "roles": []}


async def test_a_resumed_stream_has_it_as_well(service: Service, by: str) -> None:
    path = "/notes/_streams/both?before=true&event-ids=true"
    async with listen(service, path, ADMIN, by=by) as client:
        notes(service).insert_one({"_id": 1, "n": 1})
        token = (await client.next())["_id"]["_data"]
    notes(service).delete_one({"_id": 1})
    async with listen(service, f"{path}&resume-after={token}", ADMIN, by=by) as client:
        assert (await client.next())[BEFORE] == {"_id": 1, "n": 1}


async def test_a_collection_without_images_says_so(service: Service) -> None:
    images = {"changeStreamPreAndPostImages": {"enabled": False}}
    await service.request("PUT", "/bare", headers=ADMIN, json={"streams": STREAMS})
    service.mongo[service.db].command({"collMod": "bare", **images})

    async def open_stream() -> int:
        try:
            async with listen(service, "/bare/_streams/both?before=true", ADMIN):
                return 200
        except Refused as refused:
            return refused.status

    # Whether there are images is cached for a second.
    await until(open_stream, 400)
