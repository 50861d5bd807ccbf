"""Ids of events that a stream does not know: of another one, or of itself before it was changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest

from tests.http.harness import Mongo
from tests.http.hosts import module_application
from tests.http.rest_harness import Api, serving
from tests.http.stream_harness import SSE, WEBSOCKET, Refused, listen

pytestmark = pytest.mark.anyio

STREAMS = [
    {"uri": "all", "stages": []},
    {"uri": "named", "stages": [{"$match": {"fullDocument.name": "ada"}}]},
]


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri) as one:
        await one.put("/things", {"streams": STREAMS})
        yield one


@pytest.mark.parametrize("by", [SSE, WEBSOCKET])
async def test_an_event_that_the_stages_leave_out_is_no_place_to_go_on(
    server: Api, by: str
) -> None:
    async with listen(server.service, "/things/_streams/all", by=SSE) as client:
        server.things.insert_one({"n": 1})
        await client.next()
        token = client.ids[0]
    server.things.insert_one({"name": "ada"})

    path = f"/things/_streams/named?resume-after={quote(token)}"
    with pytest.raises(Refused) as refused:
        async with listen(server.service, path, by=by):
            pass

    assert refused.value.status == 400
    assert refused.value.json["code"] == "resume-point-lost"
    assert refused.value.json["message"] == "the change stream cannot be resumed from this token"
