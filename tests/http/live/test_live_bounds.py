"""Limits of live queries: executions, connections, queries, rates, slow clients, expiry."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import jwt
import pytest

from docgraph.exchange.close_reason import STOPPED
from docgraph.observe.engine_events import LiveQueryChanged, LiveQueryRun
from docgraph.plugins.kinds import Kind
from docgraph.runtime.clock import elapsed
from tests.http.access_harness import ADA, ADMIN, BOB, allow, caller, guarded
from tests.http.harness import Document, Mongo, Service, eventually, listening, until
from tests.http.hosts import module_application
from tests.http.live_harness import connect, subscribe
from tests.http.realms import open_realm
from tests.http.stream_harness import Refused
from tests.http.tokens import KEY

pytestmark = pytest.mark.anyio

SCHEMA = "type Query { notes(team: String): [Note] } type Note { _id: Int text: String }"
QUERY = 'query @live { notes(team: "blue") { _id } }'
SETTINGS: Document = {
    "graphql": {"live": {"min-interval-ms": 10, "max-queries": 5, "max-queries-per-user": 4}},
    "events": {
        "max-connections-per-user": 3,
        "max-connections-per-address": 100,
        "heartbeat-interval-ms": 100,
    },
}


def build_mappings(service: Service) -> Document:
    return {"Query": {"notes": service.find("notes", {"team": {"$arg": "team"}}, sort={"_id": 1})}}


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri, SETTINGS) as one:
        await one.define("app", SCHEMA, build_mappings(one), live=True)
        await allow(one, "path-prefix('/graphql')", "user")
        yield one


@pytest.fixture
async def service(server: Service) -> AsyncIterator[Service]:
    collection = server.mongo[server.db]["notes"]
    collection.delete_many({})
    collection.insert_one({"_id": 1, "team": "blue"})
    await eventually(partial(knows_writes_until, server, elapsed()))
    yield server
    await until(lambda: count_left(server), (0, 0, 0, 0))


def knows_writes_until(service: Service, moment: float) -> bool:
    """Whether the watch of an earlier test, if there is one, will not run a query for them."""
    watch = service.app.plugins.find("graphql").watch._watches.get(service.db)
    return watch is None or watch.is_over or watch.lag < elapsed() - moment


async def count_left(service: Service) -> tuple[int, int, int, int]:
    """Queries, shared answers, places and sessions that are open."""
    live = service.app.plugins.find("graphql")._live
    return (
        len(live._open),
        len(live._answers),
        len(live._limits._taken) + len(live._shares._taken),
        len(live._renewals.sessions),
    )


def show(*ids: int) -> Document:
    return {"data": {"notes": [{"_id": id} for id in ids]}}


async def test_equal_queries_of_equal_callers_share_an_execution(service: Service) -> None:
    notes = service.mongo[service.db]["notes"]
    async with (
        subscribe(service, "app", QUERY, ADA) as one,
        subscribe(service, "app", QUERY, ADA) as two,
        connect(service, "app", BOB) as socket,
    ):
        await socket.begin()
        socket.subscribe("a", QUERY)
        assert await one.next() == await two.next() == await socket.next_of("a") == show(1)
        with listening(LiveQueryRun) as runs:
            notes.insert_one({"_id": 2, "team": "blue"})
            for answer in (one.next(), two.next(), socket.next_of("a")):
                assert await answer == show(1, 2)
        executions = [run.execution for run in runs]
        assert executions.count("own") == 1
        assert executions.count("shared") >= 2  # they may have been authorized again meanwhile


async def test_a_write_that_concerns_no_query_executes_none(service: Service) -> None:
    notes = service.mongo[service.db]["notes"]
    async with subscribe(service, "app", QUERY, ADA) as client:
        assert await client.next() == show(1)
        with listening(LiveQueryRun) as runs:
            for number in range(10, 30):
                notes.insert_one({"_id": number, "team": "red"})
            notes.insert_one({"_id": 2, "team": "blue"})
            assert await client.next() == show(1, 2)
        assert [run.outcome for run in runs if run.execution == "own"] == ["sent"]


@pytest.mark.own_protocol(
    "pauses the transport, and 64 KiB wait in front of that of an ASGI server"
)
async def test_a_slow_client_gets_the_newest_answer_alone(service: Service) -> None:
    notes = service.mongo[service.db]["notes"]
    async with (
        connect(service, "app", ADA) as slow,
        subscribe(service, "app", QUERY, BOB) as reader,
    ):
        await slow.begin()
        slow.subscribe("a", QUERY)
        assert await slow.next_of("a") == await reader.next() == show(1)
        await service.there(_call(slow.peer.transport._protocol.pause_writing))
        expected = [1]
        for number in range(2, 8):
            notes.insert_one({"_id": number, "team": "blue"})
            expected.append(number)
            assert await reader.next() == show(*expected)
        live = service.app.plugins.find("graphql")._live
        one, other = live._open
        await eventually(lambda: one._digest == other._digest)
        await service.there(_call(slow.peer.transport._protocol.resume_writing))
        received = [await slow.next_of("a")]
        while received[-1] != show(*expected):
            received.append(await slow.next_of("a"))
    assert len(received) <= 2  # one was on its way


def _has_runs(runs: list[LiveQueryRun], number: int) -> bool:
    return len(runs) >= number


async def _call(function: Any) -> None:
    function()


async def test_silence_is_filled_with_comments(service: Service) -> None:
    async with subscribe(service, "app", QUERY, ADA) as client:
        assert await client.next() == show(1)

        def has_comment() -> bool:
            client._take_in()
            return client.comments > 0

        async def wait() -> None:
            while not has_comment():
                await client.peer._wait()

        await service.there(wait())


async def test_a_user_has_a_bounded_number_of_connections(service: Service) -> None:
    async with (
        subscribe(service, "app", QUERY, ADA),
        connect(service, "app", ADA),
        connect(service, "app", ADA),
    ):
        with pytest.raises(Refused) as by_post:
            async with subscribe(service, "app", QUERY, ADA):
                pass
        with pytest.raises(Refused) as by_socket:
            async with connect(service, "app", ADA):
                pass
        assert (by_post.value.status, by_socket.value.status) == (429, 429)
        async with subscribe(service, "app", QUERY, BOB) as other:
            assert await other.next() == show(1)


async def test_a_user_and_an_instance_have_a_bounded_number_of_queries(service: Service) -> None:
    async with connect(service, "app", ADA) as socket:
        await socket.begin()
        for id in "abcd":
            socket.subscribe(id, QUERY)
            assert await socket.next_of(id) == show(1)
        with pytest.raises(Refused) as too_many:
            async with subscribe(service, "app", QUERY, ADA):
                pass
        assert too_many.value.status == 429
        async with subscribe(service, "app", QUERY, BOB) as other:
            assert await other.next() == show(1)
            with pytest.raises(Refused) as refused:
                async with subscribe(service, "app", QUERY, BOB):
                    pass
        assert refused.value.status == 503
        assert refused.value.json["errors"][0]["extensions"]["code"] == "overloaded"
        socket.tell({"id": "a", "type": "complete"})
        socket.subscribe("e", QUERY)
        assert await socket.next_of("e") == show(1)


async def test_the_end_of_each_query_is_counted(service: Service) -> None:
    with listening(LiveQueryChanged) as events:
        async with subscribe(service, "app", QUERY, ADA) as client:
            assert await client.next() == show(1)
        await eventually(lambda: len(events) == 2)
    assert [(one.transport, one.reason) for one in events] == [("sse", ""), ("sse", "left")]


async def test_runs_count_in_the_limits_of_their_caller(
    mongo_client: Mongo, mongo_uri: str
) -> None:
    """The query goes on when the limit admits it again."""
    limits = [{"name": "user", "per": "user", "requests-per-second": 0.001, "burst": 3}]
    settings = {
        "graphql": {"live": {"min-interval-ms": 10}},
        "caller-limits": {"enabled": True, "limits": limits},
    }
    async with guarded(mongo_client, mongo_uri, settings) as own:
        own.insert("notes", {"_id": 1, "team": "blue"})
        await own.define("app", SCHEMA, build_mappings(own), live=True)
        await allow(own, "path-prefix('/graphql')", "user")
        notes = own.mongo[own.db]["notes"]
        async with subscribe(own, "app", QUERY, ADA) as client:
            assert await client.next() == show(1)
            with listening(LiveQueryRun) as runs:
                while not any(run.outcome == "limited" for run in runs):
                    assert len(runs) < 3
                    number = len(runs) + 1
                    notes.insert_one({"_id": number + 1, "team": "blue"})
                    await eventually(partial(_has_runs, runs, number))
            reply = await own.query("app", "{ notes(team: null) { _id } }", headers=ADA)
            assert reply.status == 429
            assert (await own.request("GET", "/whoami", headers=ADMIN)).status == 200


async def test_a_query_ends_when_its_token_expires(
    mongo_client: Mongo, mongo_uri: str, database: str
) -> None:
    settings = {
        "graphql": {"db": database},
        "fullAuthorizer": {"enabled": True, "authentication-required": True},
        "jwtAuthenticationMechanism": {"enabled": True, "key": KEY, "leeway": 0},
    }
    async with open_realm(mongo_client, mongo_uri, database, settings) as realm:
        own = realm.service
        own.insert("notes", {"_id": 1, "team": "blue"})
        await own.define("app", SCHEMA, build_mappings(own), live=True)
        ends = int(time.time()) + 3600
        token = jwt.encode({"sub": "ada", "exp": ends}, KEY, algorithm="HS256")
        who = {"authorization": f"Bearer {token}"}
        renewals = own.app.plugins.find("graphql")._live._renewals
        async with (
            subscribe(own, "app", QUERY, who) as client,
            connect(own, "app") as socket,
        ):
            await socket.begin({"Authorization": f"Bearer {token}"})
            assert await client.next() == show(1)
            assert {one.expires_at for one in renewals.sessions} == {ends}
            for mechanism in own.app.plugins.of_kind(Kind.AUTH_MECHANISM):
                if mechanism.name == "jwtAuthenticationMechanism":
                    mechanism._verifier._clock = lambda: float(ends)
            renewals._wall = lambda: float(ends)
            (error,) = (await client.next())["errors"]
            assert error["message"] == "the credentials are no longer valid"
            assert await client.wait_closed() == (0, "complete")
            assert await socket.wait_closed() == (1008, "the credentials are no longer valid")


async def test_a_stream_of_a_server_that_stops_has_no_end_event(service: Service) -> None:
    """Clients connect again, which they do not after `complete`."""
    async with subscribe(service, "app", QUERY, caller("eve", "user")) as client:
        assert await client.next() == show(1)
        live = service.app.plugins.find("graphql")._live
        (query,) = live._open
        await service.there(_call(lambda: query.end(STOPPED)))
        await eventually(lambda: not live._open)
        await service.there(_call(client._take_in))
        assert not client.is_complete
        assert not client.events
