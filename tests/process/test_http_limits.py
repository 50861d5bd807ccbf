"""Limits on what clients send, how long they take and how many they are (H02, H03, L08-L11)."""

from __future__ import annotations

import os
import resource
import select
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, suppress
from functools import partial
from pathlib import Path

import psutil
import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import CloseConnection, Request, TextMessage

from tests.expect import present
from tests.process.harness import Response, Server, Wire, eventually, request, run_server

ORIGIN = "https://good.example"
BOTH = pytest.mark.parametrize("workers", [1, 2], ids=["one-worker", "two-workers"])


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """What a connection may do does not depend on the number of workers: one is enough."""
    with run_server({"cors": {"allow-origins": [ORIGIN]}}) as server:
        yield server


def limited(workers: int = 1, **options: int) -> AbstractContextManager[Server]:
    """A server with a limit that is soon reached; a test has only the one that it is about."""
    limits = {name.replace("_", "-"): value for name, value in options.items()}
    settings = {"connection-options": limits, "cors": {"allow-origins": [ORIGIN]}}
    return run_server(settings, workers=workers)


def assert_refused(response: Response, status: int, connection: str | None = "close") -> None:
    """What every refusal has, whoever made it."""
    assert response.status == status
    assert response["connection"] == connection
    assert response["x-request-id"]
    assert response["date"]
    assert response["content-type"] == "application/json; charset=utf-8"
    assert response["x-content-type-options"] == "nosniff"
    assert response["server"] is None
    assert response.json["http status code"] == status
    assert response.json["code"]


def assert_listed_origin(response: Response) -> None:
    assert response["access-control-allow-origin"] == ORIGIN
    assert response["access-control-allow-credentials"] == "true"
    assert response["vary"] == "Origin"


TOO_LARGE = {
    "101-headers": (431, b"".join(b"X-%d: a\r\n" % number for number in range(100))),
    "9-KiB-header": (431, b"X-Long: " + b"a" * 9 * 1024 + b"\r\n"),
    "33-KiB-of-headers": (431, b"".join(b"X-%d: %s\r\n" % (n, b"a" * 4000) for n in range(9))),
    "endless-header": (431, b"X-Endless: " + b"a" * 72 * 1024),
    "1-MB-header": (431, b"X-Huge: " + b"a" * 1_000_000 + b"\r\n"),
}


@pytest.mark.parametrize(("status", "fields"), TOO_LARGE.values(), ids=TOO_LARGE.keys())
def test_a_head_above_its_bounds_is_refused(server: Server, status: int, fields: bytes) -> None:
    with server.connect() as wire:
        head = b"GET /ping HTTP/1.1\r\nHost: localhost\r\nOrigin: " + ORIGIN.encode() + b"\r\n"
        with suppress(ConnectionError):  # the server had enough; its answer is there all the same
            wire.send(head + fields + (b"\r\n" if fields.endswith(b"\n") else b""))

        response = wire.read()

        assert_refused(response, status)
        assert_listed_origin(response)
        assert wire.is_closed()


def test_a_hundred_headers_and_eight_kilobytes_are_accepted(server: Server) -> None:
    fields = {f"x-{number}": "a" for number in range(98)}

    assert server.get("/ping", x_long="a" * 8100, **fields).status == 200


def test_a_long_url_is_refused(server: Server) -> None:
    with server.connect() as wire:
        wire.send(request("GET", "/ping?" + "a" * 9 * 1024))

        assert_refused(wire.read(), 414)
        assert wire.is_closed()


def test_a_refusal_is_logged_with_its_id(server: Server) -> None:
    with server.connect() as wire:
        wire.send(request("GET", "/elsewhere?" + "a" * 9 * 1024))
        response = wire.read()

    def find() -> bool:
        return any(
            event["request_id"] == response["x-request-id"]
            and event["status"] == 414
            and event["path"].startswith("/elsewhere")
            for event in server.named("request-refused")
        )

    assert eventually(find)


