"""One reading of every byte: malformed and ambiguous requests, pipelining (H01, H07)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.process.harness import Server, eventually, request, run_server

HEAD = b"POST /echo HTTP/1.1\r\nHost: localhost\r\n"
CHUNKED = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
SMUGGLED = b"GET /number?n=smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"

REFUSED = {
    "length-and-chunked": HEAD
    + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "two-lengths": HEAD + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
    "same-length-twice": HEAD + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
    "length-list": HEAD + b"Content-Length: 3, 3\r\n\r\nabc",
    "length-with-plus": HEAD + b"Content-Length: +3\r\n\r\nabc",
    "length-hexadecimal": HEAD + b"Content-Length: 0x3\r\n\r\nabc",
    "length-negative": HEAD + b"Content-Length: -1\r\n\r\n",
    "length-underscore": HEAD + b"Content-Length: 3_0\r\n\r\nabc",
    "length-overflow": HEAD + b"Content-Length: 99999999999999999999999\r\n\r\nabc",
    "unknown-coding": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
    "identity-coding": HEAD + b"Transfer-Encoding: identity\r\n\r\n",
    "coding-before-chunked": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "coding-after-chunked": HEAD + b"Transfer-Encoding: chunked, gzip\r\n\r\n0\r\n\r\n",
    "chunked-twice": HEAD
    + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "space-before-colon": HEAD + b"Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n",
    "control-before-chunked": HEAD + b"Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
    "chunked-in-1.0": b"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "folded-header": HEAD + b"X-Fold: a\r\n b\r\nContent-Length: 0\r\n\r\n",
    "bare-line-feeds": b"GET /echo HTTP/1.1\nHost: localhost\n\n",
    "bare-line-feed-in-header": b"GET /echo HTTP/1.1\r\nHost: localhost\nX-A: b\r\n\r\n",
    "bare-carriage-return": HEAD + b"X-A: a\rb\r\n\r\n",
    "nul-in-value": HEAD + b"X-A: a\x00b\r\n\r\n",
    "nul-in-target": b"GET /ec\x00ho HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "no-colon": HEAD + b"X-A\r\n\r\n",
    "no-host": b"GET /ping HTTP/1.1\r\n\r\n",
    "two-hosts": b"GET /ping HTTP/1.1\r\nHost: localhost\r\nHost: b\r\n\r\n",
    "same-host-twice": b"GET /ping HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
    "host-with-a-path": b"GET /ping HTTP/1.1\r\nHost: a/b\r\n\r\n",
    "chunk-size-0x": CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n",
    "chunk-size-negative": CHUNKED + b"-3\r\nabc\r\n0\r\n\r\n",
    "chunk-size-overflow": CHUNKED + b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n",
    "chunk-size-with-space": CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n",
    "chunk-line-feeds": CHUNKED + b"3\nabc\n0\n\n",
    "chunk-extension-line-feed": CHUNKED + b"3;a\nabc\r\n0\r\n\r\n",
    "chunk-without-end": CHUNKED + b"3\r\nabcX0\r\n\r\n",
    "endless-chunk-extension": CHUNKED + b"3;" + b"a" * 60_000,
    "version-1.9": b"GET /ping HTTP/1.9\r\nHost: localhost\r\n\r\n",
    "version-2.0": b"GET /ping HTTP/2.0\r\nHost: localhost\r\n\r\n",
    "version-0.9": b"GET /ping HTTP/0.9\r\n\r\n",
    "lower-case-method": b"get /ping HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "target-without-slash": b"GET ping HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "asterisk-of-get": b"GET * HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "http2-preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
}

UNDERSTOOD = {
    "absolute-form": b"GET http://b/number?n=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "leading-empty-lines": b"\r\n\r\nGET /number?n=1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "chunk-extension": b"POST /number?n=1 HTTP/1.1\r\nHost: localhost\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n3;a=b\r\nabc\r\n0\r\n\r\n",
    "upper-case-chunked": b"POST /number?n=1 HTTP/1.1\r\nHost: localhost\r\n"
    b"Transfer-Encoding: CHUNKED\r\n\r\n0\r\n\r\n",
    "get-with-body": b"GET /number?n=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\nabc",
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    """How bytes are read does not depend on the number of workers: one is enough."""
    with run_server() as server:
        yield server


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED.keys())
def test_an_ambiguous_request_is_refused_and_nothing_behind_it_is_answered(
    server: Server, data: bytes
) -> None:
    with server.connect() as wire:
        wire.send(data + SMUGGLED)

        response = wire.read()

        assert response.status in (400, 431, 501)
        assert response["connection"] == "close"
        assert response["access-control-allow-origin"] == "*"
        assert response["x-request-id"]
        assert response.json["http status code"] == response.status
        assert wire.is_closed()


@pytest.mark.parametrize("data", UNDERSTOOD.values(), ids=UNDERSTOOD.keys())
def test_what_rfc_9112_allows_is_understood_and_the_next_request_too(
    server: Server, data: bytes
) -> None:
    with server.connect() as wire:
        wire.send(data + request("GET", "/number?n=2"))

        assert [wire.read().json, wire.read().json] == ["1", "2"]


def test_a_listener_on_loopback_answers_no_page_of_another_site(server: Server) -> None:
    """Decision 67: neither by http nor by WebSocket, and before anything else is done."""
    upgrade = {"upgrade": "websocket", "connection": "Upgrade", "sec_websocket_version": "13"}
    upgrade["sec_websocket_key"] = "AAAAAAAAAAAAAAAAAAAAAA=="
    with server.connect() as wire:
        port = wire.socket.getpeername()[1]
        wire.send(request("GET", "/number?n=1", host=f"LocalHost:{port}"))
        assert wire.read().json == "1"
        for sent in (
            request("GET", "/ping", host="evil.example"),
            request("POST", "/echo", b"abc", host=f"evil.example:{port}"),
            request("GET", "/socket", host="evil.example", **upgrade),
        ):
            wire.send(sent)
            response = wire.read()
            assert (response.status, response.json["code"]) == (421, "misdirected")
            assert "core.allowed-hosts" in response.json["hint"]
    eventually(lambda: server.named("host-refused"))
    assert [(one["host"], one["option"]) for one in server.named("host-refused")] == [
        ("evil.example", "/core/allowed-hosts")
    ]


def test_a_trailer_never_becomes_a_header(server: Server) -> None:
    with server.connect() as wire:
        wire.send(
            b"POST /head HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"0\r\nAuthorization: Basic c21pdGg6\r\n\r\n"
        )

        assert "authorization" not in wire.read().json


@pytest.mark.parametrize("method", ["TRACE", "CONNECT"])
def test_trace_and_connect_are_not_allowed_and_echo_nothing(server: Server, method: str) -> None:
    target = "/ping" if method == "TRACE" else "test:80"
    with server.connect() as wire:
        wire.send(request(method, target, x_secret="hush"))

        response = wire.read()

        assert response.status == 405
        assert "GET" in (response["allow"] or "")
        assert b"hush" not in response.body


def test_a_method_that_nobody_knows_is_not_allowed(server: Server) -> None:
    with server.connect() as wire:
        wire.send(request("BREW", "/ping"))

        response = wire.read()

        assert (response.status, response.json["message"]) == (405, "method BREW not allowed")
        assert "GET" in (response["allow"] or "")


def test_a_browser_gets_no_page_for_a_method_that_is_unknown(server: Server) -> None:
    """Decision 22: a page only for GET and HEAD."""
    with server.connect() as wire:
        wire.send(request("BREW", "/ping", sec_fetch_mode="navigate"))

        response = wire.read()

        assert (response.status, response["content-type"]) == (
            405,
            "application/json; charset=utf-8",
        )


@pytest.mark.parametrize(
    "data", [b"\x16\x03\x01\x02\x00 / HTTP/1.1\r\n\r\n", b"brew /ping HTTP/1.1\r\n\r\n"]
)
def test_what_is_no_method_at_all_is_a_bad_request(server: Server, data: bytes) -> None:
    with server.connect() as wire:
        wire.send(data)

        assert wire.read().status == 400


def test_another_protocol_is_ignored_and_its_body_is_a_body(server: Server) -> None:
    """A body behind `Upgrade: h2c` must not be taken for the next request."""
    with server.connect() as wire:
        wire.send(
            request("POST", "/echo", SMUGGLED, connection="Upgrade", upgrade="h2c")
            + request("GET", "/number?n=2")
        )

        assert wire.read().body == SMUGGLED
        assert wire.read().json == "2"


@pytest.mark.parametrize("wish", [b"", b"Connection: keep-alive\r\n"])
def test_http_1_0_is_answered_and_closed(server: Server, wish: bytes) -> None:
    """Whatever it wishes: a proxy of that version may not know what `keep-alive` means."""
    with server.connect() as wire:
        wire.send(b"GET /number?n=1 HTTP/1.0\r\n" + wish + b"\r\n")

        response = wire.read()
        assert (response.json, response["connection"]) == ("1", "close")
        assert wire.is_closed()


def test_a_thousand_pipelined_requests_are_answered_in_order(server: Server) -> None:
    with server.connect() as wire:
        wire.send(b"".join(request("GET", f"/number?n={number}") for number in range(1000)))

        answers = [wire.read().json for _ in range(1000)]

    assert answers == [str(number) for number in range(1000)]


def test_pipelined_bodies_do_not_mix(server: Server) -> None:
    bodies = [bytes([65 + number]) * (number * 1000) for number in range(20)]
    with server.connect() as wire:
        wire.send(b"".join(request("POST", "/echo", body) for body in bodies))

        assert [wire.read().body for _ in bodies] == bodies


def test_a_refusal_waits_for_the_answers_before_it(server: Server, tmp_path: Path) -> None:
    released = tmp_path / "released"
    held = request("GET", f"/hold?until={released}")
    with server.connect() as wire:
        wire.send(held + request("GET", "/number?n=1") + b"nonsense\r\n")
        released.touch()

        assert [wire.read().status for _ in range(3)] == [200, 200, 400]
        assert wire.is_closed()


def test_a_request_in_single_bytes_is_understood(server: Server) -> None:
    with server.connect() as wire:
        for byte in request("POST", "/echo", b"slow"):
            wire.send(bytes([byte]))

        assert wire.read().body == b"slow"


def test_a_client_that_waits_for_100_continue_gets_it(server: Server) -> None:
    head, body = request("POST", "/echo", b"abc", expect="100-continue").split(b"\r\n\r\n")
    with server.connect() as wire:
        wire.send(head + b"\r\n\r\n")
        assert wire._read_until(b"\r\n\r\n") == b"HTTP/1.1 100 Continue"
        wire.send(body)

        assert wire.read().body == b"abc"


def test_a_body_that_nobody_wants_is_not_asked_for(server: Server) -> None:
    head = request("POST", "/ignore", b"abc", expect="100-continue").split(b"\r\n\r\n")[0]
    with server.connect() as wire:
        wire.send(head + b"\r\n\r\n")

        assert wire._read_until(b"\r\n").startswith(b"HTTP/1.1 200")


def test_a_short_body_that_nobody_read_does_not_cost_the_connection(server: Server) -> None:
    with server.connect() as wire:
        wire.send(request("POST", "/ignore", b"x" * 1000) + request("GET", "/number?n=2"))

        assert wire.read().status == 200
        assert wire.read().json == "2"
