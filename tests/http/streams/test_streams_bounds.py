"""Streams are bounded: slow readers, talkative ones, many of them; and nothing is left behind."""

from __future__ import annotations

import asyncio
import gc
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest
from wsproto.events import Event, Ping, Pong, TextMessage

from docgraph.events.audiences import Audience, Channel
from docgraph.events.event_log import EventLog, LogReader
from docgraph.events.event_shapes import EventShape
from docgraph.events.service import EventChunks
from docgraph.events.stream_client import Client
from docgraph.events.subscription_key import StreamSession
from docgraph.observe.engine_events import StreamClient
from docgraph.observe.events import ConnectionsUsed
from tests.connections import Peer, build_request
from tests.http.access_harness import ADA, ADMIN, BOB, allow, guarded
from tests.http.harness import Document, Mongo, Service, eventually, listening, until
from tests.http.hosts import module_application
from tests.http.realms import open_realm, render_basic
from tests.http.rest_harness import serving
from tests.http.stream_harness import WEBSOCKET, Refused, listen

pytestmark = pytest.mark.anyio

PATH = "/notes/_streams/all"
IS = "/notes/_streams/is"
STREAMS = [
    {"uri": "all", "stages": []},
    {"uri": "by", "stages": [{"$match": {"fullDocument.n": {"$var": "n"}}}]},
    {"uri": "above", "stages": [{"$match": {"fullDocument.n": {"$gt": {"$var": "n"}}}}]},
    *({"uri": f"is{n}", "stages": [{"$match": {"fullDocument.n": n}}]} for n in range(9)),
]
PARTS = {
    StreamSession,
    Audience,
    Channel,
    Client,
    EventChunks,
    EventLog,
    EventShape,
    LogReader,
}
TIGHT: Document = {
    "events": {
        "max-cursors": 3,
        "max-filters": 4,
        "max-connections-per-user": 5,
        "max-connections-per-address": 8,
        "max-behind": 10,
        "heartbeat-interval-ms": 100,
    }
}


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri, TIGHT) as one:
        await one.request("PUT", "/notes", headers=ADMIN, json={"streams": STREAMS})
        await allow(one, "path-prefix('/notes')", "user", "$unauthenticated")
        yield one


@pytest.fixture
async def service(server: Service) -> AsyncIterator[Service]:
    server.mongo[server.db]["notes"].delete_many({})
    yield server
    await until(lambda: left_behind(server), (0, 0, 0))


async def left_behind(service: Service) -> tuple[int, int, int]:
    """Cursors, places and sessions."""
    plugin = service.app.plugins.find("events")
    streams = plugin._streams
    return len(plugin._hub._sources), len(streams._places._taken), len(plugin._renewals.sessions)


async def test_nothing_of_listeners_remains_in_memory_after_they_left(
    service: Service, by: str
) -> None:
    """Each has a channel and a shape of its own, and gets an event. None needs a collection."""
    gc.collect()
    before = await count_parts(Counter())  # of other tests
    gc.disable()
    try:
        await listen_and_leave(service, by, before)
        await until(lambda: left_behind(service), (0, 0, 0))
        await until(lambda: count_parts(before), Counter[str]())
    finally:
        gc.enable()


async def listen_and_leave(service: Service, by: str, before: Counter[str]) -> None:
    """Return without a reference to the listeners: their transports refer to the server."""
    async with AsyncExitStack() as stack:
        listeners = []
        for number in range(4):
            path = f"/notes/_streams/by?avars=%7B%22n%22:{number}%7D"
            listeners.append(await stack.enter_async_context(listen(service, path, ADA, by=by)))
        assert (await count_parts(before))[Channel.__qualname__] == len(listeners)
        for number, listener in enumerate(listeners):
            service.insert("notes", {"_id": number, "n": number})
            assert (await listener.next())["documentKey"] == {"_id": number}


async def count_parts(before: Counter[str]) -> Counter[str]:
    """Count the objects that exist for listeners, by type, in addition to those before."""
    known = (type(one).__qualname__ for one in gc.get_objects() if type(one) in PARTS)
    return Counter(known) - before


