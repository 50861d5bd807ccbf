"""A stream tells nobody what a plain GET of theirs would not: by no token, stage or neighbour."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.http.access_harness import ADA, ADMIN, allow, caller, guarded
from tests.http.harness import Document, Mongo, Service, eventually
from tests.http.hosts import module_application
from tests.http.stream_harness import Refused, emptied, listen, notes

pytestmark = pytest.mark.anyio

ALL = "/notes/_streams/all"
STREAMS: list[Document] = [
    {"uri": "all", "stages": []},
    {"uri": "token", "stages": [{"$set": {"fullDocument.token": "$_id._data"}}]},
]


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        reply = await one.request("PUT", "/notes", headers=ADMIN, json={"streams": STREAMS})
        assert reply.status == 201, reply.text
        yield one


@pytest.fixture
async def service(server: Service) -> AsyncIterator[Service]:
    async with emptied(server, "notes"):
        yield server


async def reject(service: Service, path: str, who: Document, by: str) -> Refused:
    with pytest.raises(Refused) as refused:
        async with listen(service, path, who, by=by):
            pass
    return refused.value


@pytest.mark.parametrize(
    ("value", "alike"), [(1, {"$numberInt": "1"}), ({"a": 1}, {"a": {"$numberInt": "1"}})]
)
async def test_values_that_only_look_alike_as_json_are_different_rows(
    service: Service, by: str, value: Any, alike: Any
) -> None:
    rows = {"team": {"$eq": "@user.team"}}
    await allow(service, "path-prefix('/notes')", "user", mongo={"readFilter": rows})
    async with (
        listen(service, ALL, caller("one", "user", team=value), by=by) as one,
        listen(service, ALL, caller("two", "user", team=alike), by=by) as two,
    ):
        notes(service).insert_one({"_id": "ones", "team": value})
        notes(service).insert_one({"_id": "twos", "team": alike})
        assert (await one.next())["documentKey"] == {"_id": "ones"}
        assert (await two.next())["documentKey"] == {"_id": "twos"}


async def test_who_is_not_shown_ids_cannot_find_them_by_tokens_made_up(
    service: Service, by: str
) -> None:
    """What comes after a token says on which side of it that of an event is."""
    await allow(service, "path-prefix('/notes')", "user", mongo={"projectResponse": {"name": 1}})
    async with listen(service, ALL, ADA, by=by) as ada:
        notes(service).insert_one({"_id": "hidden", "name": "n"})
        await ada.next()
        for path, header in ((f"{ALL}?resume-after=82AB", {}), (ALL, {"Last-Event-ID": "82AB"})):
            refused = await reject(service, path, {**ADA, **header}, by)
            assert refused.status == 400
            assert refused.json is not None
            assert "cannot go on after an event" in refused.json["message"]


async def test_who_is_not_shown_ids_is_not_told_them_by_stages(service: Service, by: str) -> None:
    rule = {"projectResponse": {"name": 1}}
    await allow(service, "path-prefix('/notes')", "user", mongo=rule)
    await allow(service, "path-prefix('/notes')", "reader", mongo={"projectResponse": {"x": 0}})
    refused = await reject(service, "/notes/_streams/token", ADA, by)
    assert refused.status == 403
    assert refused.json is not None
    assert refused.json["message"].startswith("Cannot open change stream: Security violation: ")
    reader = caller("eve", "reader")
    async with listen(service, "/notes/_streams/token", reader, by=by) as eve:
        notes(service).insert_one({"_id": 1})
        assert (await eve.next())["fullDocument"]["token"]


@pytest.mark.parametrize(
    ("uri", "rows", "status"),
    [
        ("written", None, 403),  # by somebody else than us: a stage that writes
        ("all", {"$expr": {"$eq": ["$$ROOT.team", "blue"]}}, 501),
    ],
)
async def test_what_cannot_be_opened_for_a_caller_is_answered(
    service: Service, by: str, uri: str, rows: Document | None, status: int
) -> None:
    """Also what is refused before the database is asked; nothing is left waiting."""
    entry = {"uri": "written", "stages": [{"_$out": "elsewhere"}]}
    metadata = service.mongo[service.db]["_properties"]
    metadata.update_one({"_id": "_properties.notes"}, {"$push": {"streams": entry}})
    mongo = {"readFilter": rows} if rows else None
    await allow(service, "path-prefix('/notes')", "user", mongo=mongo)
    refused = await reject(service, f"/notes/_streams/{uri}?nocache", ADA, by)
    assert refused.status == status
    metadata.update_one({"_id": "_properties.notes"}, {"$set": {"streams": STREAMS}})
    plugin = service.app.plugins.find("events")
    # An ASGI server reports the end of a connection in a turn of its own.
    await eventually(lambda: not (plugin._streams._places._taken or plugin._renewals.sessions))
