"""Starting and stopping: one line on stdout, graceful stop within a bound, exit codes (L16)."""

from __future__ import annotations

import signal
import socket
import time
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from wsproto.events import CloseConnection

from tests.process.harness import Response, Server, Wire, eventually, request, run_server, start

BOTH = pytest.mark.parametrize("workers", [1, 2], ids=["one-worker", "two-workers"])
# Whoever waits for requests waits longer than any test.
PATIENT = {"connection-options": {"shutdown-timeout-ms": 600_000}}


@BOTH
def test_stdout_has_the_ready_line_with_the_real_port_and_nothing_else(workers: int) -> None:
    with run_server(workers=workers) as server:
        assert server.port > 0
        assert server.get("/ping").status == 200
        assert server.stop() == 0
        assert server.process.stdout is not None
        assert server.process.stdout.read() == ""


@BOTH
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_accepted_requests_are_answered_before_the_end(
    workers: int, number: signal.Signals, tmp_path: Path
) -> None:
    released = tmp_path / "released"
    with run_server(PATIENT, workers=workers) as server, ExitStack() as all:
        wires = [all.enter_context(server.connect()) for _ in range(20)]
        for wire in wires:
            wire.send(request("GET", f"/hold?until={released}"))
        idle = all.enter_context(server.connect())
        assert idle.get("/ping").status == 200
        eventually(lambda: len(server.named("request-started")) == 21)

        server.process.send_signal(number)
        assert idle.is_closed()
        eventually(lambda: _refuses(server))  # each worker stops, not only that of the idle one
        released.touch()

        answers = [wire.read() for wire in wires]
        assert [answer.status for answer in answers] == [200] * 20
        assert {answer["connection"] for answer in answers} == {"close"}
        assert server.process.wait(60) == 0
        eventually(lambda: server.errors.count("sample shut down\n") == workers)


@BOTH
def test_new_connections_are_refused_while_stopping(workers: int, tmp_path: Path) -> None:
    released = tmp_path / "released"
    with run_server(PATIENT, workers=workers) as server, server.connect() as wire:
        wire.send(request("GET", f"/hold?until={released}"))
        eventually(lambda: server.named("request-started"))
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: server.named("server-stopping"))

        eventually(lambda: not _accepts(server))

        released.touch()
        assert wire.read().status == 200


def test_requests_that_were_sent_before_the_stop_are_answered() -> None:
    with run_server(PATIENT) as server, ExitStack() as all:
        kept = [all.enter_context(server.connect()) for _ in range(5)]
        for wire in kept:
            assert wire.get("/hold?until=/").status == 200
        server.process.send_signal(signal.SIGSTOP)  # so that all of it is there at once
        wires = [*kept, *(all.enter_context(server.connect()) for _ in range(10))]
        for wire in wires:
            wire.send(request("GET", "/hold?until=/"))
        server.process.send_signal(signal.SIGTERM)
        server.process.send_signal(signal.SIGCONT)

        answers = [wire.read() for wire in wires]
        assert [one.status for one in answers] == [200] * 15
        assert server.process.wait(60) == 0


@BOTH
def test_a_server_with_a_delay_says_that_it_stops_and_serves_on(workers: int) -> None:
    delayed = {"connection-options": {"shutdown-delay-ms": 600_000}}
    with run_server(delayed, workers=workers) as server, server.connect() as idle:
        assert idle.get("/hold?until=/")["connection"] is None
        server.process.send_signal(signal.SIGTERM)
        probe = eventually(lambda: _describe_health(server) == "stopping" and _probe(server))
        assert probe
        assert probe.status == 503

        # None is idle when the listeners close, with a request of a proxy on its way: each worker
        # closes behind its answers from the moment that it is told, a little after the instance is.
        eventually(lambda: _says_goodbye(idle))
        assert idle.is_closed()
        eventually(lambda: _says_goodbye_to_all(server))

        server.process.send_signal(signal.SIGTERM)  # the second one does not wait
        assert server.process.wait(60) == 0


def _says_goodbye(wire: Wire) -> bool:
    answer = wire.get("/hold?until=/")
    assert answer.status == 200
    return answer["connection"] == "close"


def _says_goodbye_to_all(server: Server) -> bool:
    """Whether each of several new connections, which any worker may have, is closed."""
    with ExitStack() as all:
        wires = [all.enter_context(server.connect()) for _ in range(10)]
        said = [_says_goodbye(wire) for wire in wires]
    return said == [True] * 10


def _probe(server: Server) -> Response:
    with server.connect() as wire:
        return wire.get("/health/db")


def _describe_health(server: Server) -> str:
    return str(_probe(server).json["description"])


def _refuses(server: Server) -> bool:
    """Whether no process listens any more."""
    try:
        with server.connect():
            return False
    except ConnectionRefusedError:
        return True


def _accepts(server: Server) -> bool:
    try:
        with server.connect() as wire:
            return wire.get("/ping").status == 200
    except (OSError, EOFError):
        return False


@BOTH
def test_the_wait_for_requests_is_bounded(workers: int) -> None:
    options = {"shutdown-timeout-ms": 500}
    settings = {"connection-options": options}
    with run_server(settings, workers=workers) as server, server.connect() as wire:
        wire.send(request("GET", "/hold"))
        eventually(lambda: server.named("request-started"))
        begun = time.monotonic()

        assert server.stop() == 0
        assert time.monotonic() - begun > 0.4


@BOTH
def test_nobody_waits_for_the_end_of_server_sent_events(workers: int) -> None:
    with run_server(PATIENT, workers=workers) as server, server.connect() as wire:
        wire.send(request("GET", "/events"))
        assert b"200 OK" in wire.socket.recv(1000)

        assert server.stop() == 0


@BOTH
def test_a_second_signal_ends_it_at_once(workers: int) -> None:
    with run_server(PATIENT, workers=workers) as server, server.connect() as wire:
        wire.send(request("GET", "/hold"))
        eventually(lambda: server.named("request-started"))
        server.process.send_signal(signal.SIGTERM)
        eventually(lambda: server.named("server-stopping"))

        assert server.stop() == 0


@BOTH
def test_websockets_are_closed_with_1012(workers: int) -> None:
    with run_server(PATIENT, workers=workers) as server, server.connect() as wire:
        peer = wire.open_websocket("/ws")

        server.process.send_signal(signal.SIGTERM)

        event = wire.read_websocket(peer)
        assert isinstance(event, CloseConnection)
        assert event.code == 1012
        assert server.process.wait(60) == 0


@BOTH
def test_a_server_that_was_killed_starts_again_on_the_same_port(workers: int) -> None:
    with run_server(workers=workers) as killed:
        killed.get("/ping")
        port, serving = killed.port, killed.workers()
        killed.process.kill()
        _, alive = psutil.wait_procs(serving, timeout=60)
        assert not alive

    with run_server({"http-listener": {"port": port}}, workers=workers) as server:
        assert server.get("/ping").status == 200


def test_a_port_in_use_stops_the_start_with_one_clear_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = start({"http-listener": {"port": port}})

        output, errors = process.communicate()

    assert process.returncode == 1
    assert output == ""
    assert errors.splitlines()[0] == f"docgraph: port {port} of 127.0.0.1 is in use"
    assert "with --port or /http-listener/port" in errors.splitlines()[1]


def test_no_listener_stops_the_start() -> None:
    process = start({"http-listener": {"enabled": False}})

    _, errors = process.communicate()

    assert process.returncode == 2
    assert "no listener" in errors