def test_an_announced_body_above_the_limit_is_refused_before_it_is_sent(server: Server) -> None:
    with server.connect() as wire:
        wire.send(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1048577\r\n\r\n")

        response = wire.read()

        assert_refused(response, 413)
        assert wire.is_closed()


def test_an_endless_chunked_body_is_refused_in_little_memory(server: Server) -> None:
    before = server.memory()
    sent = 0
    with server.connect() as wire:
        wire.send(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"10000\r\n" + b"a" * 65536 + b"\r\n"
        with suppress(ConnectionError):
            while sent < 1 << 30:
                wire.send(chunk)
                sent += 65536
        with suppress(ConnectionResetError):  # who never stops sending may miss the answer
            assert_refused(wire.read(), 413)

    assert sent < 32 << 20  # what fits the buffers of two kernels
    assert server.memory() - before <= 6 << 20


def test_a_client_that_stops_sending_sees_why_its_chunked_body_was_refused(server: Server) -> None:
    with server.connect() as wire:
        wire.send(b"POST /echo HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        wire.send((b"10000\r\n" + b"a" * 65536 + b"\r\n") * 17)

        assert_refused(wire.read(), 413)


def _drip(wire: Wire, data: bytes) -> None:
    """Send it again and again, until there is an answer."""
    with suppress(ConnectionError):  # the server had enough; its answer is there all the same
        while not select.select([wire.socket], [], [], 0.05)[0]:
            wire.send(data)


def _answer_unfinished(server: Server, head: bytes, drip: bytes = b"") -> Response | None:
    """The answer to a head without an end; None if its first byte was late already."""
    with server.connect() as wire:
        try:
            wire.send(head)
            if drip:
                _drip(wire, drip)
            response = wire.read()
        except (EOFError, ConnectionError):
            return None
        assert wire.is_closed()
        return response


def test_a_head_that_does_not_end_in_time_is_answered_with_408() -> None:
    head = b"GET /ping HTTP/1.1\r\nHost: localhost\r\nOrigin: " + ORIGIN.encode() + b"\r\nX-"
    with limited(header_timeout_ms=700) as server:
        begun = time.monotonic()

        response = present(eventually(lambda: _answer_unfinished(server, head)))

        assert time.monotonic() - begun > 0.6
        assert_refused(response, 408)
        assert "head did not arrive in time" in response.json["message"]
        assert_listed_origin(response)


def test_dripping_does_not_prolong_the_time_of_a_head() -> None:
    head = b"GET /ping HTTP/1.1\r\nHost: localhost\r\n"
    with limited(header_timeout_ms=700, max_headers=1000) as server:
        response = present(eventually(lambda: _answer_unfinished(server, head, drip=b"X-A: b\r\n")))

        assert_refused(response, 408)


def test_a_connection_without_a_byte_is_closed_without_a_word() -> None:
    with limited(header_timeout_ms=300) as server, server.connect() as wire:
        assert wire.is_closed()


def test_an_idle_connection_is_closed() -> None:
    with limited(keep_alive_timeout_ms=500) as server, server.connect() as wire:
        begun = time.monotonic()
        assert wire.get("/ping").status == 200

        assert wire.is_closed()
        assert time.monotonic() - begun > 0.4


def test_a_body_that_does_not_end_in_time_is_answered_with_408() -> None:
    with limited(body_timeout_ms=1000, min_body_rate=1) as server, server.connect() as wire:
        begun = time.monotonic()
        wire.send(request("POST", "/echo", origin=ORIGIN, content_length="1000000") + b"a" * 1000)
        _drip(wire, b"a" * 1000)  # fast enough, but never done

        response = wire.read()

        assert time.monotonic() - begun > 0.9
        assert_refused(response, 408)
        assert "did not arrive in time" in response.json["message"]
        assert_listed_origin(response)
        assert wire.is_closed()


def test_a_body_that_is_too_slow_is_answered_with_408_before_its_time_is_up() -> None:
    with limited(body_timeout_ms=12_000) as server, server.connect() as wire:
        wire.send(request("POST", "/echo", content_length="100000") + b"a")

        response = wire.read()

        assert_refused(response, 408)
        assert "1024 bytes per second" in response.json["message"]


def _aborted(server: Server, path: str) -> bool:
    finished = server.named("request-finished")
    return any(event["aborted"] and event["path"] == path for event in finished)


def test_many_may_connect_while_the_server_is_busy() -> None:
    """The system takes them, as many as it is willing to; it would make others try again."""
    crowd = min(300, int(Path("/proc/sys/net/core/somaxconn").read_text()))
    with run_server({}) as server, ExitStack() as stack:
        os.kill(server.process.pid, signal.SIGSTOP)
        stack.callback(os.kill, server.process.pid, signal.SIGCONT)
        connecting = select.poll()
        for _ in range(crowd):
            client = stack.enter_context(socket.socket())
            client.setblocking(False)
            client.connect_ex(("127.0.0.1", server.port))
            connecting.register(client, select.POLLOUT)

        eventually(lambda: len(connecting.poll(0)) == crowd)


def test_a_reader_that_does_not_read_is_dropped() -> None:
    size = 32 << 20
    with limited(write_timeout_ms=500) as server, server.connect() as wire:
        wire.send(request("GET", f"/big?size={size}"))
        eventually(lambda: server.named("request-finished"))
        eventually(lambda: not _holds(server, wire))

        assert _read_all(wire) < size


def test_answers_that_are_not_read_are_bounded_together() -> None:
    """Whoever has been reading for longest gives way, and the others get theirs whole."""
    size = 24 << 20
    with limited(max_unread_size=2 * size) as server, ExitStack() as stack:
        slow = [stack.enter_context(server.connect()) for _ in range(4)]
        for number, wire in enumerate(slow, 1):
            wire.send(request("GET", f"/big?size={size}", connection="close"))
            eventually(lambda: len(server.named("request-finished")) == number)  # noqa: B023 - awaited here
        eventually(lambda: not _holds(server, slow[0]) and not _holds(server, slow[1]))

        assert _read_all(slow[0]) < size
        assert _read_all(slow[2]) > size
        assert _read_all(slow[3]) > size


def test_unread_answers_leave_room_below_a_memory_limit() -> None:
    size = 24 << 20
    with limited() as server, ExitStack() as stack:
        process = psutil.Process(server.process.pid)
        most = process.memory_info().vms + 8 * size
        resource.prlimit(process.pid, resource.RLIMIT_AS, (most, most))
        slow = [stack.enter_context(server.connect()) for _ in range(5)]
        for number, wire in enumerate(slow, 1):
            wire.send(request("GET", f"/big?size={size}", connection="close"))
            eventually(lambda: len(server.named("request-finished")) == number)  # noqa: B023 - awaited here
        eventually(lambda: sum(_holds(server, wire) for wire in slow) <= 3)

        assert _read_all(slow[-1]) > size


def test_a_single_answer_may_be_longer_than_all_together() -> None:
    size = 24 << 20
    with limited(max_unread_size=1 << 20) as server, server.connect() as wire:
        wire.send(request("GET", f"/big?size={size}", connection="close"))
        eventually(lambda: server.named("request-finished"))

        assert _read_all(wire) > size


def _holds(server: Server, wire: Wire) -> bool:
    """Whether the server has its end of a connection; the client sees that only by reading."""
    ours = wire.socket.getsockname()
    return any(one.raddr == ours for one in psutil.Process(server.process.pid).net_connections())


def test_a_slow_reader_that_reads_is_kept() -> None:
    with limited(write_timeout_ms=1000) as server:
        eventually(lambda: _reads_slowly(server, 16 << 20))


def _reads_slowly(server: Server, size: int) -> bool:
    """Whether everything arrived; a reader that was kept from reading may have been dropped."""
    received, longest_pause = 0, 0.0
    with server.connect() as wire:
        wire.send(request("GET", f"/big?size={size}", connection="close"))
        while received < size:
            begun = time.monotonic()
            data = wire.socket.recv(1 << 20)
            if not data:
                assert longest_pause > 0.5, "dropped"
                return False
            received += len(data)
            time.sleep(0.1)
            longest_pause = max(longest_pause, time.monotonic() - begun)
    return True


def _read_all(wire: Wire) -> int:
    received = 0
    with suppress(ConnectionError):
        while data := wire.socket.recv(1 << 20):
            received += len(data)
    return received


def test_a_client_that_leaves_ends_the_work_for_it() -> None:
    with run_server() as server:
        with server.connect() as wire:
            wire.send(request("GET", "/hold"))
            eventually(lambda: server.named("request-started"))

        eventually(lambda: _aborted(server, "/hold"))


@BOTH
def test_more_connections_than_allowed_are_answered_with_503(workers: int) -> None:
    """Of 12 connections half are for requests, a quarter of the rest for one address."""
    limits = {"max-connections": 12, "max-connections-per-address": 6}
    settings = {"connection-options": limits, "ping": {"enabled": True}}
    with run_server(settings, workers=workers) as server, ExitStack() as all:
        wires = [_open(all, server, "/echo") for _ in range(6)]

        late = [all.enter_context(server.connect()) for _ in range(6)]
        refused = _wait_for(late, 3)  # two workers may admit one each in the same moment
        for wire in refused:
            response = wire.read()
            assert_refused(response, 503)
            assert response["retry-after"] == "1"
            assert response.json["code"] == "overloaded"
            assert wire.is_closed()

        first, second = [wire for wire in late if wire not in refused][:2]
        assert_refused(first.get("/echo"), 503)
        assert second.get("/ping").status == 200
        assert second.is_closed()
        eventually(lambda: _try_ping(server))
        wires[0].socket.close()
        eventually(lambda: _try(server, "/echo"))
        assert wires[1].get("/echo").status == 200


def _open(stack: ExitStack, server: Server, path: str) -> Wire:
    """A connection on which a request was answered."""
    wire = stack.enter_context(server.connect())
    assert wire.get(path).status == 200
    return wire


def test_connections_of_a_worker_that_was_killed_are_given_back() -> None:
    limits = {"max_connections": 100, "max_connections_per_address": 4}
    with limited(2, **limits) as server, ExitStack() as all:
        for _ in range(4):
            _open(all, server, "/echo")
        assert not _try(server, "/echo")

        for one in server.workers():
            one.kill()

        eventually(lambda: _try_if_up(server, "/echo"))


def _try_ping(server: Server) -> bool:
    return _try(server, "/ping")


def _try(server: Server, path: str) -> bool:
    with server.connect() as wire:
        wire.send(request("GET", path))
        return wire.read().status == 200


def _try_if_up(server: Server, path: str) -> bool:
    with suppress(OSError, EOFError):
        return _try(server, path)
    return False


@BOTH
def test_more_requests_than_allowed_are_answered_with_503_at_once(
    workers: int, tmp_path: Path
) -> None:
    released = tmp_path / "released"
    options = {"max-requests-in-flight": 2, "queue": 2}
    with run_server({"connection-options": options}, workers=workers) as server, ExitStack() as all:
        wires = [all.enter_context(server.connect()) for _ in range(10)]
        for wire in wires:
            wire.send(request("GET", f"/hold?until={released}"))
        early = _wait_for(wires, 6)  # or more, if one worker has got more of them than the other

        for wire in early:
            response = wire.read()
            # Another worker may have room for who comes again; where there is none, it may stay.
            assert_refused(response, 503, None if workers == 1 else "close")
            assert response["retry-after"] == "1"
            assert response["access-control-allow-origin"] == "*"
        released.touch()
        assert {wire.read().status for wire in wires if wire not in early} <= {200, 503}
        assert _try_ping(server)


def test_one_address_cannot_fill_the_queue(tmp_path: Path) -> None:
    """The address with most requests in the queue gives up a place (decision 76)."""
    released = tmp_path / "released"
    config = {
        "core": {"trusted-proxies": ["127.0.0.1"]},
        "connection-options": {"max-requests-in-flight": 2, "queue": 6},
    }
    with run_server(config) as server, ExitStack() as all:
        wires = [all.enter_context(server.connect()) for _ in range(10)]
        for number, wire in enumerate(wires):
            client = f"192.0.2.{1 + (number >= 8)}"
            wire.send(request("GET", f"/hold?until={released}", x_forwarded_for=client))
            eventually(partial(_have_started, server, number + 1))
        rejected = _wait_for(wires, 2)
        assert set(rejected) <= set(wires[:8])
        assert {wire.read().status for wire in rejected} == {503}
        released.touch()
        assert {wire.read().status for wire in wires if wire not in rejected} == {200}


def _have_started(server: Server, count: int) -> bool:
    return len(server.named("request-started")) >= count


def _wait_for(wires: list[Wire], number: int) -> list[Wire]:
    """The first wires that have something to read."""
    by_socket: dict[socket.socket, Wire] = {wire.socket: wire for wire in wires}

    def find() -> list[Wire]:
        ready = select.select(list(by_socket), [], [], 0)[0]
        return [by_socket[one] for one in ready] if len(ready) >= number else []

    return eventually(find)


@BOTH
def test_a_waiting_request_whose_client_left_gives_its_place_away(workers: int) -> None:
    with limited(workers, max_requests_in_flight=workers, queue=workers) as server:
        wires = [server.connect() for _ in range(4 * workers)]
        for wire in wires:
            wire.send(request("GET", "/hold"))
        eventually(lambda: len(server.named("request-started")) == len(wires))
        for wire in wires:
            wire.socket.close()

        eventually(lambda: len(server.named("request-finished")) == len(wires))
        assert _try_ping(server)


def test_a_websocket_message_above_its_bound_is_closed_with_1009(server: Server) -> None:
    with server.connect() as wire:
        peer = wire.open_websocket("/ws")
        wire.send(peer.send(TextMessage("a" * 1000)))
        echoed = wire.read_websocket(peer)
        assert isinstance(echoed, TextMessage)
        assert echoed.data == "a" * 1000

        wire.send(peer.send(TextMessage("a" * (64 * 1024 + 1))))

        closed = wire.read_websocket(peer)
        assert isinstance(closed, CloseConnection)
        assert closed.code == 1009


def test_a_websocket_that_nobody_serves_gets_an_ordinary_response(server: Server) -> None:
    with server.connect() as wire:
        wire.send(
            WSConnection(ConnectionType.CLIENT).send(Request(host="localhost", target="/nope"))
        )

        response = wire.read()

        assert response.status == 404
        assert response["x-request-id"]
        assert wire.is_closed()


def test_a_broken_handshake_is_refused(server: Server) -> None:
    fields = {"connection": "Upgrade", "upgrade": "websocket", "sec_websocket_version": "8"}
    with server.connect() as wire:
        response = wire.get("/ws", **fields)

        assert_refused(response, 426)
        assert response["sec-websocket-version"] == "13"


def test_a_process_with_few_descriptors_refuses_instead_of_choking() -> None:
    """F19: 400 connections to a server that may open 256 files."""
    with ExitStack() as all:
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        server = all.enter_context(run_server(limit_files=256))
        wires = [all.enter_context(server.connect()) for _ in range(min(400, before[0] - 100))]
        assert wires[0].get("/ping").status == 200
        assert wires[150].read().status == 503
        eventually(lambda: _is_calm(server))
        for wire in wires[1:]:
            wire.socket.close()
        eventually(lambda: _try_ping(server))


def _is_calm(server: Server) -> bool:
    """Whether it does next to nothing for a moment; one that chokes accepts without a pause."""
    process = psutil.Process(server.process.pid)
    used = sum(process.cpu_times()[:2])
    time.sleep(0.3)
    return bool(sum(process.cpu_times()[:2]) - used < 0.1)
