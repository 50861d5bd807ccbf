"""Going on from an id: one that the stream does not know, and a past that cannot be read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from urllib.parse import quote

import pytest

from tests.http.harness import UNREACHABLE, Mongo, eventually, failing
from tests.http.hosts import module_application
from tests.http.rest_harness import Api, serving
from tests.http.stream_harness import SSE, WEBSOCKET, Refused, listen

pytestmark = pytest.mark.anyio

HISTORY_LOST = 286
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


@pytest.fixture
async def token(server: Api) -> str:
    """The id of an event that 1200 others have followed: more than are read at once."""
    async with listen(server.service, "/things/_streams/all", by=SSE) as client:
        server.things.insert_one({"n": -1})
        await client.next()
    hub = server.service.app.plugins.find("events")._hub
    await eventually(lambda: not hub._sources)  # its log would know most of what follows
    server.things.insert_many([{"n": number} for number in range(1200)])
    id: str = client.ids[0]
    return id


@pytest.mark.parametrize("by", [SSE, WEBSOCKET])
async def test_an_outage_while_the_past_is_read_is_a_pause(
    server: Api, token: str, by: str
) -> None:
    path = f"/things/_streams/all?resume-after={quote(token)}"
    # The first opens the stream, the second reads a portion of the past.
    with failing(server.mongo, "aggregate", mode={"skip": 2}, errorCode=UNREACHABLE):
        listening = listen(server.service, path, by=by)
        client = await listening.__aenter__()
        told = await client.take(500)
    told += await client.take(700)
    await listening.__aexit__(None, None, None)

    assert [one["fullDocument"]["n"] for one in told] == list(range(1200))


@pytest.mark.parametrize("by", [SSE, WEBSOCKET])
async def test_a_past_that_is_gone_before_it_is_read_ends_the_stream(
    server: Api, token: str, by: str
) -> None:
    path = f"/things/_streams/all?resume-after={quote(token)}"
    with failing(server.mongo, "aggregate", mode={"skip": 2}, errorCode=HISTORY_LOST):
        async with listen(server.service, path, by=by) as client:
            told = await client.take(500)
            ending = await client.wait_closed()

    assert [one["fullDocument"]["n"] for one in told] == list(range(500))
    assert ending == (4002, "events were lost: connect again and read everything again")


def edit(token: str, start: int, text: str) -> str:
    return token[:start] + text + token[start + len(text) :]


MADE_UP: dict[str, Callable[[str], str]] = {
    "no token at all": lambda _: "AB",
    "another type": lambda one: edit(one, 0, "81"),
    "half of one": lambda one: one[: len(one) // 2],
    "only its time": lambda one: one[:18],
    "another event of the same time": lambda one: edit(one, len(one) - 10, "0123456789"),
    "a time before it": lambda one: edit(one, 10, "00000000"),
    "the first time there was": lambda one: edit(one, 2, "0000000100000001"),
    "zeros": lambda one: "0" * len(one),
    "ones": lambda one: "F" * len(one),
    "tomorrow": lambda one: edit(one, 2, f"{int(one[2:10], 16) + 86_400:08X}"),
    "the last time there will be": lambda one: edit(one, 2, "FFFFFFFFFFFFFFFF"),
    "a place of tomorrow": lambda one: f"82{int(one[2:10], 16) + 86_400:08X}000000012B0429296E1404",
}


@pytest.mark.parametrize("is_shared", [True, False], ids=["shared", "alone"])
@pytest.mark.parametrize("kind", MADE_UP)
async def test_a_token_that_no_event_had_is_no_place_to_go_on(
    server: Api, kind: str, is_shared: bool
) -> None:
    """Whether others listen, so that what has happened is in memory, or the database is asked."""
    path = "/things/_streams/all"
    hub = server.service.app.plugins.find("events")._hub
    async with AsyncExitStack() as stack:
        first = await stack.enter_async_context(listen(server.service, path))
        server.things.insert_many([{"_id": f"{kind} {is_shared} {n}"} for n in range(3)])
        await first.take(3)
        token = json.loads(first.ids[1])["_data"]
        if not is_shared:
            await stack.aclose()
            await eventually(lambda: not hub._sources)
        with pytest.raises(Refused) as refused:
            async with listen(server.service, f"{path}?resume-after={MADE_UP[kind](token)}"):
                pass
        assert (refused.value.status, refused.value.json["code"]) == (400, "resume-point-lost")
        async with listen(server.service, f"{path}?resume-after={token}") as again:
            assert (await again.next())["documentKey"] == {"_id": f"{kind} {is_shared} 2"}
