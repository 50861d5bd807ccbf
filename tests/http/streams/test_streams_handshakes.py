"""W03: what is no handshake of a WebSocket is refused before there is a stream, never by 5xx."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from urllib.parse import quote

import pytest

from tests.connections import Peer
from tests.http.harness import Mongo
from tests.http.hosts import module_application
from tests.http.rest_harness import Api, serving

pytestmark = pytest.mark.anyio

PATH = "/things/_streams/all"
KEY = "dGhlIHNhbXBsZSBub25jZQ=="
GOOD = [
    ("Host", "test"),
    ("Upgrade", "websocket"),
    ("Connection", "Upgrade"),
    ("Sec-WebSocket-Version", "13"),
    ("Sec-WebSocket-Key", KEY),
]
STREAMS = [
    {"uri": "all", "stages": []},
    {"uri": "of", "stages": [{"$match": {"fullDocument.n": {"$var": "n"}}}]},
]


def handshake(
    *fields: tuple[str, str], method: str = "GET", version: str = "1.1", path: str = PATH
) -> bytes:
    """A good one, with other values for these fields; a field without value is left out."""
    names = {name for name, _ in fields}
    kept = [one for one in GOOD if one[0] not in names] + [one for one in fields if one[1]]
    lines = "".join(f"{name}: {value}\r\n" for name, value in kept)
    return f"{method} {path} HTTP/{version}\r\n{lines}\r\n".encode("latin-1")


def bodies() -> Iterator[tuple[str, bytes, int]]:
    yield "body", handshake(("Content-Length", "5")) + b"hello", 400
    yield "chunks", handshake(("Transfer-Encoding", "chunked")) + b"0\r\n\r\n", 400
    yield "both", handshake(("Content-Length", "5"), ("Transfer-Encoding", "chunked")), 400


def keys() -> Iterator[tuple[str, bytes, int]]:
    for value in ("", "AAAA", "!" * 24, "\xff\xfe", KEY[:-1], f"{KEY}AAAA", "A" * 1000):
        yield f"key {value[:8]!r}", handshake(("Sec-WebSocket-Key", value)), 400
    yield "two keys", handshake(*[("Sec-WebSocket-Key", KEY)] * 2), 400


def versions() -> Iterator[tuple[str, bytes, int]]:
    for value in ("", "0", "8", "x", "13, 8", "013"):
        yield f"version {value!r}", handshake(("Sec-WebSocket-Version", value)), 426
    yield "two versions", handshake(*[("Sec-WebSocket-Version", "13")] * 2), 426


def heads() -> Iterator[tuple[str, bytes, int]]:
    for value in ("", "h2c", "websocketx"):
        yield f"upgrade {value!r}", handshake(("Upgrade", value)), 400
    for value in ("", "keep-alive", "close"):
        yield f"connection {value!r}", handshake(("Connection", value)), 400
    for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS"):
        yield method, handshake(method=method), 400
    yield "HTTP/1.0", handshake(version="1.0"), 400
    yield "no host", handshake(("Host", "")), 400
    yield "two hosts", handshake(("Host", "a"), ("Host", "b")), 400
    for value in ("null", "http://evil.example", "%%%", "http://test.evil.example"):
        yield f"origin {value!r}", handshake(("Origin", value)), 403
    two = (("Origin", "http://test"), ("Origin", "http://evil.example"))
    yield "two origins", handshake(*two), 403


def requests() -> Iterator[tuple[str, bytes, int]]:
    for token in ("zz", "826", "FFFFFFFF", "8" * 5000, '{"_data": {"$gt": ""}}', "[]", "null"):
        path = f"{PATH}?resume-after={quote(token)}"
        yield f"token {token[:12]}", handshake(path=path), 400
    yield "last id", handshake(("Last-Event-ID", "\xff\xff")), 400
    for avars in (
        "{",
        "[]",
        '{"n": {"$where": "1"}}',
        '{"n": {"$gt": 0}}',
        '{"n": {"a\\u0000b": 1}}',
        '{"n": "\\ud800"}',
        '{"n": 99999999999999999999999}',
        '{"n": 1e999}',
        '{"n": {"$regularExpression": {"pattern": "(", "options": ""}}}',
        '{"a":' * 300 + "1" + "}" * 300,
    ):
        path = f"/things/_streams/of?avars={quote(avars)}"
        yield f"avars {avars[:24]}", handshake(path=path), 400


CASES = [*bodies(), *keys(), *versions(), *heads(), *requests()]


@module_application
async def server(mongo_client: Mongo, mongo_uri: str) -> AsyncIterator[Api]:
    async with serving(mongo_client, mongo_uri) as api:
        assert (await api.put("/things", {"streams": STREAMS})).status == 200
        yield api


async def shake_hands(api: Api, data: bytes) -> int:
    async def ask() -> int:
        peer = Peer(api.service.client._transport.state)
        try:
            return (await peer.ask(data, "HEAD")).status
        finally:
            peer.leave()
            await peer.wait_lost()

    status: int = await api.service.there(ask())
    return status


async def test_a_good_one_is_accepted(server: Api) -> None:
    assert await shake_hands(server, handshake()) == 101
    assert await shake_hands(server, handshake(("Origin", "http://test"))) == 101


@pytest.mark.own_protocol("an ASGI server checks handshakes itself")
@pytest.mark.parametrize(
    ("data", "status"), [case[1:] for case in CASES], ids=[c[0] for c in CASES]
)
async def test_a_broken_one_is_refused(server: Api, data: bytes, status: int) -> None:
    assert await shake_hands(server, data) == status
