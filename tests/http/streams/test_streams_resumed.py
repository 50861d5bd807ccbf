"""Every event can be resumed from, whatever its document is, and whenever the stream is opened."""

from __future__ import annotations

from base64 import b64encode
from datetime import datetime
from math import inf
from typing import Any
from urllib.parse import quote

import orjson
import pytest
from bson import Decimal128, Int64, ObjectId, Timestamp

from docgraph.events.source import Source
from tests.http.harness import Document, profiled, until
from tests.http.rest_harness import Api
from tests.http.stream_harness import SSE, WEBSOCKET, listen

pytestmark = pytest.mark.anyio

PATH = "/things/_streams/all"


@pytest.fixture
async def server(api: Api) -> Api:
    await api.put("/things", {"streams": [{"uri": "all", "stages": []}]})
    return api


IDS: list[Any] = [
    *(2.5, -0.0, 1e300, inf, Int64(1 << 40), Int64((1 << 53) + 1), Int64(1 << 62)),
    *(Decimal128("7.10"), Decimal128("1E+400"), {"n": 0.1, "m": Int64(1 << 60)}, "a" * 900),
    *(b"bytes", ObjectId("65f0c0ffee65f0c0ffee65f0"), datetime(2026, 1, 1), True, None),
]


@pytest.mark.parametrize("id", IDS, ids=lambda id: repr(id)[:20])
async def test_a_client_goes_on_after_a_document_with_any_id(server: Api, id: Any) -> None:
    """The database's token has a part of its own for the types of numbers."""
    async with listen(server.service, f"{PATH}?event-ids=true", host=server.host) as client:
        server.things.insert_one({"_id": id})
        event = await client.next()
    text = event["_id"]["_data"]
    tokens = [client.ids[0], orjson.dumps(event["_id"]).decode(), text, render_former(text)]
    server.things.insert_one({"_id": "next"})
    await until(lambda: count_cursors(server), 0)  # so that the database is asked for the past
    for token, by in zip(tokens, (SSE, WEBSOCKET, SSE, WEBSOCKET), strict=True):
        path = f"{PATH}?resume-after={quote(token)}"
        async with listen(server.service, path, by=by, host=server.host) as client:
            assert (await client.next())["documentKey"] == {"_id": "next"}


def render_former(text: str) -> str:
    """The form of a token that the database itself writes."""
    data, _, types = text.partition(".")
    token: dict[str, Any] = {"_data": data}
    if types:
        binary = {"base64": b64encode(bytes.fromhex(types)).decode(), "subType": "00"}
        token["_typeBits"] = {"$binary": binary}
    return orjson.dumps(token).decode()


@pytest.mark.parametrize("by", [SSE, WEBSOCKET])
async def test_nothing_is_missing_where_the_stream_is_opened_amid_changes(
    server: Api, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    """The answer to the opening has events then, and the database tells no place before them."""
    async with listen(server.service, f"{PATH}?event-ids=true", host=server.host) as client:
        server.things.insert_one({"_id": 0})
        await client.next()
    (token,) = client.ids
    server.things.insert_many({"_id": number} for number in range(1, 4))
    last = server.mongo.admin.command("ping")["operationTime"]
    server.things.insert_many({"_id": number} for number in range(4, 7))
    await until(lambda: count_cursors(server), 0)
    begin_at(Timestamp(last.time, last.inc + 1), monkeypatch)

    path = f"{PATH}?resume-after={quote(token)}"
    async with listen(server.service, path, by=by, host=server.host) as client:
        server.things.insert_one({"_id": 7})
        found = [event["documentKey"]["_id"] for event in await client.take(7)]

    assert found == [*range(1, 8)]


async def test_who_catches_up_does_not_wait_for_events_to_come(server: Api) -> None:
    """After a restart thousands do so, a few at a time: each would delay all others by a second."""
    async with listen(server.service, PATH, host=server.host) as client:
        server.things.insert_one({"_id": 0})
        await client.next()
    await until(lambda: count_cursors(server), 0)
    path = f"{PATH}?resume-after={quote(client.ids[0])}"
    with profiled(server.mongo, server.db, "things") as sent:
        async with listen(server.service, path, host=server.host) as client:
            server.things.insert_one({"_id": 1})
            assert (await client.next())["documentKey"] == {"_id": 1}
    resumed = [
        one["command"]["maxTimeMS"]
        for one in sent
        if one["op"] == "getmore" and _is_resumed(one["originatingCommand"])
    ]
    assert resumed
    assert set(resumed) == {1}


def _is_resumed(command: Document) -> bool:
    return "resumeAfter" in command["pipeline"][0]["$changeStream"]


def begin_at(moment: Timestamp, monkeypatch: pytest.MonkeyPatch) -> None:
    """Open new streams as if it were then: what has happened since comes with their opening."""
    watch = Source._watch

    def watch_from(source: Source, token: Any) -> Any:
        events = watch(source, token)
        if token is None:
            events._options["start_at_operation_time"] = moment
        return events

    monkeypatch.setattr(Source, "_watch", watch_from)


async def count_cursors(api: Api) -> int:
    every = api.service.app.plugins.find("events")._hub._sources
    return sum(api.db.encode() in key for key in every)
