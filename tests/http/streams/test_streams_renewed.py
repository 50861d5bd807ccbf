"""Streams that stay open while they are judged again, though time passes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.http.access_harness import ADA, ADMIN, allow, guarded
from tests.http.harness import Document, Mongo, Service, eventually
from tests.http.hosts import module_application
from tests.http.stream_harness import emptied, listen, notes

pytestmark = pytest.mark.anyio

ALL = "/notes/_streams/all"
VARIABLES = {
    "now": "@now",
    "random": "@rnd(64)",
    "seconds": "@request.epochTimeStamp",
    "date": "@request.dateTime",
    "request": "@request",
    "permissions": "@dbPermissions",
}


def build_stream(uri: str, variable: str) -> Document:
    return {"uri": uri, "stages": [{"$match": {"fullDocument.x": {"$ne": {"$var": variable}}}}]}


STREAMS: list[Document] = [
    {"uri": "all", "stages": []},
    {"uri": "past", "stages": [{"$match": {"fullDocument.x": {"$lte": {"$var": "@now"}}}}]},
    *(build_stream(uri, variable) for uri, variable in VARIABLES.items()),
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


async def renew(service: Service) -> None:
    """Judge the only session there is."""
    renewals = service.app.plugins.find("events")._renewals
    (session,) = renewals.sessions
    await service.there(renewals._reauthorize(session))


async def find_unused_hub(service: Service) -> Any:
    """The hub without sources: those of earlier tests have channels for a second or so."""
    hub = service.app.plugins.find("events")._hub
    await eventually(lambda: not hub._open_sources)
    return hub


@pytest.mark.parametrize("uri", VARIABLES)
async def test_variables_of_the_moment_are_those_of_the_beginning(
    service: Service, by: str, uri: str
) -> None:
    await allow(service, "path-prefix('/notes')", "user")
    async with listen(service, f"/notes/_streams/{uri}", ADA, by=by) as ada:
        for _ in range(3):
            await renew(service)
        notes(service).insert_one({"_id": uri})
        assert (await ada.next())["documentKey"] == {"_id": uri}


async def test_the_time_in_a_row_filter_is_that_of_the_decision(service: Service, by: str) -> None:
    """Its client stays, also when it is judged again, and gets no more of what is over."""
    rows = {"until": {"$gt": "@now"}}
    await allow(service, "path-prefix('/notes')", "user", mongo={"readFilter": rows})
    async with listen(service, ALL, ADA, by=by) as ada:
        begun = datetime.now(UTC).replace(tzinfo=None)
        late = begun + timedelta(days=1)
        notes(service).insert_many([{"_id": 1, "until": late}, {"_id": 2, "until": begun}])
        first = await ada.next()
        await renew(service)
        over = datetime.now(UTC).replace(tzinfo=None)
        notes(service).insert_many([{"_id": 3, "until": over}, {"_id": 4, "until": late}])
        events = [first, await ada.next()]
        assert ada.closed is None
    assert [one["documentKey"]["_id"] for one in events] == [1, 4]


async def test_filters_that_differ_in_the_time_alone_are_equal(service: Service, by: str) -> None:
    rows = {"until": {"$gt": "@now"}, "at": {"$ne": "@request.dateTime"}}
    await allow(service, "path-prefix('/notes')", "user", mongo={"readFilter": rows})
    hub = await find_unused_hub(service)
    async with listen(service, ALL, ADA, by=by), listen(service, ALL, ADA, by=by):
        (source,) = hub._sources.values()
        assert (len(source.channels), hub._limits.slots.count) == (1, 1)


async def test_the_time_in_stages_is_that_of_the_event(service: Service, by: str) -> None:
    await allow(service, "path-prefix('/notes')", "user")
    hub = await find_unused_hub(service)
    async with (
        listen(service, "/notes/_streams/past", ADA, by=by) as ada,
        listen(service, "/notes/_streams/past", ADA, by=by),
    ):
        (source,) = hub._sources.values()
        assert len(source.channels) == 1
        now = datetime.now(UTC).replace(tzinfo=None)
        notes(service).insert_many([{"_id": 1, "x": now + timedelta(days=1)}, {"_id": 2, "x": now}])
        assert (await ada.next())["documentKey"] == {"_id": 2}


async def test_who_had_an_event_resumes_after_it_though_its_time_is_over(
    service: Service, by: str
) -> None:
    """The database rejects the token of an event that the filter of the cursor leaves out."""
    rows = {"until": {"$gt": "@now"}}
    await allow(service, "path-prefix('/notes')", "user", mongo={"readFilter": rows})
    now = datetime.now(UTC).replace(tzinfo=None)
    async with listen(service, f"{ALL}?event-ids=true", ADMIN, by=by) as admin:
        notes(service).insert_one({"_id": "over", "until": now})
        token = (await admin.next())["_id"]["_data"]
    notes(service).insert_one({"_id": "next", "until": now + timedelta(days=1)})
    async with listen(service, f"{ALL}?resume-after={token}", ADA, by=by) as ada:
        assert (await ada.next())["documentKey"] == {"_id": "next"}
