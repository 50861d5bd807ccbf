"""Every event can be resumed from, whatever the `_id` of its document is."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import orjson
import pytest
from bson import Decimal128, Int64

from tests.http.harness import until
from tests.http.rest_harness import Api
from tests.http.stream_harness import SSE, WEBSOCKET, listen

pytestmark = pytest.mark.anyio

PATH = "/things/_streams/all"


@pytest.fixture
async def server(api: Api) -> Api:
    await api.put("/things", {"streams": [{"uri": "all", "stages": []}]})
    return api


@pytest.mark.parametrize("id", [2.5, Int64(1 << 40), Decimal128("7.10"), {"n": 0.1}], ids=repr)
async def test_a_client_goes_on_after_a_document_with_any_id(server: Api, id: Any) -> None:
    """The database's token has a part of its own for the types of numbers."""
    async with listen(server.service, f"{PATH}?event-ids=true", host=server.host) as client:
        server.things.insert_one({"_id": id})
        event = await client.next()
    tokens = [client.ids[0], orjson.dumps(event["_id"]).decode()]
    server.things.insert_one({"_id": "next"})
    await until(lambda: count_cursors(server), 0)  # so that the database is asked for the past
    for token, by in zip(tokens, (SSE, WEBSOCKET), strict=True):
        path = f"{PATH}?resume-after={quote(token)}"
        async with listen(server.service, path, by=by, host=server.host) as client:
            assert (await client.next())["documentKey"] == {"_id": "next"}


async def count_cursors(api: Api) -> int:
    every = api.service.app.plugins.find("events")._hub._cursors
    return sum(api.db.encode() in key for key in every)
