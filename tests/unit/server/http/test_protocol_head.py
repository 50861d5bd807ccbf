"""The strict reading of request heads, and handshakes of WebSockets."""

from __future__ import annotations

import pytest

from docgraph.exchange.errors import (
    HeadersTooLarge,
    MethodNotAllowed,
    NotSupported,
    RequestError,
    UpgradeRequired,
    UrlTooLong,
)
from docgraph.server.http.framing import (
    RequestHead,
    check_handshake,
    check_size,
    read_head,
    wants_websocket,
    without_upgrade,
)
from docgraph.server.settings import ServerSettings

HOST = (b"host", b"example.org:8080")
HANDSHAKE = [
    HOST,
    (b"connection", b"Upgrade"),
    (b"upgrade", b"WebSocket"),
    (b"sec-websocket-version", b"13"),
    (b"sec-websocket-key", b"dGhlIHNhbXBsZSBub25jZQ=="),
]


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"/a/b?c=d", b"/a/b", b"c=d"),
        (b"/a?b?c", b"/a", b"b?c"),
        (b"/a#b?c", b"/a", b""),
        (b"//a", b"//a", b""),
        (b"http://example.org/a?b", b"/a", b"b"),
        (b"http://example.org", b"/", b""),
    ],
)
def test_a_target_has_a_path_and_a_query(target: bytes, path: bytes, query: bytes) -> None:
    head = RequestHead("GET", "1.1", path, query, 0, expects_continue=False)

    assert read_head("GET", "1.1", target, [HOST]) == head


def test_the_asterisk_of_options_is_the_root() -> None:
    assert read_head("OPTIONS", "1.1", b"*", [HOST]).path == b"/"


@pytest.mark.parametrize("target", [b"*", b"a", b"example.org:80", b"http:///a"])
def test_a_target_that_is_no_path_is_refused(target: bytes) -> None:
    with pytest.raises(RequestError):
        read_head("GET", "1.1", target, [HOST])


@pytest.mark.parametrize("method", ["TRACE", "CONNECT"])
def test_trace_and_connect_are_not_allowed(method: str) -> None:
    with pytest.raises(MethodNotAllowed):
        read_head(method, "1.1", b"/", [HOST])


@pytest.mark.parametrize("version", ["0.9", "1.2", "2.0"])
def test_other_versions_are_refused(version: str) -> None:
    with pytest.raises(RequestError, match="is not understood"):
        read_head("GET", version, b"/", [HOST])


def test_http_1_0_needs_no_host() -> None:
    assert read_head("GET", "1.0", b"/", []).path == b"/"


@pytest.mark.parametrize(
    "hosts", [[], [HOST, HOST], [(b"host", b"a b")], [(b"host", b"a/b")], [(b"host", b"u@a")]]
)
def test_exactly_one_host_is_needed(hosts: list[tuple[bytes, bytes]]) -> None:
    with pytest.raises(RequestError):
        read_head("GET", "1.1", b"/", hosts)


def test_a_chunked_body_has_no_length() -> None:
    head = read_head("POST", "1.1", b"/", [HOST, (b"transfer-encoding", b"Chunked")])

    assert head.length is None


def test_other_codings_are_not_supported() -> None:
    with pytest.raises(NotSupported):
        read_head("POST", "1.1", b"/", [HOST, (b"transfer-encoding", b"gzip, chunked")])


@pytest.mark.parametrize(
    ("target", "headers", "error"),
    [
        (b"/" + b"a" * 8192, [HOST], UrlTooLong),
        (b"/", [(b"a", b"b" * 8192)], HeadersTooLarge),
        (b"/", [(b"a", b"b" * 8000)] * 5, HeadersTooLarge),
        (b"/", [(b"a", b"b")] * 101, HeadersTooLarge),
    ],
)
def test_a_head_above_its_bounds_is_refused(
    target: bytes, headers: list[tuple[bytes, bytes]], error: type[RequestError]
) -> None:
    with pytest.raises(error):
        check_size(target, headers, ServerSettings().limits)


def test_a_handshake_is_recognised_and_accepted() -> None:
    assert wants_websocket(HANDSHAKE)
    check_handshake("GET", "1.1", 0, HANDSHAKE)


@pytest.mark.parametrize(
    ("method", "length", "headers", "status"),
    [
        ("POST", 0, HANDSHAKE, 400),
        ("GET", 5, HANDSHAKE, 400),
        ("GET", None, HANDSHAKE, 400),
        ("GET", 0, HANDSHAKE[:3] + HANDSHAKE[4:], 426),
        ("GET", 0, [*HANDSHAKE[:3], (b"sec-websocket-version", b"8"), HANDSHAKE[4]], 426),
        ("GET", 0, HANDSHAKE[:4], 400),
        ("GET", 0, [*HANDSHAKE, HANDSHAKE[4]], 400),
        ("GET", 0, [*HANDSHAKE[:4], (b"sec-websocket-key", b"c2hvcnQ=")], 400),
        ("GET", 0, [*HANDSHAKE[:4], (b"sec-websocket-key", b"not base64!")], 400),
    ],
)
def test_a_broken_handshake_is_refused_with_4xx(
    method: str, length: int | None, headers: list[tuple[bytes, bytes]], status: int
) -> None:
    """W03: 400 or 426, never 5xx."""
    with pytest.raises(RequestError) as raised:
        check_handshake(method, "1.1", length, headers)

    assert raised.value.status == status
    if status == 426:
        assert isinstance(raised.value, UpgradeRequired)
        assert ("Sec-WebSocket-Version", "13") in raised.value.headers


def test_a_head_is_written_again_without_its_upgrade() -> None:
    headers = [
        HOST,
        (b"connection", b"Upgrade, HTTP2-Settings, close"),
        (b"upgrade", b"h2c"),
        (b"http2-settings", b"AAMAAABk"),
        (b"content-length", b"3"),
    ]

    assert without_upgrade(b"POST", "1.1", b"/a", headers) == (
        b"POST /a HTTP/1.1\r\nhost: example.org:8080\r\ncontent-length: 3\r\n"
        b"connection: close\r\n\r\n"
    )
