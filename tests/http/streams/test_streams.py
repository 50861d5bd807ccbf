"""Change streams (decision 42): declared in metadata, told over WebSocket and as SSE."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any
from urllib.parse import quote

import pytest

from docgraph.store.change_stream import ChangeEvents, RawEvent
from tests.http.harness import Document, Mongo, until
from tests.http.rest_harness import Api, serving
from tests.http.stream_harness import SSE, WEBSOCKET, Refused
from tests.http.stream_harness import listen as open_stream

pytestmark = pytest.mark.anyio

ALL: Document = {"uri": "all", "stages": []}
STREAMS = [
    ALL,
    {"uri": "inserts", "stages": [{"$match": {"operationType": "insert"}}]},
    {"uri": "named", "stages": [{"$match": {"fullDocument.name": {"$var": "name"}}}]},
    {
        "uri": "optional",
        "stages": [{"$ifvar": ["name", {"$match": {"fullDocument.name": {"$var": "name"}}}]}],
    },
    {"uri": "room", "stages": [], "notify_when": {"fullDocument::room": {"$var": "r"}}},
    {"uri": "since", "stages": [{"$match": {"fullDocument.at": {"$ne": {"$var": "@now"}}}}]},
]


@pytest.fixture
async def server(api: Api) -> Api:
    """The application of the module, with a database, and so cursors, of this test alone."""
    await api.put("/things", {"streams": STREAMS})
    return api


def listen(api: Api, path: str, headers: Any = None, *, by: str = SSE) -> Any:
    return open_stream(api.service, path, headers, by=by, host=api.host)


def stream(uri: str, **parameters: Any) -> str:
    query = "&".join(f"{name}={quote(value)}" for name, value in parameters.items())
    return f"/things/_streams/{uri}" + (f"?{query}" if query else "")


async def test_an_insertion_is_told_with_its_document(server: Api, by: str) -> None:
    async with listen(server, stream("all"), by=by) as client:
        await server.put("/things/a", {"x": 1}, wm="upsert")
        event = await client.next()
    assert event["operationType"] == "insert"
    assert event["documentKey"] == {"_id": "a"}
    assert event["fullDocument"]["x"] == 1
    assert "_etag" in event["fullDocument"]
    assert list(event) == ["fullDocument", "documentKey", "operationType"]


async def test_put_replaces_patch_updates_delete_deletes(server: Api, by: str) -> None:
    server.things.insert_one({"_id": "kinds", "x": 1})
    async with listen(server, stream("all"), by=by) as client:
        await server.put("/things/kinds", {"x": 2})
        await server.patch("/things/kinds", {"x": 3, "y": 4})
        await server.delete("/things/kinds")
        replaced, updated, deleted = await client.take(3)
    assert (replaced["operationType"], replaced["fullDocument"]["x"]) == ("replace", 2)
    assert updated["operationType"] == "update"
    assert updated["updateDescription"]["updatedFields"].keys() == {"x", "y", "_etag"}
    assert updated["updateDescription"].keys() == {"updatedFields", "removedFields"}
    assert deleted == {"documentKey": {"_id": "kinds"}, "operationType": "delete"}


async def test_many_events_come_in_order(server: Api, by: str) -> None:
    async with listen(server, stream("all"), by=by) as client:
        server.things.insert_many([{"_id": f"{by}-{number}"} for number in range(300)])
        events = await client.take(300)
    assert [one["documentKey"]["_id"] for one in events] == [f"{by}-{n}" for n in range(300)]


async def test_events_of_one_batch_are_written_together(server: Api) -> None:
    """A client is woken once for all of them, which counts where there are a thousand clients."""
    async with listen(server, stream("all")) as client:
        with server.mongo.start_session() as session, session.start_transaction():
            server.things.insert_many([{"n": one} for one in range(200)], session=session)
        await client.take(200)
    assert client.chunks <= 50


async def test_stages_choose_events(server: Api, by: str) -> None:
    async with listen(server, stream("inserts"), by=by) as client:
        await server.put("/things/chosen", {"x": 1}, wm="upsert")
        await server.patch("/things/chosen", {"x": 2})
        await server.delete("/things/chosen")
        await server.put("/things/chosen", {"x": 3}, wm="upsert")
        events = await client.take(2)
    assert [one["fullDocument"]["x"] for one in events] == [1, 3]


async def test_variables_come_from_the_request(server: Api, by: str) -> None:
    path = stream("named", avars=json.dumps({"name": "ada"}))
    async with listen(server, path, by=by) as client:
        server.things.insert_many([{"name": "bob"}, {"name": "ada"}])
        event = await client.next()
    assert event["fullDocument"]["name"] == "ada"


@pytest.mark.parametrize(
    ("path", "status", "message"),
    [
        (stream("unknown"), 404, "Change Stream does not exist"),
        (stream("named"), 400, "variable name not bound"),
        ("/missing/_streams/all", 404, "Collection 'missing' does not exist"),
        (stream("named", avars="{"), 400, "illegal avars parameter: {"),
        (
            stream("all", **{"resume-after": "nonsense"}),
            400,
            "resume-after is not the id of an event",
        ),
        (
            stream("all", **{"resume-after": "8265"}),
            400,
            "the change stream cannot be resumed from this token",
        ),
    ],
)
async def test_what_cannot_be_opened_is_told_before_the_stream(
    server: Api, by: str, path: str, status: int, message: str
) -> None:
    with pytest.raises(Refused) as refused:
        async with listen(server, path, by=by):
            pass
    assert (refused.value.status, refused.value.json["message"]) == (status, message)


async def test_neither_websocket_nor_events_is_400(server: Api) -> None:
    reply = await server.get(stream("all"))
    assert reply.status == 400
    assert reply.json["message"] == (
        "Change Stream requires WebSocket or SSE — send either 'Upgrade: websocket' "
        "or 'Accept: text/event-stream'"
    )


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
async def test_other_methods_are_405(server: Api, method: str) -> None:
    reply = await server.send(method, stream("all"), {})
    assert reply.status == 405


async def test_a_client_can_choose_among_the_events_of_a_shared_cursor(
    server: Api, by: str
) -> None:
    async with (
        listen(server, stream("room", r="blue"), by=by) as blue,
        listen(server, stream("room"), by=by) as everything,
    ):
        rooms = ["red", "blue", ["green", "blue"], 5, None]
        server.things.insert_many([{"room": room} for room in rooms])
        assert [one["fullDocument"]["room"] for one in await blue.take(2)] == rooms[1:3]
        assert [one["fullDocument"]["room"] for one in await everything.take(5)] == rooms
        assert len(cursors(server)) == 1


async def test_clients_that_see_the_same_share_a_cursor(server: Api) -> None:
    async with (
        listen(server, stream("all"), by=SSE),
        listen(server, stream("all"), by=WEBSOCKET),
        listen(server, stream("inserts"), by=WEBSOCKET),
    ):
        assert len(cursors(server)) == 2
    await until(lambda: count_cursors(server), 0)


async def test_a_client_goes_on_after_the_last_event_it_got(server: Api, by: str) -> None:
    async with listen(server, stream("all"), by=SSE) as client:
        server.things.insert_many([{"n": 0}, {"n": 1}])
        await client.take(2)
        first, second = client.ids
    server.things.insert_many([{"n": 2}, {"n": 3}])
    for token, expected in ((second, [2, 3, 4]), (first, [1, 2, 3, 4, 5])):
        async with listen(server, stream("all", **{"resume-after": token}), by=by) as client:
            server.things.insert_one({"n": expected[-1]})
            events = await client.take(len(expected))
        assert [one["fullDocument"]["n"] for one in events] == expected


async def test_a_browser_goes_on_by_last_event_id(server: Api) -> None:
    async with listen(server, stream("all")) as client:
        server.things.insert_one({"n": 10})
        await client.next()
    server.things.insert_one({"n": 11})
    async with listen(server, stream("all"), {"Last-Event-ID": client.ids[0]}) as client:
        assert (await client.next())["fullDocument"]["n"] == 11


async def test_who_got_no_event_goes_on_from_where_he_began(server: Api) -> None:
    """A connection may break before its first event, and nothing is lost."""
    async with listen(server, stream("all")) as client:
        server.things.insert_one({"n": 30})
        await client.next()
    async with listen(server, stream("inserts")) as first:
        await until(lambda: has_place(server, first), True)
    server.things.insert_one({"n": 31})
    headers = {"Last-Event-ID": first.place}
    async with listen(server, stream("inserts"), headers) as client:
        assert (await client.next())["fullDocument"]["n"] == 31


async def find_place(api: Api, client: Any) -> str:
    async def look() -> str:
        client._take_in()
        return str(client.place)

    return str(await api.service.there(look()))


async def has_place(api: Api, client: Any) -> bool:
    return bool(await find_place(api, client))


async def test_a_new_client_gets_no_event_of_writes_before_it_connected(
    server: Api, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the cursor, which other clients opened, has not read these events yet."""
    read = ChangeEvents.try_next_raw
    may_read = threading.Event()

    async def read_late(events: ChangeEvents) -> RawEvent | None:
        await asyncio.to_thread(may_read.wait)
        return await read(events)

    async with listen(server, stream("all"), by=by) as early:
        monkeypatch.setattr(ChangeEvents, "try_next_raw", read_late)
        server.things.insert_one({"n": 49})
        await early.next()  # the last event that is read at once
        server.things.insert_one({"n": 50})
        async with listen(server, stream("all"), by=by) as late:
            server.things.insert_one({"n": 51})
            may_read.set()
            assert (await late.next())["fullDocument"]["n"] == 51
            assert [one["fullDocument"]["n"] for one in await early.take(2)] == [50, 51]