@pytest.mark.own_protocol(
    "pauses the transport, and 64 KiB wait in front of that of an ASGI server"
)
async def test_one_who_does_not_read_is_closed_and_the_others_miss_nothing(
    service: Service, by: str
) -> None:
    """W05: at so many events behind, and nobody waits for it."""
    async with (
        listen(service, PATH, ADA, by=by) as stalled,
        listen(service, PATH, BOB, by=by) as reader,
    ):
        await service.there(stall(stalled))
        for number in range(100):
            service.insert("notes", {"_id": number})
            assert (await reader.next())["documentKey"] == {"_id": number}
        await service.there(go_on(stalled))
        code, reason = await stalled.wait_closed()
    assert (code, reason) == (1013, "too slow: unread events were dropped")


async def stall(client: Any) -> None:
    client.peer.transport._protocol.pause_writing()


async def go_on(client: Any) -> None:
    client.peer.transport._protocol.resume_writing()


async def test_a_burst_does_not_close_those_who_read(service: Service, by: str) -> None:
    """Many more events at once than a client may be behind."""
    async with listen(service, PATH, ADA, by=by) as client:
        service.insert("notes", *({"_id": number} for number in range(500)))
        events = await client.take(500)
    assert [one["documentKey"]["_id"] for one in events] == list(range(500))


FRAMES: dict[str, Event] = {
    "message": TextMessage("something"),
    "ping": Ping(payload=b"there?"),
    "pong": Pong(payload=b"nobody asked"),
    "fragment": TextMessage("", message_finished=False),
}


OF_THE_SERVER = pytest.mark.own_protocol("an ASGI server handles pings and fragments itself")


@pytest.mark.parametrize(
    "kind", ["message", *(pytest.param(kind, marks=OF_THE_SERVER) for kind in list(FRAMES)[1:])]
)
async def test_a_client_that_talks_too_much_is_closed(service: Service, kind: str) -> None:
    """W06: a hundred messages a minute, which nobody reads."""
    async with listen(service, PATH, ADA, by=WEBSOCKET) as client:
        await service.there(say(client, FRAMES[kind], 100))
        service.insert("notes", {"_id": "heard"})
        assert (await client.next())["documentKey"] == {"_id": "heard"}
        with listening(StreamClient) as ended:
            await service.there(say(client, FRAMES[kind], 1))
            assert await client.wait_closed() == (1008, "too many messages, this stream takes none")
            await eventually(lambda: ended)
        assert [one.reason for one in ended] == ["messages"]


async def say(client: Any, frame: Event, count: int) -> None:
    client.say(*[frame] * count)


async def test_a_user_has_so_many_streams(service: Service, by: str) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(5):
            await stack.enter_async_context(listen(service, PATH, ADA, by=by))
        refused = await refusal(service, PATH, ADA, by)
        assert refused.status == 429
        assert refused.json["message"] == "this user has too many change streams open, 5 of them"
        async with listen(service, PATH, BOB, by=by):
            pass
    async with listen(service, PATH, ADA, by=by):
        pass


async def test_an_address_has_so_many_streams(service: Service, by: str) -> None:
    async with AsyncExitStack() as stack:
        for _ in range(8):
            await stack.enter_async_context(listen(service, PATH, by=by))
        refused = await refusal(service, PATH, {}, by)
    assert refused.status == 429
    assert refused.json["message"] == "this address has too many change streams open, 8 of them"


async def test_there_are_so_many_cursors(service: Service, by: str) -> None:
    async with AsyncExitStack() as stack:
        for number in range(3):
            await stack.enter_async_context(listen(service, f"{IS}{number}", ADA, by=by))
        refused = await refusal(service, f"{IS}3", ADA, by)
        assert refused.status == 503
        assert "events.max-cursors" in refused.json["message"]
        assert refused.headers["retry-after"] == "1"
        async with listen(service, f"{IS}0", BOB, by=by):  # shares one
            pass


async def test_variables_open_no_cursors(service: Service, by: str) -> None:
    """Neither those that an index finds, nor those that the database decides about."""
    async with AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(listen(service, with_number(uri, number), by=by))
            for uri in ("by", "above")
            for number in range(4)
        ]
        assert len(service.app.plugins.find("events")._hub._sources) == 1
        service.insert("notes", {"_id": 1, "n": 3})
        hearing = [*clients[3:4], *clients[4:7]]
        assert [(await one.next())["documentKey"]["_id"] for one in hearing] == [1] * 4
        assert not any(one.events for one in clients)


