"""One address cannot take all connections; health checks are answered when there is no room."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from docgraph.exchange import Answer, Body, Exchange, Socket, Upgrade
from docgraph.runtime.sections import Core
from docgraph.server.http.connection_limits import (
    Admitted,
    ConnectionLimits,
    forget_worker,
    make_cells,
)
from docgraph.server.http.state import ProcessState, build_state
from docgraph.server.proxies import TrustedProxies
from docgraph.server.sections import ConnectionOptions
from docgraph.server.settings import Limits, ServerSettings
from tests.connections import Peer, Response, build_request
from tests.unit.server.http.test_exchanges import App
from tests.unit.server.http.test_uploads import until

pytestmark = pytest.mark.anyio

HANDSHAKE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec_websocket_version": "13",
    "sec_websocket_key": "dGhlIHNhbXBsZSBub25jZQ==",
}


class Instance:
    """A server in one process whose callers come from many addresses."""

    def __init__(self, *, trusted: tuple[str, ...] = (), **options: Any) -> None:
        settings = ServerSettings(
            core=Core(trusted_proxies=trusted), connection_options=ConnectionOptions(**options)
        )
        application = App(self._answer, probes=("/ping", "/health/db"))
        self.state: ProcessState = build_state(application, settings)
        self._others = 0

    async def _answer(self, exchange: Exchange) -> Answer:
        if exchange.request.path == "/ws":
            return Upgrade(self._listen)
        return Body(200, b"ok")

    async def _listen(self, socket: Socket) -> None:
        while await socket.receive() is not None:
            pass

    def connect(self, address: str | None = None) -> Peer:
        """By default from an address that nobody has come from."""
        self._others += 1
        return Peer(
            self.state, client=(address or f"10.0.{self._others >> 8}.{self._others & 255}", 1)
        )

    async def ask(self, path: str, address: str | None = None) -> Response:
        return await self.connect(address).ask(build_request("GET", path))

    def fill(self, number: int, address: str | None = None) -> list[Peer]:
        return [self.connect(address) for _ in range(number)]


async def until_lost(peer: Peer) -> None:
    await until(lambda: peer.transport.is_lost)


def assert_overloaded(response: Response) -> None:
    assert (response.status, response["retry-after"]) == (503, "1")
    assert orjson.loads(response.body)["code"] == "overloaded"
    assert response["connection"] == "close"


async def test_the_last_connections_answer_health_checks_only() -> None:
    instance = Instance(max_connections=100)
    instance.fill(84)

    assert_overloaded(await instance.ask("/notes"))
    for path in ("/ping", "/health/db"):
        response = await instance.ask(path)
        assert (response.status, response["connection"]) == (200, "close")


async def test_a_health_check_gives_its_connection_back_with_its_answer() -> None:
    instance = Instance(max_connections=100)
    instance.fill(84)

    for _ in range(40):
        peer = instance.connect("192.0.2.1")
        assert (await peer.ask(build_request("GET", "/ping"))).status == 200
        await until_lost(peer)


async def test_a_connection_that_came_when_there_was_room_answers_everything_later() -> None:
    instance = Instance(max_connections=100)
    early = instance.connect()
    instance.fill(99)

    for _ in range(2):
        response = await early.ask(build_request("GET", "/notes"))
        assert (response.status, response["connection"]) == (200, None)


async def test_room_that_was_given_back_is_given_to_others() -> None:
    instance = Instance(max_connections=100)
    peers = instance.fill(84)
    assert_overloaded(await instance.ask("/notes"))

    peers[0].transport.lose()
    await until_lost(peers[0])

    assert (await instance.ask("/notes")).status == 200


async def test_one_address_has_at_most_four_of_the_last_connections() -> None:
    instance = Instance(max_connections=100)
    instance.fill(84)

    one = instance.fill(5, "192.0.2.1")
    assert_overloaded(await one[4].read())
    for peer in one[:4]:
        assert (await peer.ask(build_request("GET", "/ping"))).status == 200


async def test_above_all_of_them_everything_is_refused() -> None:
    instance = Instance(max_connections=100)
    instance.fill(100)

    assert_overloaded(await instance.connect().read())


async def test_refused_connections_take_nobodys_room() -> None:
    """They stay for a moment so that their answers are read, but only so many."""
    instance = Instance(max_connections=100, max_connections_per_address=10)
    instance.fill(10, "192.0.2.1")
    refused = instance.fill(200, "192.0.2.1")[4:]

    assert sum(not one.transport.is_closing() for one in refused) == 64
    assert (await instance.ask("/notes")).status == 200


async def test_one_address_has_half_of_the_connections_by_default() -> None:
    instance = Instance(max_connections=100)
    instance.fill(50, "192.0.2.1")

    assert_overloaded(await instance.ask("/notes", "192.0.2.1"))
    assert (await instance.ask("/notes", "192.0.2.2")).status == 200


async def test_an_address_at_its_limit_is_still_answered_how_the_server_is() -> None:
    """The health check of a machine often comes from where its callers come from."""
    instance = Instance(max_connections=100, max_connections_per_address=3)
    instance.fill(3, "192.0.2.1")

    assert (await instance.ask("/ping", "192.0.2.1")).status == 200
    assert_overloaded(await instance.ask("/notes", "192.0.2.1"))


@pytest.mark.parametrize(
    ("first", "second", "is_same"),
    [
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("fe80::1%eth0", "fe80::2%eth1", True),
    ],
)
async def test_an_ipv6_network_of_64_bits_is_one_address(
    first: str, second: str, is_same: bool
) -> None:
    instance = Instance(max_connections=100, max_connections_per_address=3)
    instance.fill(3, first)

    assert (await instance.ask("/notes", second)).status == (503 if is_same else 200)


async def test_a_trusted_proxy_has_the_connections_of_all_its_callers() -> None:
    instance = Instance(
        trusted=("192.0.2.0/24",), max_connections=100, max_connections_per_address=3
    )
    instance.fill(83, "192.0.2.1")

    assert (await instance.ask("/notes", "192.0.2.1")).status == 200
    instance.fill(1, "192.0.2.1")
    instance.fill(4, "192.0.2.1")
    assert_overloaded(
        await instance.connect("192.0.2.1").read()
    )  # the last ones are for others, too
    assert (await instance.ask("/ping", "198.51.100.1")).status == 200


async def test_a_unix_socket_has_no_address_to_be_counted_by() -> None:
    instance = Instance(max_connections=100, max_connections_per_address=3)
    for _ in range(20):
        Peer(instance.state, client="")  # as the system names the other end of such a socket

    assert set(instance.state.connections.values()) == {Admitted.ALL}


async def test_a_websocket_keeps_the_place_of_its_connection_until_it_ends() -> None:
    instance = Instance(max_connections=100, max_connections_per_address=1)
    peer = instance.connect("192.0.2.1")
    assert (await peer.ask(build_request("GET", "/ws", **HANDSHAKE))).status == 101

    assert_overloaded(await instance.ask("/notes", "192.0.2.1"))
    peer.transport.lose()
    await until_lost(peer)
    assert (await instance.ask("/notes", "192.0.2.1")).status == 200


async def test_there_is_no_websocket_on_the_last_connections() -> None:
    instance = Instance(max_connections=100)
    instance.fill(84)

    assert_overloaded(await instance.connect().ask(build_request("GET", "/ws", **HANDSHAKE)))


async def test_a_connection_for_health_checks_is_not_kept_by_silence() -> None:
    instance = Instance(max_connections=100, header_timeout_ms=0)
    early, *_ = instance.fill(84)
    late = instance.connect()

    now = late.protocol._loop.time() + 6
    instance.state.sweep(now)

    await until_lost(late)
    assert not early.transport.is_closing()


@pytest.mark.parametrize(
    ("connections", "per_address", "for_requests", "of_address", "for_probes", "probes_of_address"),
    [
        (2000, None, 1984, 1000, 16, 4),
        (32, None, 16, 16, 16, 4),
        (31, None, 16, 16, 15, 4),
        (16, None, 8, 8, 8, 2),
        (6, None, 3, 3, 3, 1),
        (2, None, 1, 1, 1, 1),
        (1, None, 1, 1, 0, 0),
        (100, 7, 84, 7, 16, 4),
    ],
)
async def test_limits_that_meet_leave_room_for_requests(
    connections: int,
    per_address: int | None,
    for_requests: int,
    of_address: int,
    for_probes: int,
    probes_of_address: int,
) -> None:
    options = ConnectionOptions(
        max_connections=connections, max_connections_per_address=per_address
    )
    limits = Limits.from_options(options, workers=4)

    assert limits.request_connections == for_requests
    assert limits.connections_of_address == of_address
    assert limits.probe_connections == for_probes
    assert limits.probe_connections_of_address == probes_of_address


async def test_workers_count_together() -> None:
    limits = Limits.from_options(ConnectionOptions(max_connections=100), workers=2)
    cells = make_cells(2)
    first, second = (ConnectionLimits(limits, TrustedProxies(()), cells, one) for one in range(2))

    assert {first.admit("192.0.2.1") for _ in range(25)} == {Admitted.ALL}
    assert {second.admit("192.0.2.1") for _ in range(25)} == {Admitted.ALL}
    assert first.admit("192.0.2.1") is second.admit("192.0.2.1") is Admitted.PROBES
    assert (first.count_own(), second.count_own()) == (26, 26)

    first.release(Admitted.ALL, "192.0.2.1")
    assert second.admit("192.0.2.1") is Admitted.ALL
    forget_worker(cells, 0)  # it was killed, and with it 24 connections
    assert {second.admit("192.0.2.1") for _ in range(24)} == {Admitted.ALL}
    assert second.admit("192.0.2.1") is Admitted.PROBES


async def test_an_address_is_not_counted_for_another_one() -> None:
    options = ConnectionOptions(max_connections=2000, max_connections_per_address=4)
    limits = ConnectionLimits(Limits.from_options(options), TrustedProxies(()))
    addresses = [f"10.{one >> 8}.{one & 255}.1" for one in range(400)]

    admitted = [limits.admit(one) for one in addresses for _ in range(4)]

    assert set(admitted) == {Admitted.ALL}
