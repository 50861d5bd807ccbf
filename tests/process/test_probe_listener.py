"""The probe listener: health checks that the parent process answers (decision 54)."""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import psutil
import pytest

from tests.process.harness import Response, Server, Wire, eventually, request, run_server, start


def _settings(mongo_uri: str, **options: Any) -> dict[str, Any]:
    return {
        "core": {"probe-listener": {"port": 0, **options}},
        "mclient": {"connection-string": mongo_uri},
    }


def _connect(server: Server) -> Wire:
    (started,) = eventually(lambda: server.named("probes-started"))
    host, _, port = started["url"].removeprefix("http://").rpartition(":")
    return Wire(socket.create_connection((host, int(port)), timeout=60))


def _probe(server: Server, path: str, method: str = "GET") -> Response:
    with _connect(server) as wire:
        wire.send(request(method, path))
        return wire.read(method)


@pytest.fixture(scope="module")
def server(mongo_uri: str) -> Iterator[Server]:
    with run_server(_settings(mongo_uri, metrics=True), workers=1) as server:
        yield server
        assert server.stop() == 0


def test_the_parent_answers_for_one_worker(server: Server) -> None:
    """Decision 54: a supervising parent exists whenever the listener is on."""
    assert server.get("/ping").json["pid"] != server.process.pid
    answer = _probe(server, "/ping")
    assert (answer.status, answer.json["status"]) == (200, "ok")
    eventually(lambda: _probe(server, "/health/db").status == 200)
    assert set(_probe(server, "/health/db").json) == {"status", "description", "latencyMs"}


def test_only_the_ready_line_names_addresses_for_callers(server: Server) -> None:
    assert len(server.urls) == 1
    assert server.named("probes-started")[0]["url"] not in server.ready


def test_metrics_of_the_workers_are_there_when_asked_for(server: Server) -> None:
    server.get("/ping")
    eventually(lambda: b"docgraph_http_requests_total{" in _probe(server, "/metrics").body)
    assert (_probe(server, "/metrics")["content-type"] or "").startswith("text/plain")


def test_metrics_are_not_there_by_default(mongo_uri: str) -> None:
    with run_server(_settings(mongo_uri), workers=2) as server:
        assert _probe(server, "/metrics").status == 404
        assert _probe(server, "/ping").status == 200
        assert server.stop() == 0


def test_no_listener_by_default() -> None:
    """Decision 54: it is off by default, and one worker serves in the process itself."""
    with run_server() as server:
        eventually(lambda: server.named("server-started"))
        assert not server.named("probes-started")
        assert server.get("/ping").json["pid"] == server.process.pid


@pytest.mark.parametrize(
    ("raw", "status"),
    [
        (b"GET /nothing HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /ping/ HTTP/1.1\r\nHost: localhost\r\n\r\n", 404),
        (b"GET /ping?x=1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 200),
        (b"GET /ping HTTP/1.0\r\n\r\n", 200),
        (b"GET /metrics HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
        (b"POST /ping HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx", 405),
        (b"GET /ping HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\nx", 400),
        (
            b"GET /ping HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            400,
        ),
        (b"GET /ping HTTP/1.1\r\n\r\n", 400),
        (b"GET /ping HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n\r\n", 400),
        (b"GET /ping HTTP/1.1\r\nHost: localhost\r\n folded\r\n\r\n", 400),
        (b"GET /ping HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET /ping HTTP/1.1\nHost: localhost\n\r\n\r\n", 400),
        (b"GET http://a/ping HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET /ping HTTP/2.0\r\nHost: localhost\r\n\r\n", 400),
        (b"GET  /ping HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\r\n\r\n", 400),
        (b"GET /ping HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 9000 + b"\r\n\r\n", 431),
        (b"GET /ping HTTP/1.1\r\nX: " + b"a" * 20_000, 431),
    ],
)
def test_requests_are_parsed_strictly(server: Server, raw: bytes, status: int) -> None:
    with _connect(server) as wire:
        wire.send(raw)
        answer = wire.read()
        assert answer.status == status
        assert answer["connection"] == "close"
        assert wire.is_closed()


def test_head_has_no_content_and_405_names_the_methods(server: Server) -> None:
    assert _probe(server, "/ping", "HEAD").status == 200
    assert _probe(server, "/ping", "DELETE")["allow"] == "GET, HEAD"


def test_silent_connections_do_not_keep_probes_away(server: Server) -> None:
    silent = [_connect(server) for _ in range(80)]
    try:
        assert _probe(server, "/ping").status == 200
        assert silent[0].is_closed()  # the oldest one
    finally:
        for wire in silent:
            wire.socket.close()


def test_silent_connections_without_descriptors_do_not_keep_probes_away(mongo_uri: str) -> None:
    with run_server(_settings(mongo_uri)) as server, ExitStack() as all:
        assert _probe(server, "/ping").status == 200
        few = psutil.Process(server.process.pid).num_fds() + 8
        resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (few, few))
        for _ in range(200):
            all.enter_context(_connect(server))

        assert _probe(server, "/ping").status == 200


def test_an_unreachable_database_is_not_ready_and_alive() -> None:
    with run_server(_settings("mongodb://127.0.0.1:9/")) as server:
        eventually(lambda: "cannot be reached" in _probe(server, "/health/db").json["description"])
        assert _probe(server, "/health/db").status == 503
        assert _probe(server, "/ping").status == 200


def test_a_worker_that_hangs_accepts_nothing_and_probes_are_answered(mongo_uri: str) -> None:
    with run_server(_settings(mongo_uri)) as server:
        eventually(lambda: _probe(server, "/health/db").status == 200)
        (worker,) = server.workers()
        worker.suspend()
        try:
            eventually(lambda: _probe(server, "/health/db").status == 503)
            assert "no worker accepts" in _probe(server, "/health/db").json["description"]
        finally:
            worker.resume()
        eventually(lambda: _probe(server, "/health/db").status == 200)


def test_a_server_that_stops_is_alive_and_not_ready(mongo_uri: str) -> None:
    settings = _settings(mongo_uri)
    settings["connection-options"] = {"shutdown-delay-ms": 600_000}
    with run_server(settings) as server:
        eventually(lambda: _probe(server, "/health/db").status == 200)
        server.process.terminate()
        eventually(lambda: _probe(server, "/health/db").status == 503)
        assert _probe(server, "/health/db").json["description"] == "stopping"
        assert _probe(server, "/ping").status == 200
        assert server.stop() == 0  # a second signal


def test_a_worker_that_is_killed_is_replaced_behind_the_probes(mongo_uri: str) -> None:
    with run_server(_settings(mongo_uri)) as server:
        (worker,) = server.workers()
        worker.kill()
        eventually(lambda: len(server.named("worker-started")) == 2)
        eventually(lambda: _probe(server, "/health/db").status == 200)
        assert _probe(server, "/ping").status == 200


def test_no_process_outlives_the_parent(mongo_uri: str) -> None:
    with run_server(_settings(mongo_uri)) as server:
        others = [*server.workers(), *server.forkers()]
        server.process.kill()
        _, alive = psutil.wait_procs(others, timeout=60)
        assert not alive


def test_a_port_in_use_ends_the_start_with_its_option(server: Server) -> None:
    port = int(server.named("probes-started")[0]["url"].rpartition(":")[2])
    settings = {"http-listener": {"port": 0}, "core": {"probe-listener": {"port": port}}}
    process = start(settings)
    _, errors = process.communicate()
    assert process.returncode == 1
    assert f"port {port} of 127.0.0.1 is in use" in errors
    assert "/core/probe-listener/port" in errors
