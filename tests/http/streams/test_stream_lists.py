"""`GET /<collection>/_streams`: the streams that the caller may open (decision 42)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.observe.engine_events import CommandFinished
from tests.http.access_harness import ADA, ADMIN, NOBODY, allow, guarded
from tests.http.harness import Document, Mongo, Reply, Service, listening
from tests.http.hosts import module_application
from tests.http.stream_harness import emptied

pytestmark = pytest.mark.anyio

FROM = {"$match": {"fullDocument.from": {"$var": "from"}}}
STREAMS: list[Document] = [
    {"uri": "all", "stages": []},
    {
        "uri": "mine",
        "stages": [
            {"$match": {"fullDocument.to": {"$var": "@user._id"}}},
            {"$ifvar": ["from", FROM, {"$match": {"fullDocument.n": {"$gt": {"$var": "least"}}}}]},
            {"$match": {"fullDocument.n": {"$lt": {"$var": ["most", 9]}}}},
        ],
        "notify_when": {"fullDocument::room": {"$var": "room"}},
        "snapshot": {"filter": {"team": {"$var": "team"}}},
        "before": True,
    },
    {"uri": "a b", "stages": [FROM]},
]
DESCRIBED: list[Document] = [
    {"uri": "all", "variables": [], "snapshot": False, "before": False},
    {
        "uri": "mine",
        "variables": [
            {"name": "from", "required": False},
            {"name": "least", "required": True},
            {"name": "most", "required": False, "default": 9},
            {"name": "team", "required": True},
        ],
        "notify_when": "room",
        "snapshot": True,
        "before": True,
    },
    {
        "uri": "a b",
        "variables": [{"name": "from", "required": True}],
        "snapshot": False,
        "before": False,
    },
]


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    # It would clear what is kept, some time after a change: one test counts what is read.
    alone: Document = {"collectionsUpdater": {"enabled": False}}
    async with guarded(mongo_client, mongo_uri, alone) as one:
        for name, streams in (("notes", STREAMS), ("plain", [])):
            reply = await one.request("PUT", f"/{name}", headers=ADMIN, json={"streams": streams})
            assert reply.status in (200, 201), reply.text
        yield one


@pytest.fixture
async def service(server: Service) -> AsyncIterator[Service]:
    async with emptied(server, "notes"):
        yield server


async def get(service: Service, who: Any, path: str = "/notes/_streams") -> Reply:
    return await service.request("GET", path, headers=who)


async def names(service: Service, who: Any) -> list[str]:
    reply = await get(service, who)
    assert reply.status == 200, reply.text
    return [one["uri"] for one in reply.json]


async def test_streams_are_listed_with_what_a_client_may_request(service: Service) -> None:
    reply = await get(service, ADMIN)
    assert (reply.status, reply.json) == (200, DESCRIBED)
    assert (await get(service, ADMIN, "/plain/_streams")).json == []
    head = await service.request("HEAD", "/notes/_streams", headers=ADMIN)
    assert head.status == 200


async def test_a_rule_for_a_stream_lists_it_and_no_other(service: Service) -> None:
    await allow(service, "path('/notes/_streams/mine')", "user")
    assert await names(service, ADA) == ["mine"]
    await allow(service, "path('/notes/_streams/all')", "$unauthenticated")
    assert await names(service, ADA) == ["all", "mine"]
    assert await names(service, NOBODY) == ["all"]


async def test_a_rule_for_the_path_of_the_list_shows_no_stream(service: Service) -> None:
    await allow(service, "path('/notes/_streams')", "user")
    assert await names(service, ADA) == []
    # It is then told whether the collection exists, as below any other path of its rules.
    await allow(service, "path('/missing/_streams')", "user")
    assert (await get(service, ADA, "/missing/_streams")).status == 404


async def test_a_uri_is_encoded_in_the_path_that_rules_see(service: Service) -> None:
    await allow(service, "path('/notes/_streams/a b')", "user")
    assert await names(service, ADA) == ["a b"]


@pytest.mark.parametrize("path", ["/notes/_streams", "/plain/_streams", "/missing/_streams"])
async def test_nobody_learns_what_exists(service: Service, path: str) -> None:
    """The list is rejected as a stream is, whatever there is."""
    for who in (ADA, NOBODY):
        listed, opened = await get(service, who, path), await get(service, who, f"{path}/all")
        assert listed.status == opened.status == (403 if who else 401)
        assert listed.text == opened.text
        assert listed.headers.get("www-authenticate") == opened.headers.get("www-authenticate")


@pytest.mark.parametrize("path", ["/notes/_streams", "/missing/_streams"])
async def test_rejected_callers_cannot_make_the_database_work(service: Service, path: str) -> None:
    await get(service, ADA, path)
    with listening(CommandFinished) as commands:
        for _ in range(3):
            assert (await get(service, ADA, f"{path}?nocache")).status == 403
    assert [one.command for one in commands if one.collection == "_properties"] == []


async def test_other_methods_and_resources_are_not_approved(service: Service) -> None:
    await allow(service, "path('/notes/_streams/all') and method(GET)", "user")
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        reply = await service.request(method, "/notes/_streams", headers=ADA)
        assert reply.status == 403, method
    for path in ("/notes", "/notes/_meta", "/notes/_aggrs", "/notes/_streams/mine"):
        assert (await get(service, ADA, path)).status == 403, path
    assert (await service.request("POST", "/notes/_streams", headers=ADMIN)).status == 405


async def test_a_stored_stream_that_cannot_work_is_not_listed(service: Service) -> None:
    stored = service.mongo[service.db]["_properties"]
    entries = [{"uri": "bad", "stages": 5}, {"stages": []}, 7, {"uri": "good", "stages": []}]
    service.mongo[service.db]["broken"].insert_one({})
    stored.replace_one({"_id": "_properties.broken"}, {"streams": entries}, upsert=True)
    reply = await get(service, ADMIN, "/broken/_streams?nocache")
    assert [one["uri"] for one in reply.json] == ["good"]


async def test_a_long_list_is_bounded(service: Service) -> None:
    streams = [{"uri": f"s{number}", "stages": []} for number in range(120)]
    await service.request("PUT", "/long", headers=ADMIN, json={"streams": streams})
    assert len((await get(service, ADMIN, "/long/_streams")).json) == 100
