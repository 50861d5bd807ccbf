"""Decision 24: errors of the HTTP layer have the format of the service that the path names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from tests.expect import present
from tests.process.harness import Response, Server, eventually, request, run_server
from tests.process.test_framing import REFUSED

GRAPHQL = "application/graphql-response+json; charset=utf-8"
JSON = "application/json; charset=utf-8"
ENDS = b" HTTP/1.1\r\nHost: localhost\r\n\r\n"
# Request targets without a path: no service is known.
PATHLESS = ("target-without-slash", "asterisk-of-get", "http2-preface")


def _build_invalid(path: str) -> dict[str, tuple[int, bytes]]:
    """Requests that never reach a service, and the status of each."""
    target = path.encode()
    line = b"POST " + target + b" HTTP/1.1\r\n"
    head = line + b"Host: localhost\r\n"
    upgrade = {"connection": "Upgrade", "upgrade": "websocket"}
    return {
        "unknown-method": (405, b"FOO " + target + ENDS),
        "trace": (405, b"TRACE " + target + ENDS),
        "lower-case-method": (400, b"post " + target + ENDS),
        "method-behind-empty-lines": (400, b"\r\n\r\nfoo " + target + ENDS),
        "unreadable-path": (400, b"POST " + target + b"/%ff" + ENDS),
        "unreadable-path-deeper": (400, b"POST " + target + b"/%ff/a/b" + ENDS),
        "nul-in-path": (400, b"POST " + target + b"/%00" + ENDS),
        "nul-in-target": (400, b"POST " + target + b"/\x00" + ENDS),
        "byte-in-target": (400, b"POST " + target + b"/\xff" + ENDS),
        "absolute-form": (405, b"FOO http://a" + target + ENDS),
        "absolute-form-without-host": (400, b"POST http://a" + target + b" HTTP/1.1\r\n\r\n"),
        "fragment": (400, b"POST " + target + b"#a HTTP/1.1\r\n\r\n"),
        "bad-host": (400, line + b"Host: a/b\r\n\r\n"),
        "long-url": (414, b"POST " + target + b"?" + b"a" * 9000 + ENDS),
        "long-path": (414, b"POST " + target + b"/" + b"a" * 9000 + ENDS),
        "long-path-of-escapes": (414, b"POST " + target + b"/" + b"%e2%82%ac" * 1000 + ENDS),
        "endless-path": (414, b"POST " + target + b"/" + b"%e2%82%ac" * 9000),
        "long-header": (431, head + b"X-A: " + b"a" * 9000 + b"\r\n\r\n"),
        "many-headers": (431, head + b"X-A: a\r\n" * 101 + b"\r\n"),
        "endless-header": (431, head + b"X-A: " + b"a" * 72_000),
        "unknown-coding": (501, head + b"Transfer-Encoding: gzip, chunked\r\n\r\n"),
        "handshake-version": (426, request("GET", path, **upgrade, sec_websocket_version="8")),
        "handshake-key": (400, request("GET", path, **upgrade, sec_websocket_version="13")),
    }


def _build_invalid_bodies(path: str) -> dict[str, tuple[int, bytes]]:
    head = b"POST " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\n"
    return {
        "large": (413, head + b"Content-Length: 99999999\r\n\r\n"),
        "bad-chunk": (400, head + b"Transfer-Encoding: chunked\r\n\r\nx\r\n"),
        "late": (408, head + b"Content-Length: 10\r\n\r\n"),
    }


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with run_server({"mongo": {"enabled": True, "uri": "/rest"}}) as server:
        yield server


def _assert_format(response: Response, path: str, status: int) -> None:
    assert response.status == status
    if not path.startswith("/graphql"):
        assert response["content-type"] == JSON
        assert response.json["http status code"] == status
        return
    assert response["content-type"] == GRAPHQL
    assert response.json["data"] is None
    (error,) = response.json["errors"]
    assert error["message"]
    assert error["extensions"]["classification"]
    assert error["extensions"]["code"]


def _ask(server: Server, data: bytes) -> Response:
    with server.connect() as wire:
        with suppress(ConnectionError):  # the server may have answered before it has all
            wire.send(data)
        return wire.read()


@pytest.mark.parametrize("path", ["/graphql/none", "/graphql", "/rest/things", "/echo"])
@pytest.mark.parametrize("name", _build_invalid("/"))
def test_an_invalid_request_is_answered_in_the_format_of_its_service(
    server: Server, path: str, name: str
) -> None:
    """Decisions 22 and 24."""
    status, data = _build_invalid(path)[name]

    _assert_format(_ask(server, data), path, status)


@pytest.mark.parametrize("name", REFUSED)
def test_an_ambiguous_request_is_answered_in_the_format_of_its_service(
    server: Server, name: str
) -> None:
    path, data = "/graphql/none", REFUSED[name]
    for one in (b"/echo", b"/ping", b"/ec"):
        data = data.replace(b" " + one, b" " + path.encode())
    response = _ask(server, data)

    _assert_format(response, "/" if name in PATHLESS else path, response.status)


def test_the_path_of_the_request_before_it_does_not_decide(server: Server) -> None:
    """A second request whose request line cannot be parsed has no path that is known."""
    with server.connect() as wire:
        wire.send(request("OPTIONS", "/graphql/none") + b"FOO /rest/things" + ENDS)

        assert wire.read("OPTIONS").status == 200
        _assert_format(wire.read(), "/", 400)


@pytest.mark.parametrize("path", ["/graphql/none", "/rest/things", "/echo"])
def test_a_late_or_broken_body_is_answered_in_the_format_of_its_service(path: str) -> None:
    head = b"POST " + path.encode() + b" HTTP/1.1\r\nHost: localhost\r\n"
    limits = {"header-timeout-ms": 700, "body-timeout-ms": 700}
    settings = {"connection-options": limits, "mongo": {"enabled": True, "uri": "/rest"}}
    with run_server(settings) as server:
        _assert_format(present(eventually(_try_late(server, head))), path, 408)
        for status, data in _build_invalid_bodies(path).values():
            response = present(eventually(_try_late(server, data)))
            # These services ask the database, which is not running, before they read a body.
            _assert_format(response, path, status if path == "/echo" else response.status)
            assert response.status >= 400


def _try_late(server: Server, data: bytes) -> Callable[[], Response | None]:
    def ask() -> Response | None:
        try:
            return _ask(server, data)
        except (EOFError, ConnectionError):  # its first byte was late
            return None

    return ask


def test_a_request_too_many_is_answered_in_the_format_of_its_service(tmp_path: Path) -> None:
    released = tmp_path / "released"
    limits = {"max-requests-in-flight": 1, "queue": 0}
    settings = {"connection-options": limits, "mongo": {"enabled": True, "uri": "/rest"}}
    with run_server(settings) as server, ExitStack() as stack:
        wire = stack.enter_context(server.connect())
        wire.send(request("GET", f"/hold?until={released}"))
        eventually(lambda: server.named("request-started"))
        for path in ("/graphql/none", "/rest/things", "/echo"):
            _assert_format(_ask(server, request("POST", path, b"{}")), path, 503)
        released.touch()

        assert wire.read().status == 200


def test_without_gzip_where_it_is_required_is_answered_in_the_format_of_its_service() -> None:
    with run_server({"core": {"force-gzip-encoding": True}}) as server:
        for path in ("/graphql/none", "/echo"):
            response = _ask(server, request("POST", path, b"{}"))
            _assert_format(response, path, response.status)
            assert response.status >= 400
