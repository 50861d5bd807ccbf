"""Streams that stay open while they are judged again, though time passes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime, timedelta

import pytest

from tests.http.access_harness import ADA, ADMIN, allow, guarded
from tests.http.harness import Document, Mongo, Service
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


async def renew(service: Service) -> Document:
    """Judge the only session there is; the row filter that it has then."""
    renewals = service.app.plugins.find("events")._renewals
    (session,) = renewals.sessions
    await service.there(renewals._reauthorize(session))
    return dict(session.subscription.row or {})


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


async def test_a_row_filter_goes_with_the_time(
    service: Service, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its client stays, loses nothing, gets nothing twice, and no more of what is over."""

    async def nobody_looks() -> None:
        """Time passes in the filter when this test says so, and not by itself."""

    monkeypatch.setattr(
        service.app.plugins.find("events")._renewals, "reauthorize_due", nobody_looks
    )
    rows = {"until": {"$gt": "@now"}}
    await allow(service, "path-prefix('/notes')", "user", mongo={"readFilter": rows})
    async with listen(service, ALL, ADA, by=by) as ada:
        first: datetime = (await renew(service))["until"]["$gt"]
        soon, late = first + timedelta(milliseconds=1), first + timedelta(days=1)
        notes(service).insert_many([{"_id": 1, "until": late}, {"_id": 2, "until": soon}])
        before = await ada.take(2)
        while (await renew(service))["until"]["$gt"] <= soon:
            pass
        notes(service).insert_many([{"_id": 3, "until": soon}, {"_id": 4, "until": late}])
        await renew(service)
        notes(service).insert_one({"_id": 5, "until": late})
        events = [*before, *await ada.take(2)]
    assert [one["documentKey"]["_id"] for one in events] == [1, 2, 4, 5]
