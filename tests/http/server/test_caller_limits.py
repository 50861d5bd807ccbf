"""Limits for callers through the whole application: who is counted, by what, and what they hear.

The application stands behind a proxy, so that each test has addresses of its own. Its clock stands
still unless a test moves it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import count
from typing import Any, ClassVar

import pytest

from docgraph.exchange import Answer, Body, Exchange, Socket, Stream, Takeover, Upgrade
from docgraph.observe.engine_events import CallersLimited, RequestLimited
from docgraph.observe.events import RequestFinished
from docgraph.plugins.kinds import Service as PluginService
from docgraph.runtime import Buckets
from docgraph.server.builtin import BUILTIN
from tests.clock import Clock
from tests.connections import Peer, build_request
from tests.http.harness import Document, Mongo, Reply, Service, eventually, listening, running
from tests.http.hosts import module_application
from tests.http.realms import render_basic

pytestmark = pytest.mark.anyio

LIMITS: list[Document] = [
    {
        "name": "address",
        "per": "address",
        "requests-per-second": 5,
        "burst": 10,
        "concurrent": 3,
    },
    {"name": "user", "per": "user", "requests-per-second": 2, "burst": 4},
    {"name": "editors", "per": "user", "role": "editor", "requests-per-second": 1, "burst": 2},
    {
        "name": "crew",
        "per": "role",
        "role": "crew",
        "requests-per-second": 0.5,
        "burst": 3,
        "concurrent": 2,
    },
    {"name": "guests", "per": "address", "role": "$unauthenticated", "requests-per-second": 2},
]
ROLES = {"ada": ["reader"], "bob": ["reader"], "eve": ["editor"], "jim": ["crew"], "joe": ["crew"]}
SETTINGS: Document = {
    "core": {"trusted-proxies": ["127.0.0.1"]},
    "caller-limits": {"enabled": True, "limits": LIMITS},
    "basicAuthMechanism": {"enabled": True, "authenticator": "fileRealmAuthenticator"},
    "fileRealmAuthenticator": {
        "enabled": True,
        "users": [
            {"userid": name, "password": "secret", "roles": roles} for name, roles in ROLES.items()
        ],
    },
    "bruteForceAttackGuard": {"enabled": False},
    "mongo": {"enabled": False},
}


class Slow(PluginService):
    """`/slow`: answers when it is let, and in the way that the query says."""

    name: ClassVar[str] = "slow"
    uri: ClassVar[str] = "/slow"
    secured: ClassVar[bool] = False
    methods: ClassVar[tuple[str, ...]] = ("GET", "POST")
    inside: ClassVar[int] = 0
    go_on: ClassVar[asyncio.Event]

    async def handle(self, exchange: Exchange) -> Answer:
        way = exchange.request.query.get("way")
        if way == "upload":
            return Body(200, await exchange.request.read_body())
        if way == "fault":
            raise RuntimeError("a fault")
        if way == "takeover":
            return Takeover(_answer_for_another)
        if way == "stream":
            return Stream(_tell(), media_type="text/event-stream")
        if way == "socket":
            return Upgrade(_talk)
        await _wait()
        return Body(200, b"at last", "text/plain")


async def _wait() -> None:
    Slow.inside += 1
    try:
        await Slow.go_on.wait()
    finally:
        Slow.inside -= 1


async def _tell() -> AsyncIterator[bytes]:
    await _wait()
    yield b"data: told\n\n"


async def _talk(socket: Socket) -> None:
    await _wait()


async def _answer_for_another(scope: Any, receive: Any, send: Any) -> None:
    await _wait()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"taken over"})


def buckets_of(service: Service) -> Buckets:
    """What is counted of callers."""
    limiter = service.app._pipeline._limiter
    assert limiter is not None
    return limiter.buckets


@module_application
async def limited(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Service]:
    async with running(mongo_client, mongo_uri, SETTINGS, plugins=(*BUILTIN, Slow)) as service:
        Slow.go_on = asyncio.Event()
        buckets_of(service)._clock = Clock()
        yield service


_addresses = (f"10.{number >> 8}.{number & 255}.1" for number in count(1))


@pytest.fixture
def clock(limited: Service) -> Clock:
    """So much later that every bucket is full again."""
    clock = buckets_of(limited)._clock
    assert isinstance(clock, Clock)
    clock.now += 10_000
    return clock


@pytest.fixture
def address(clock: Clock) -> str:
    return next(_addresses)


Get = Callable[..., Awaitable[Reply]]


@pytest.fixture
def get(limited: Service, address: str) -> Get:
    """A request from the address of the test, or from another one."""

    async def send(path: str = "/whoami", user: str | None = None, **options: Any) -> Reply:
        method, source = options.pop("method", "GET"), options.pop("source", address)
        headers = {"x-forwarded-for": source, **options.pop("headers", {})}
        if user is not None:
            headers["authorization"] = render_basic(user, options.pop("password", "secret"))
        return await limited.request(method, path, headers=headers, **options)

    return send


def fields(reply: Reply) -> tuple[str | None, str | None]:
    return reply.headers.get("ratelimit"), reply.headers.get("retry-after")


# --- who is counted -------------------------------------------------------------------------------


async def test_a_user_has_one_share_wherever_he_is(get: Get, address: str) -> None:
    replies = [await get(user="ada", source=next(_addresses)) for _ in range(6)]

    assert [reply.status for reply in replies] == [200] * 4 + [429] * 2
    assert (await get(user="bob")).status == 200


async def test_a_user_is_one_however_he_logs_in(get: Get) -> None:
    first = await get(user="ada")
    token = first.headers["auth-token"]

    statuses = [(await get(user="ada", password=one)).status for one in (token, "secret") * 2]

    assert statuses == [200, 200, 200, 429]


async def test_an_address_has_one_share_whoever_calls(get: Get) -> None:
    users = ["ada", "bob", "ada", "bob", "ada", "bob", "ada", "bob", "eve", "eve", "joe"]

    assert [(await get(user=user)).status for user in users] == [200] * 10 + [429]
    assert (await get(user="joe", source=next(_addresses))).status == 200


async def test_unknown_callers_are_counted_by_address(get: Get) -> None:
    assert [(await get()).status for _ in range(3)] == [200, 200, 429]
    assert (await get(source=next(_addresses))).status == 200
    assert (await get(user="ada")).status == 200


async def test_a_role_has_a_limit_of_its_own_and_the_tightest_counts(get: Get) -> None:
    replies = [await get(user="eve") for _ in range(3)]

    assert [reply.status for reply in replies] == [200, 200, 429]
    assert fields(replies[0])[0] == '"editors";r=1;t=1'


async def test_all_callers_of_a_role_can_share_a_limit(get: Get) -> None:
    assert [(await get(user=one)).status for one in ("jim", "joe", "jim", "joe")] == [
        200,
        200,
        200,
        429,
    ]


async def test_addresses_of_one_network_are_one(get: Get) -> None:
    """A customer has 2 ** 64 addresses of IPv6."""
    sources = [f"2001:db8:7:{number % 2}::{number:x}" for number in range(6)]

    statuses = [(await get(source=source)).status for source in sources]

    assert statuses == [200, 200, 200, 200, 429, 429]


async def test_what_a_caller_writes_himself_is_not_his_address(get: Get, address: str) -> None:
    sources = [f"192.0.2.{number}, {address}" for number in range(3)]

    assert [(await get(source=source)).status for source in sources] == [200, 200, 429]


async def test_refused_credentials_are_counted_by_address_only(get: Get) -> None:
    wrong = [(await get(user="bob", password="wrong")).status for _ in range(12)]

    assert wrong == [401] * 10 + [429] * 2
    assert (await get(user="bob", source=next(_addresses))).status == 200


async def test_paths_that_are_not_there_count(get: Get) -> None:
    assert [(await get("/nothing")).status for _ in range(3)] == [404, 404, 429]


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "/ping"), ("GET", "/health/db"), ("OPTIONS", "/whoami")]
)
async def test_probes_and_preflights_are_never_limited(get: Get, method: str, path: str) -> None:
    replies = [await get(path, method=method) for _ in range(30)]

    assert {reply.status for reply in replies} == {200}
    assert "ratelimit" not in replies[0].headers


# --- what they hear -------------------------------------------------------------------------------


async def test_an_admitted_caller_hears_what_is_left(get: Get) -> None:
    reply = await get(user="ada")

    assert reply.headers["ratelimit-policy"] == (
        '"address";q=10;w=2, "address-concurrent";q=3;qu="concurrent-requests", "user";q=4;w=2'
    )
    assert fields(reply) == ('"user";r=3;t=1', None)
    assert "RateLimit, RateLimit-Policy" in reply.headers["access-control-expose-headers"]


async def test_a_refused_caller_hears_when_to_come_again_and_nothing_else(
    get: Get, clock: Clock
) -> None:
    for _ in range(4):
        await get(user="ada")

    reply = await get(user="ada")

    assert fields(reply) == ('"user";r=0;t=1', "1")
    assert reply.json == {
        "http status code": 429,
        "http status description": "Too Many Requests",
        "message": "too many requests",
        "code": "too-many-requests",
        "hint": "try again in 1 s",
    }
    clock.now += 0.5
    assert (await get(user="ada")).status == 200


async def test_who_waits_for_retry_after_is_admitted(get: Get, clock: Clock) -> None:
    for _ in range(3):
        await get(user="jim")
    refused = await get(user="jim")
    assert fields(refused) == ('"crew";r=0;t=2', "2")

    clock.now += 1.9
    assert fields(await get(user="jim"))[1] == "1"
    clock.now += 0.1
    assert (await get(user="jim")).status == 200


async def test_a_refusal_does_not_put_off_the_next_admission(get: Get, clock: Clock) -> None:
    assert [(await get()).status for _ in range(20)].count(200) == 2

    clock.now += 0.5
    assert [(await get()).status for _ in range(2)] == [200, 429]


async def test_a_flood_is_counted_in_full_and_logged_now_and_then(get: Get) -> None:
    with listening(RequestLimited) as counted, listening(CallersLimited) as logged:
        for _ in range(6):
            await get(user="bob")

    assert [(event.limit, event.reason) for event in counted] == [("user", "rate")] * 2
    assert len(logged) <= 1  # none where the log was told of this limit a moment ago


# --- at a time ------------------------------------------------------------------------------------


async def peers_inside(service: Service, address: str, number: int) -> list[Peer]:
    """So many requests that are worked on."""
    state = service.client._transport.state  # type: ignore[attr-defined]
    before = Slow.inside
    peers = [Peer(state) for _ in range(number)]
    for peer in peers:
        peer.send(build_request("GET", "/slow", x_forwarded_for=address))
    await eventually(lambda: Slow.inside == before + number)
    return peers


async def test_places_are_free_again_when_the_answers_are_there(
    limited: Service, get: Get, address: str, clock: Clock
) -> None:
    async def work() -> None:
        peers = await peers_inside(limited, address, 2)
        Slow.go_on.set()
        assert [(await peer.read()).status for peer in peers] == [200, 200]
        Slow.go_on.clear()
        for peer in peers:
            peer.leave()

    for _ in range(3):
        clock.now += 100
        await limited.there(work())


async def test_too_many_at_a_time_are_refused(
    limited: Service, get: Get, address: str, clock: Clock
) -> None:
    peers = await limited.there(peers_inside(limited, address, 2))
    third = await limited.there(one_more(limited, address, clock))
    refused = await get(user="ada")

    assert refused.status == 429
    assert fields(refused) == ('"address-concurrent";r=0;t=1', "1")
    assert (await get(user="ada", source=next(_addresses))).status == 200
    await limited.there(leave(*peers, *third))
    assert (await get(user="ada")).status == 200


async def one_more(service: Service, address: str, clock: Clock) -> list[Peer]:
    clock.now += 100
    return await peers_inside(service, address, 1)


async def leave(*peers: Peer) -> None:
    """The clients go, and their requests with them."""
    for peer in peers:
        peer.leave()
    await eventually(lambda: Slow.inside == 0)


def count_places(service: Service, address: str) -> int:
    """How many requests of an address hold a place."""
    buckets = buckets_of(service)
    table = buckets._tables[0]
    return table.find(buckets._hash(address), 0.0).held


async def test_a_client_that_leaves_gives_its_place_back(
    limited: Service, address: str, clock: Clock
) -> None:
    for _ in range(3):
        clock.now += 100
        peers = await limited.there(peers_inside(limited, address, 2))
        assert count_places(limited, address) == 2
        await limited.there(leave(*peers))
        assert count_places(limited, address) == 0


@pytest.mark.parametrize("way", ["fault", "upload"])
async def test_whatever_becomes_of_a_request_its_place_is_given_back(
    limited: Service, get: Get, address: str, way: str
) -> None:
    await get(f"/slow?way={way}", method="POST", content=b"x")

    assert count_places(limited, address) == 0


HANDSHAKE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec_websocket_version": "13",
    "sec_websocket_key": "AAAAAAAAAAAAAAAAAAAAAA==",
}


@pytest.mark.parametrize("way", ["takeover", "stream", "socket"])
async def test_what_goes_on_for_long_counts_as_a_request_and_holds_no_place(
    limited: Service, get: Get, address: str, way: str
) -> None:
    async def work() -> bytes:
        peer = Peer(limited.client._transport.state)  # type: ignore[attr-defined]
        headers = HANDSHAKE if way == "socket" else {}
        path = f"/slow?way={way}"
        peer.send(build_request("GET", path, x_forwarded_for=address, **headers))
        await eventually(lambda: Slow.inside == 1)
        assert count_places(limited, address) == 0
        Slow.go_on.set()
        await eventually(lambda: Slow.inside == 0 and b"\r\n\r\n" in peer.transport.output)
        Slow.go_on.clear()
        peer.leave()
        return bytes(peer.transport.output)

    output = await limited.there(work())
    assert b'ratelimit: "guests";r=1;t=1\r\n' in output.lower()
    assert [(await get()).status for _ in range(2)] == [200, 429]


async def test_callers_who_share_a_connection_of_a_proxy_have_their_own_shares(
    limited: Service, address: str
) -> None:
    """Whose request it is, is found for each of them."""
    other = next(_addresses)

    async def work() -> list[tuple[int, str | None]]:
        peer, seen = Peer(limited.client._transport.state), []  # type: ignore[attr-defined]
        for one in (address, other, address, address, other):
            answer = await peer.ask(build_request("GET", "/whoami", x_forwarded_for=one))
            seen.append((answer.status, answer["ratelimit"]))
        peer.leave()
        return seen

    with listening(RequestFinished) as finished:
        seen = await limited.there(work())

    assert [status for status, _ in seen] == [200, 200, 200, 429, 200]
    assert [event.client for event in finished] == [address, other, address, address, other]
    assert [share for _, share in seen[:2]] == ['"guests";r=1;t=1'] * 2


async def test_a_handshake_over_the_limit_is_refused(limited: Service, address: str) -> None:
    async def work() -> list[int]:
        statuses = []
        for _ in range(3):
            peer = Peer(limited.client._transport.state)  # type: ignore[attr-defined]
            path = "/slow?way=fault"
            peer.send(build_request("GET", path, x_forwarded_for=address, **HANDSHAKE))
            statuses.append((await peer.read()).status)
            peer.leave()
        return statuses

    assert await limited.there(work()) == [500, 500, 429]


async def test_a_browser_gets_a_page_and_an_app_its_own_shape(get: Get) -> None:
    for _ in range(2):
        await get("/graphql/none")
    refused = await get("/graphql/none")
    page = await get("/graphql/none", headers={"sec-fetch-mode": "navigate"})

    assert refused.status == page.status == 429
    assert refused.json["errors"][0]["extensions"]["code"] == "too-many-requests"
    assert page.headers["content-type"].startswith("text/html")
    assert page.headers["retry-after"] == "1"


async def test_a_slow_upload_holds_the_place_of_its_own_caller(
    limited: Service, get: Get, address: str
) -> None:
    async def begin() -> Peer:
        peer = Peer(limited.client._transport.state)  # type: ignore[attr-defined]
        head = build_request(
            "POST", "/slow?way=upload", x_forwarded_for=address, content_length="10"
        )
        peer.send(head + b"x")
        await eventually(lambda: count_places(limited, address) == 1)
        return peer

    async def end(peer: Peer) -> int:
        peer.send(b"x" * 9)
        status = (await peer.read()).status
        peer.leave()
        return status

    peer = await limited.there(begin())
    assert (await get()).status == 200
    assert await limited.there(end(peer)) == 200
    assert count_places(limited, address) == 0


async def test_requests_on_one_connection_count_each(limited: Service, address: str) -> None:
    """Keep-alive, and several sent at once: nobody saves by it."""

    async def work() -> list[int]:
        peer = Peer(limited.client._transport.state)  # type: ignore[attr-defined]
        peer.send(build_request("GET", "/whoami", x_forwarded_for=address) * 4)
        statuses = [(await peer.read()).status for _ in range(4)]
        peer.leave()
        return statuses

    assert await limited.there(work()) == [200, 200, 429, 429]