async def test_one_who_joins_goes_back_further_than_the_others(server: Api, by: str) -> None:
    """Beside a running cursor, and with more events than its log holds."""
    async with listen(server, stream("all")) as early:
        server.things.insert_one({"n": -1})
        await early.next()
        token = early.ids[0]
    server.things.insert_many([{"n": number} for number in range(1500)])
    async with listen(server, stream("all")):
        path = stream("all", **{"resume-after": token})
        async with listen(server, path, by=by) as late:
            server.things.insert_one({"n": 1500})
            events = await late.take(1501)
    assert [one["fullDocument"]["n"] for one in events] == list(range(1501))


async def test_events_have_their_id_and_time_when_asked_for(server: Api, by: str) -> None:
    async with listen(server, stream("all", **{"event-ids": "true"}), by=by) as client:
        server.things.insert_one({"n": 20})
        event = await client.next()
    assert list(event)[:2] == ["_id", "clusterTime"]
    token = json.dumps(event["_id"])
    server.things.insert_one({"n": 21})
    async with listen(server, stream("all", **{"resume-after": token}), by=by) as client:
        assert (await client.next())["fullDocument"]["n"] == 21


async def test_json_mode_is_that_of_the_request(server: Api, by: str) -> None:
    async with listen(server, stream("all", jsonMode="extended"), by=by) as client:
        server.things.insert_one({"_id": "mode", "n": 5})
        event = await client.next()
    assert event["fullDocument"]["n"] == {"$numberInt": "5"}


async def test_the_end_of_the_collection_is_told_and_ends_the_stream(
    mongo_client: Mongo, mongo_uri: str, by: str
) -> None:
    async with serving(mongo_client, mongo_uri) as one:
        await one.put("/things", {"streams": [ALL]})
        async with listen(one, stream("all"), by=by) as client:
            one.things.drop()
            assert (await client.next())["operationType"] == "drop"
            assert (await client.next())["operationType"] == "invalidate"
            code, reason = await client.wait_closed()
    assert (code, reason) == (4001, "the stream or its collection no longer exists")


async def count_cursors(api: Api) -> int:
    return len(cursors(api))


def cursors(api: Api) -> Any:
    """The cursors of the test's own database."""
    every = api.service.app.plugins.find("events")._hub._sources
    return [key for key in every if api.db.encode() in key]
