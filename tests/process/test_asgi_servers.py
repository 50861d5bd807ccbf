"""Drills of the ASGI application with uvicorn, hypercorn and granian (decision 74)."""

from __future__ import annotations

import re
import socket
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from wsproto.events import TextMessage

from tests.http.auth.test_digest import DIGEST, answer
from tests.http.harness import merge
from tests.http.login import QUIET, REALM
from tests.process.asgi_servers import COMMANDS, run_asgi_server
from tests.process.harness import Server, eventually, request
from tests.process.test_tokens_workers import one_wire_per_worker

pytestmark = pytest.mark.second_tier("starts servers of others, each of which takes seconds")
LARGE = 20 << 20


@pytest.fixture(scope="module", params=list(COMMANDS))
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with run_asgi_server(request.param) as server:
        yield server


def ask_slowly(server: Server, path: str) -> socket.socket:
    """A connection whose client has a small buffer, and has not read yet."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 15)
    connection.settimeout(60)
    connection.connect(("127.0.0.1", server.port))
    connection.sendall(request("GET", path))
    return connection


def count_content(connection: socket.socket, size: int) -> int:
    """The bytes behind the head, as far as they are expected."""
    first = connection.recv(1 << 16).partition(b"\r\n\r\n")[2]
    count = len(first)
    while count < size and (data := connection.recv(1 << 20)):
        count += len(data)
    return count


def finished(server: Server, path: str) -> list[dict[str, Any]]:
    return [one for one in server.named("request-finished") if one["path"] == path]


def test_bodies_and_heads(server: Server) -> None:
    with server.connect() as wire:
        wire.send(request("POST", "/echo", b"x" * 300_000))
        assert wire.read().body == b"x" * 300_000
    with server.connect() as wire:
        wire.send(request("POST", "/echo", transfer_encoding="chunked") + b"3\r\nabc\r\n0\r\n\r\n")
        assert wire.read().body == b"abc"
    assert server.get("/number?n=a%20b").json == "a b"
    assert server.get("/head", a_b="x" * 9000).status == 431
    assert server.get("/nothing").status == 404


def test_a_body_that_is_not_read_ends_the_connection(server: Server) -> None:
    with server.connect() as wire:
        wire.send(request("POST", "/ignore", b"x" * 300_000))
        assert wire.read().status == 200


def test_a_websocket(server: Server) -> None:
    with server.connect() as wire:
        peer = wire.open_websocket("/ws")
        wire.send(peer.send(TextMessage(data="hello")))
        event = wire.read_websocket(peer)
        assert isinstance(event, TextMessage)
        assert event.data == "hello"
    ended = eventually(lambda: finished(server, "/ws"))
    assert ended[0]["status"] == 101


def test_a_stream_of_events_ends_with_its_client(server: Server) -> None:
    with server.connect() as wire:
        wire.send(request("GET", "/events"))
        received = b""
        while received.count(b"data: tick") < 3:
            received += wire.socket.recv(1 << 16)
    assert eventually(lambda: finished(server, "/events"))[0]["aborted"]


def test_a_large_answer_to_a_slow_reader(server: Server) -> None:
    with ask_slowly(server, f"/big?size={LARGE}") as connection:
        assert server.get("/ping").status == 200  # others do not wait for it
        assert count_content(connection, LARGE) == LARGE
    assert eventually(lambda: finished(server, "/big"))[0]["bytes_out"] == LARGE


def test_a_client_that_disconnects_ends_the_work(server: Server) -> None:
    with server.connect() as wire:
        wire.send(request("GET", "/hold"))
        eventually(lambda: server.get("/ping"))
    ended = eventually(lambda: finished(server, "/hold"))
    assert (ended[0]["status"], ended[0]["aborted"]) == (499, True)


def test_a_client_that_disconnects_in_a_body_ends_the_work(server: Server) -> None:
    with server.connect() as wire:
        head = request("POST", "/echo", b"", a="b").replace(
            b"content-length: 0", b"content-length: 9"
        )
        wire.send(head + b"abc")
        eventually(lambda: server.get("/ping"))
    eventually(lambda: any(one["aborted"] for one in finished(server, "/echo")))


@pytest.mark.parametrize("kind", list(COMMANDS))
def test_a_graceful_stop(kind: str, tmp_path: Path) -> None:
    """A request is finished; a stream without an end takes as long as the server allows.

    granian then kills the process, so that the lifespan has no end: without such a stream there.
    """
    until = tmp_path / "go"
    with run_asgi_server(kind) as server, server.connect() as events, server.connect() as held:
        if kind != "granian":
            events.send(request("GET", "/events"))
            assert b"200" in events.socket.recv(64)
        held.send(request("GET", f"/hold?until={until}"))
        assert not finished(server, "/hold")
        eventually(lambda: server.get("/ping"))  # the requests before it have begun
        stopping = threading.Timer(0.3, until.touch)
        stopping.start()
        server.stop()
        stopping.join()
        assert held.read().json == "released"
        eventually(lambda: "sample shut down\n" in server.errors)
        assert server.named("server-stopped")


def test_an_invalid_configuration_is_one_message() -> None:
    wrong = {"graphql": {"max-limits": 3}}
    with pytest.raises(AssertionError) as failure, run_asgi_server("uvicorn", wrong):
        pass
    assert "/graphql/max-limits" in str(failure.value)
    assert "Traceback" not in str(failure.value)


BURST = 200
LIMITS = {
    "core": {"trusted-proxies": ["127.0.0.1"]},
    "caller-limits": {
        "enabled": True,
        "limits": [{"name": "a", "per": "address", "requests-per-second": 0.001, "burst": BURST}],
    },
}


@pytest.fixture(scope="module")
def four(mongo_uri: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    settings = merge(
        QUIET,
        REALM,
        DIGEST,
        LIMITS,
        {"mongo": {"enabled": False}, "mclient": {"connection-string": mongo_uri}},
        {"bruteForceAttackGuard": {"enabled": True}},
    )
    directory = tmp_path_factory.mktemp("shared") / "instance"
    with run_asgi_server("uvicorn", settings, workers=4, instance=directory) as server:
        yield server


def ask_all(server: Server, count: int, path: str = "/ping", **headers: str) -> Counter[int]:
    """The statuses of requests on connections of their own."""
    return Counter(server.get(path, **headers).status for _ in range(count))


def test_four_workers_have_numbers(four: Server) -> None:
    with one_wire_per_worker(four, 4) as wires:
        assert {wire.get("/ping").json["worker"] for wire in wires} == {1, 2, 3, 4}


def test_a_digest_nonce_is_good_once_over_four_workers(four: Server) -> None:
    challenge = four.get("/ping", authorization="Digest", x_forwarded_for="10.9.0.1")
    parameters = dict(re.findall(r'(\w+)="?([^",]*)"?', challenge["www-authenticate"] or ""))
    authorization = answer(parameters, uri="/ping")
    statuses = ask_all(four, 40, authorization=authorization, x_forwarded_for="10.9.0.2")
    assert statuses[200] == 1


def test_four_workers_admit_as_many_as_one(four: Server) -> None:
    statuses = ask_all(four, BURST + 40, x_forwarded_for="10.9.0.3")
    assert statuses == {200: BURST, 429: 40}
