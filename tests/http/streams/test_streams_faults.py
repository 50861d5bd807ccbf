"""What goes wrong at the database while clients listen: they miss nothing, or are told why."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any
from urllib.parse import quote

import pytest

from docgraph.observe.engine_events import StreamStageFailed
from docgraph.store.change_stream import ChangeEvents
from docgraph.store.driver.waiting import Waits
from tests.http.harness import UNREACHABLE, Document, eventually, failing, listening
from tests.http.rest_harness import Api
from tests.http.stream_harness import SSE, Refused
from tests.http.stream_harness import listen as open_stream
from tests.http.streams.test_streams import cursors

pytestmark = pytest.mark.anyio

HISTORY_LOST, NO_REPLICA_SET = 286, 40573
STREAMS: list[Document] = [
    {"uri": "all", "stages": []},
    {
        "uri": "share",
        "stages": [{"$addFields": {"fullDocument.x": {"$divide": [1, "$fullDocument.n"]}}}],
    },
]


@pytest.fixture
async def server(api: Api) -> AsyncIterator[Api]:
    """Nobody listens any more after the test: one who reads the past leaves a moment later."""
    await api.put("/things", {"streams": STREAMS})
    yield api
    sessions = api.service.app.plugins.find("events")._renewals.sessions
    await eventually(lambda: not sessions)


def listen(api: Api, uri: str = "all", *, after: str = "", by: str = SSE) -> Any:
    path = f"/things/_streams/{uri}" + (f"?resume-after={quote(after)}" if after else "")
    return open_stream(api.service, path, by=by, host=api.host)


async def refusal(api: Api, **options: Any) -> Refused:
    with pytest.raises(Refused) as refused:
        async with listen(api, **options):
            pass
    return refused.value


def numbers_of(events: list[Document]) -> list[int]:
    return [event["fullDocument"]["n"] for event in events]


async def test_a_stream_that_fails_for_a_while_goes_on_where_it_was(server: Api, by: str) -> None:
    """Longer than the driver itself tries."""
    async with listen(server, by=by) as client:
        server.things.insert_one({"n": 0})
        assert numbers_of([await client.next()]) == [0]
        with failing(
            server.mongo, "getMore", "aggregate", mode={"times": 6}, errorCode=UNREACHABLE
        ):
            server.things.insert_many([{"n": 1}, {"n": 2}])
            assert numbers_of(await client.take(2)) == [1, 2]
        server.things.insert_one({"n": 3})
        assert numbers_of([await client.next()]) == [3]


async def test_events_that_the_database_has_forgotten_end_the_stream(server: Api, by: str) -> None:
    async with listen(server, by=by) as client:
        with failing(server.mongo, "getMore", errorCode=HISTORY_LOST):
            server.things.insert_one({"n": 0})
            ending = await client.wait_closed()
    assert ending == (4002, "events were lost: connect again and read everything again")


async def test_a_place_that_the_database_has_forgotten_is_told_before_the_stream(
    server: Api, by: str
) -> None:
    async with listen(server) as client:
        server.things.insert_one({"n": 0})
        await client.next()
        (old,) = client.ids
    await eventually(lambda: not cursors(server))
    async with listen(server):  # a new cursor, which knows nothing of that place
        with failing(server.mongo, "aggregate", errorCode=HISTORY_LOST):
            refused = await refusal(server, after=old, by=by)
    assert (refused.status, refused.json["code"]) == (400, "resume-point-lost")
    assert refused.json["hint"] == "start it again without one"


async def test_a_stage_that_fails_is_reported_and_ends_nothing(server: Api, by: str) -> None:
    async with listen(server, by=by) as other, listen(server, "share", by=by) as client:
        server.things.insert_one({"n": 1})
        assert numbers_of([await client.next()]) == [1]
        with listening(StreamStageFailed) as failed:
            server.things.insert_many([{"n": 0}, {"n": 2}])
            error, after = await client.take(2)
        assert error == {
            "error": {
                "code": "stage-failed",
                "message": "a stage of the stream failed on this event; "
                "correct the stages of the stream",
            }
        }
        assert numbers_of([after]) == [2]
        assert numbers_of(await other.take(3)) == [1, 0, 2]
        assert [(one.collection, one.stream) for one in failed] == [("things", "share")]


async def test_a_client_goes_on_after_an_event_whose_stages_failed(server: Api, by: str) -> None:
    """With its id, the report is an event like any other; the past reports it, too."""
    async with listen(server, "share") as client:
        server.things.insert_many([{"n": 1}, {"n": 0}, {"n": 2}])
        await client.take(3)
        first, second, _ = client.ids
    await eventually(lambda: not cursors(server))
    async with listen(server, "share", after=first, by=by) as client:
        assert "error" in await client.next()
        assert numbers_of([await client.next()]) == [2]
    async with listen(server, "share", after=second, by=by) as client:
        assert numbers_of([await client.next()]) == [2]


async def test_a_database_without_change_streams_is_501_with_a_hint(server: Api, by: str) -> None:
    with failing(server.mongo, "aggregate", errorCode=NO_REPLICA_SET):
        refused = await refusal(server, by=by)
    assert refused.status == 501
    assert refused.json["message"] == "change streams need a replica set or a sharded cluster"
    assert refused.json["hint"].startswith("turn the server into a replica set")


async def test_nobody_waits_for_a_database_that_is_known_to_be_away(
    server: Api, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Waits()
    away.is_away = True
    commands = server.service.app.store.streams.commands
    assert (await server.get("/things")).status == 200  # what is known of it is in memory now
    with monkeypatch.context() as patch:
        patch.setattr(commands, "waits", away)
        refused = await refusal(server, by=by)
    assert (refused.status, refused.json["code"]) == (500, "database-unavailable")


def rename(api: Api) -> None:
    api.things.rename("others")


def drop_database(api: Api) -> None:
    api.mongo.drop_database(api.db)


@pytest.mark.parametrize(
    ("end", "told"), [(rename, ["rename"]), (drop_database, ["drop"])], ids=["rename", "drop"]
)
async def test_the_end_of_what_is_watched_ends_the_stream(
    server: Api, by: str, end: Callable[[Api], None], told: list[str]
) -> None:
    async with listen(server, by=by) as client:
        end(server)
        events = await client.take(len(told) + 1)
        assert [one["operationType"] for one in events] == [*told, "invalidate"]
        assert await client.wait_closed() == (4001, "the stream or its collection no longer exists")


@pytest.mark.parametrize(("end", "told"), [(rename, "rename"), (drop_database, "drop")])
async def test_who_is_judged_anew_before_the_end_is_told_is_told_of_it(
    server: Api, by: str, end: Callable[[Api], None], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewals = server.service.app.plugins.find("events")._renewals
    judged, try_next = asyncio.Event(), ChangeEvents.try_next_raw

    async def hold_back(self: ChangeEvents) -> Any:
        event = await try_next(self)
        if event is not None:
            await judged.wait()
        return event

    async def judge() -> None:
        renewals._generations.bump("collections")
        await renewals.reauthorize_due()
        judged.set()

    async with listen(server, by=by) as client:
        monkeypatch.setattr(ChangeEvents, "try_next_raw", hold_back)
        end(server)
        await server.service.there(judge())
        events = await client.take(2)
        assert [one["operationType"] for one in events] == [told, "invalidate"]
        assert await client.wait_closed() == (4001, "the stream or its collection no longer exists")


async def test_a_transaction_of_many_events_comes_in_order_and_can_be_resumed_within(
    server: Api, by: str
) -> None:
    many = range(1500)
    async with listen(server) as client:
        with server.mongo.start_session() as session, session.start_transaction():
            server.things.insert_many([{"n": number} for number in many], session=session)
        assert numbers_of(await client.take(len(many))) == list(many)
        middle = client.ids[700]
    async with listen(server, after=middle, by=by) as client:
        assert numbers_of(await client.take(799)) == list(range(701, 1500))


async def test_a_document_nearly_as_large_as_the_database_takes_comes_whole(
    server: Api, by: str
) -> None:
    text = "x" * (15 * 1024 * 1024)
    async with listen(server, by=by) as client:
        server.things.insert_one({"text": text})
        event = await client.next()
    assert event["fullDocument"]["text"] == text


async def test_an_update_that_is_too_large_to_be_told_whole_is_told_without_its_description(
    server: Api, by: str
) -> None:
    """Also to one who resumes before it, and its neighbours are whole."""
    server.things.insert_one({"_id": "large", "text": "x" * (15 * 1024 * 1024)})
    async with listen(server) as first:
        server.things.insert_one({"n": 0})
        await first.next()
        (token,) = first.ids
    async with listen(server, by=by) as client:
        with server.mongo.start_session() as session, session.start_transaction():
            server.things.insert_one({"n": 1}, session=session)
            server.things.update_one(
                {"_id": "large"}, {"$set": {"more": "y" * 900_000}}, session=session
            )
            server.things.insert_one({"n": 2}, session=session)
        events = await client.take(3)
    await eventually(lambda: not cursors(server))
    async with listen(server, after=token, by=by) as client:
        assert await client.take(3) == events
    before, large, after = events
    assert large.keys() == {"fullDocument", "documentKey", "operationType"}
    assert (large["operationType"], len(large["fullDocument"]["more"])) == ("update", 900_000)
    assert numbers_of([before, after]) == [1, 2]
