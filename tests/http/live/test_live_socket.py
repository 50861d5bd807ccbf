"""Live queries over WebSocket: the protocol `graphql-transport-ws` (decision 52)."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from wsproto.events import TextMessage

from docgraph.exchange import WriteKind
from docgraph.graphql.http import live_transports
from tests.http.access_harness import ADA, ADMIN, BOB, allow, caller, guarded, remove_rules
from tests.http.harness import Document, Mongo, Service
from tests.http.hosts import module_application
from tests.http.live_harness import PROTOCOL, connect
from tests.http.realms import hashed, open_realm, render_basic
from tests.http.stream_harness import WEBSOCKET, Refused, listen

pytestmark = pytest.mark.anyio

SCHEMA = (
    "type Query { notes(team: String): [Note] all: [Note] } type Note { _id: Int text: String }"
)
NOTES = "query Notes($team: String) @live { notes(team: $team) { _id } }"


def build_mappings(service: Service) -> Document:
    return {
        "Query": {
            "notes": service.find("notes", {"team": {"$arg": "team"}}, sort={"_id": 1}),
            "all": service.find("notes", {}, sort={"_id": 1}),
        }
    }


@module_application
async def service(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with guarded(mongo_client, mongo_uri) as one:
        await one.define("app", SCHEMA, build_mappings(one), live=True)
        await one.define("plain", SCHEMA, build_mappings(one))
        yield one


@pytest.fixture(autouse=True)
async def notes(service: Service) -> AsyncIterator[Any]:
    """The documents, and a rule that lets users read them."""
    collection = service.mongo[service.db]["notes"]
    collection.delete_many({})
    collection.insert_many([{"_id": 1, "team": "blue"}, {"_id": 2, "team": "red"}])
    await allow(service, "path-prefix('/graphql') and method('POST')", "user")
    yield collection
    await remove_rules(service)


def show(*ids: int) -> Document:
    return {"data": {"notes": [{"_id": id} for id in ids]}}


async def test_several_operations_have_one_connection(service: Service, notes: Any) -> None:
    """Decision 52: live queries, and queries that are answered once."""
    async with connect(service, "app", ADA) as socket:
        assert socket.protocol == PROTOCOL
        await socket.begin()
        socket.subscribe("a", NOTES, variables={"team": "blue"})
        assert await socket.next_of("a") == show(1)
        socket.subscribe("b", NOTES, variables={"team": "red"}, operationName="Notes")
        assert await socket.next_of("b") == show(2)
        notes.insert_one({"_id": 3, "team": "red"})
        assert await socket.next_of("b") == show(2, 3)
        socket.subscribe("c", '{ notes(team: "red") { _id } }')
        assert await socket.next_of("c") == show(2, 3)
        assert await socket.next_of("c", "complete") is None
        notes.insert_one({"_id": 4, "team": "blue"})
        assert await socket.next_of("a") == show(1, 4)


async def test_a_completed_operation_gets_no_more_answers(service: Service, notes: Any) -> None:
    async with connect(service, "app", ADA) as socket:
        await socket.begin()
        socket.subscribe("a", NOTES, variables={"team": "blue"})
        assert await socket.next_of("a") == show(1)
        socket.tell({"id": "a", "type": "complete"})
        socket.tell({"id": "unknown", "type": "complete"})
        socket.tell({"type": "ping"})
        assert await socket.next() == {"type": "pong"}
        notes.insert_one({"_id": 3, "team": "blue"})
        socket.subscribe("a", NOTES, variables={"team": "blue"})
        assert await socket.next_of("a") == show(1, 3)


async def test_operations_that_are_completed_at_once_leave_no_trace(service: Service) -> None:
    """Both messages arrive together, so the operation has not begun."""
    payload: Document = {"query": NOTES, "variables": {"team": "blue"}}
    messages = [
        {"id": "a", "type": "subscribe", "payload": payload},
        {"id": "a", "type": "complete"},
    ]
    frames = [TextMessage(json.dumps(one)) for one in messages]
    async with connect(service, "app", ADA) as socket:
        await socket.begin()
        for _ in range(21):
            service.loop.call_soon_threadsafe(socket.say, *frames)
        socket.subscribe("a", **payload)
        assert await socket.next_of("a") == show(1)


async def test_what_is_wrong_with_an_operation_is_an_error_of_it_alone(service: Service) -> None:
    async with connect(service, "app", ADA) as socket:
        await socket.begin()
        for id, query, code in (
            ("1", "{ nothing }", "invalid-query"),
            ("2", "{", "invalid-syntax"),
            ("3", "subscription { all { _id } }", "operation-not-supported"),
        ):
            socket.subscribe(id, query)
            (error,) = await socket.next_of(id, "error")
            assert error["extensions"]["code"] == code
        socket.tell({"id": "4", "type": "subscribe", "payload": {"query": 1}})
        assert (await socket.next_of("4", "error"))[0]["message"] == "'query' must be a string"
        socket.subscribe("5", "{ all { _id } }")
        assert (await socket.next_of("5"))["data"]["all"] == [{"_id": 1}, {"_id": 2}]


@pytest.mark.parametrize(
    ("messages", "closed"),
    [
        (["no JSON"], (4400, "Invalid message")),
        (["[]"], (4400, "Invalid message")),
        ([{"type": "unknown"}], (4400, "Invalid message")),
        ([{"kind": "connection_init"}], (4400, "Invalid message")),
        (
            [{"type": "connection_init"}, {"type": "subscribe", "payload": {"query": "{ a }"}}],
            (4400, "Invalid message"),
        ),
        (
            [{"type": "connection_init"}, {"type": "subscribe", "id": "1"}],
            (4400, "Invalid message"),
        ),
        (
            [{"type": "subscribe", "id": "1", "payload": {"query": "{ a }"}}],
            (4401, "Unauthorized"),
        ),
        (
            [{"type": "connection_init"}, {"type": "connection_init"}],
            (4429, "Too many initialisation requests"),
        ),
    ],
)
async def test_violations_of_the_protocol_close_the_connection(
    service: Service, messages: list[Any], closed: tuple[int, str]
) -> None:
    async with connect(service, "app", ADA) as socket:
        for message in messages:
            socket.tell(message)
        assert await socket.wait_closed() == closed


async def test_an_id_is_used_once_at_a_time(service: Service) -> None:
    async with connect(service, "app", ADA) as socket:
        await socket.begin()
        socket.subscribe("a", NOTES, variables={"team": "blue"})
        assert await socket.next_of("a") == show(1)
        socket.subscribe("a", NOTES, variables={"team": "blue"})
        assert await socket.wait_closed() == (4409, "Subscriber for a already exists")


async def test_a_connection_that_is_not_initialized_is_closed(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_transports, "_INIT_SECONDS", 0.05)
    async with connect(service, "app", ADA) as socket:
        assert await socket.wait_closed() == (4408, "Connection initialisation timeout")


async def test_a_connection_has_a_bounded_number_of_operations(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_transports, "_MAX_OPERATIONS", 1)
    async with connect(service, "app", ADA) as socket:
        await socket.begin()
        socket.subscribe("a", NOTES, variables={"team": "blue"})
        assert await socket.next_of("a") == show(1)
        socket.subscribe("b", NOTES, variables={"team": "blue"})
        (error,) = await socket.next_of("b", "error")
        assert error["extensions"]["code"] == "too-many-requests"


async def test_too_many_messages_close_the_connection(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_transports, "_MAX_MESSAGES", 3)
    async with connect(service, "app", ADA) as socket:
        await socket.begin()
        for _ in range(3):
            socket.tell({"type": "pong"})
        code, _ = await socket.wait_closed()
        assert code == 1008


async def test_each_operation_is_authorized_as_a_post_to_the_app(service: Service) -> None:
    """The handshake needs no permission of its own: the rule of the fixture is about POST."""
    async with connect(service, "app", ADA) as socket:
        await socket.begin()
        socket.subscribe("a", NOTES, variables={"team": "blue"})
        assert await socket.next_of("a") == show(1)
        await remove_rules(service)
        (error,) = await socket.next_of("a", "error")
        assert error["extensions"]["code"] == "forbidden"
        socket.subscribe("b", NOTES, variables={"team": "blue"})
        (error,) = await socket.next_of("b", "error")
        assert error["extensions"]["code"] == "forbidden"


@pytest.mark.parametrize(
    ("app", "who", "status"),
    [("app", caller("eve", "other"), 403), ("nowhere", ADA, 405), ("plain", ADA, 405)],
)
async def test_a_handshake_is_rejected_as_a_request_would_be(
    service: Service, app: str, who: dict[str, str], status: int
) -> None:
    with pytest.raises(Refused) as refused:
        async with connect(service, app, who):
            pass
    assert refused.value.status == status


async def test_a_page_of_another_origin_is_rejected(service: Service) -> None:
    with pytest.raises(Refused) as refused:
        async with connect(service, "app", {**ADA, "origin": "https://evil.example"}):
            pass
    assert refused.value.status == 403
    async with connect(service, "app", {**ADA, "origin": "http://test"}) as socket:
        await socket.begin()


async def test_other_protocols_and_plain_requests_stay_rejected(service: Service) -> None:
    """Decision 52: `GET` without this upgrade is 405."""
    reply = await service.request("GET", "/graphql/app", headers=ADMIN)
    assert reply.status == 405
    with pytest.raises(Refused) as refused:
        async with listen(service, "/graphql/app", ADMIN, by=WEBSOCKET):
            pass
    assert refused.value.status == 405


async def test_without_credentials_all_apps_look_alike(service: Service) -> None:
    """Decision 21."""
    for app in ("app", "plain", "nowhere"):
        async with connect(service, app) as socket:
            assert socket.protocol == PROTOCOL
            socket.tell({"type": "connection_init"})
            assert await socket.wait_closed() == (4403, "Forbidden")


async def test_callers_of_one_process_do_not_share_answers(service: Service, notes: Any) -> None:
    await remove_rules(service)
    filters = {"readFilters": {f"{service.db}.notes": {"team": "@user.team"}}}
    await allow(service, "path-prefix('/graphql')", "user", mongo=filters)
    async with connect(service, "app", ADA) as ada, connect(service, "app", BOB) as bob:
        for socket, id in ((ada, 1), (bob, 2)):
            await socket.begin()
            socket.subscribe("a", "query @live { all { _id } }")
            assert await socket.next_of("a") == {"data": {"all": [{"_id": id}]}}
        notes.insert_many([{"_id": 3, "team": "red"}, {"_id": 4, "team": "blue"}])
        assert await ada.next_of("a") == {"data": {"all": [{"_id": 1}, {"_id": 4}]}}
        assert await bob.next_of("a") == {"data": {"all": [{"_id": 2}, {"_id": 3}]}}


@pytest.mark.parametrize("name", ["Authorization", "authorization"])
async def test_credentials_may_come_in_the_first_message(
    mongo_client: Mongo, mongo_uri: str, database: str, name: str
) -> None:
    settings = {
        "graphql": {"db": database},
        "fullAuthorizer": {"enabled": True, "authentication-required": True},
    }
    async with open_realm(mongo_client, mongo_uri, database, settings) as realm:
        own = realm.service
        await realm.insert({"_id": "ada", "password": "right", "roles": []})
        own.insert("notes", {"_id": 1, "team": "blue"})
        await own.define("app", SCHEMA, build_mappings(own), live=True)
        async with connect(own, "app") as socket:
            await socket.begin({name: render_basic("ada", "right")})
            socket.subscribe("a", NOTES, variables={"team": "blue"})
            assert await socket.next_of("a") == show(1)
            await realm.write(WriteKind.DELETE, filter={"_id": "ada"})
            assert await socket.wait_closed() == (1008, "the credentials are no longer valid")
        async with connect(own, "app") as socket:
            socket.tell(
                {"type": "connection_init", "payload": {name: render_basic("ada", "wrong")}}
            )
            assert await socket.wait_closed() == (4403, "Forbidden")


@pytest.mark.parametrize("has_fallback", [False, True])
async def test_the_brute_force_guard_counts_credentials_of_connections(
    mongo_client: Mongo, mongo_uri: str, has_fallback: bool
) -> None:
    """Else passwords could be guessed here without end."""
    # A window of a day: however slow the machine is, guesses do not leave it one after another.
    limits = {"max-failed-attempts": 3, "window-ms": 86_400_000, "long-window-ms": 86_400_000}
    settings = {
        "bruteForceAttackGuard": {"enabled": True, **limits},
        "basicAuthMechanism": {"enabled": True},
        "authentication": {"anonymous-fallback": has_fallback},
    }
    async with guarded(mongo_client, mongo_uri, settings) as own:
        user = {"_id": "ada", "roles": ["user"], "password": hashed("secret")}
        own.mongo[own.db]["users"].insert_one(user)
        schema = "type Query { notes: [Note] } type Note { _id: String }"
        mappings = {"Query": {"notes": own.find("notes", {})}}
        await own.define("guarded", schema, mappings, live=True)
        await allow(own, "path-prefix('/graphql')", "user")
        reasons = [await try_password(own, f"guess {number}") for number in range(8)]
        assert reasons[0] == "Forbidden"
        assert reasons[-1] == "too many failed logins"
        assert await try_password(own, "secret") == "too many failed logins"


async def try_password(service: Service, password: str) -> str:
    """Return why a connection with this password is closed."""
    async with connect(service, "guarded") as socket:
        payload = {"authorization": render_basic("ada", password)}
        socket.tell({"type": "connection_init", "payload": payload})
        _, reason = await socket.wait_closed()
        return reason