async def test_there_are_so_many_filters_that_need_the_database(service: Service, by: str) -> None:
    async with AsyncExitStack() as stack:
        for number in range(4):
            path = with_number("above", number)
            await stack.enter_async_context(listen(service, path, by=by))
        refused = await refusal(service, with_number("above", 4), {}, by)
        assert refused.status == 503
        assert "events.max-filters" in refused.json["message"]
        assert refused.headers["retry-after"] == "1"
        for path in (with_number("above", 0), with_number("by", 4)):
            async with listen(service, path, ADA, by=by):  # shares one, needs none
                pass


def with_number(uri: str, number: int) -> str:
    return f"/notes/_streams/{uri}?avars=%7B%22n%22:{number}%7D"


async def refusal(service: Service, path: str, who: Document, by: str) -> Refused:
    with pytest.raises(Refused) as refused:
        async with listen(service, path, who, by=by):
            pass
    return refused.value


async def test_streams_take_no_connections_from_requests(
    mongo_client: Mongo, mongo_uri: str, by: str
) -> None:
    """Decision 50: at the bound of the cursors everything else is answered as before."""
    tight: Document = {"mclient": {"max-pool-size": 4}, "events": {"max-cursors": 8}}
    async with guarded(mongo_client, mongo_uri, tight) as service, AsyncExitStack() as stack:
        await service.request("PUT", "/notes", headers=ADMIN, json={"streams": STREAMS})
        with listening(ConnectionsUsed) as used:
            clients = [
                await stack.enter_async_context(listen(service, f"{IS}{n}", ADMIN, by=by))
                for n in range(8)
            ]
            assert (await refusal(service, f"{IS}8", ADMIN, by)).status == 503
            asked = (service.request("GET", "/notes", headers=ADMIN) for _ in range(40))
            assert {one.status for one in await asyncio.gather(*asked)} == {200}
            service.insert("notes", *({"n": n} for n in range(8)))
            assert [(await one.next())["fullDocument"]["n"] for one in clients] == list(range(8))
            await eventually(
                lambda: any(one.client == "streams" and one.count >= 8 for one in used)
            )


async def test_silence_is_interrupted_by_comments(service: Service) -> None:
    async with listen(service, PATH, ADA) as client:
        await until(lambda: heard_comments(service, client), True)


async def heard_comments(service: Service, client: Any) -> bool:
    async def look() -> bool:
        client._take_in()
        return bool(client.comments >= 2)

    return await service.there(look())


async def test_those_who_come_and_go_leave_nothing_behind(service: Service, by: str) -> None:
    """Also those who leave before they are answered."""
    for _ in range(100):
        async with listen(service, PATH, ADA, by=by):
            pass
    state = service.client._transport.state  # type: ignore[attr-defined]

    async def hurry() -> None:
        for pause in range(40):
            peer = Peer(state)
            peer.send(build_request("GET", PATH, accept="text/event-stream"))
            for _ in range(pause):
                await asyncio.sleep(0)
            peer.leave()
            await peer.wait_lost()

    await service.there(hurry())


async def test_a_head_of_a_stream_opens_none(service: Service) -> None:
    headers = {**ADA, "accept": "text/event-stream"}
    reply = await service.request("HEAD", PATH, headers=headers)
    assert reply.status == 200
    assert reply.headers["content-type"].startswith("text/event-stream")


async def test_another_password_ends_the_streams_of_its_user(
    mongo_client: Mongo, mongo_uri: str, database: str, by: str
) -> None:
    settings = {
        "mongo": {"mongo-mounts": [{"what": f"/{database}", "where": "/"}]},
        "fullAuthorizer": {"enabled": True, "authentication-required": True},
    }
    async with open_realm(mongo_client, mongo_uri, database, settings) as realm:
        await realm.insert({"_id": "ada", "password": "right", "roles": []})
        who = {"authorization": render_basic("ada", "right")}
        body = {"streams": STREAMS}
        await realm.service.request("PUT", "/notes", headers=who, json=body)
        async with listen(realm.service, PATH, who, by=by) as client:
            await realm.update("ada", set={"password": "other"})
            ending = await client.wait_closed()
    assert ending == (1008, "the credentials are no longer valid")


async def test_switched_off_they_are_405(mongo_client: Mongo, mongo_uri: str) -> None:
    async with serving(mongo_client, mongo_uri, {"events": {"enabled": False}}) as api:
        await api.put("/things", {"streams": STREAMS})
        reply = await api.get("/things/_streams/all")
    assert reply.status == 405
