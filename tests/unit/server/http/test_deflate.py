"""Compression of WebSocket messages (RFC 7692): offers, shared messages, and hostile ones."""

from __future__ import annotations

import zlib
from typing import Any

import pytest
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Event,
    Message,
    Request,
    TextMessage,
)
from wsproto.extensions import PerMessageDeflate
from wsproto.frame_protocol import Opcode

from docgraph.exchange import SharedMessages, Socket
from docgraph.server.http.deflate import deflate, negotiate
from docgraph.server.http.state import build_state
from docgraph.server.http.websocket import MAX_MESSAGE
from docgraph.server.sections import ConnectionOptions
from docgraph.server.settings import ServerSettings
from tests.connections import Peer
from tests.unit.server.http.test_exchanges import App
from tests.unit.server.http.test_websocket import Client, _echo, _serving

pytestmark = pytest.mark.anyio

ACCEPTED = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
OFFER = (b"sec-websocket-extensions", b"permessage-deflate; client_max_window_bits")
TEXT = "the same words, and the same words again. " * 20


@pytest.mark.parametrize(
    ("offers", "response"),
    [
        (["permessage-deflate"], ACCEPTED),
        (["Permessage-Deflate; CLIENT_MAX_WINDOW_BITS"], ACCEPTED),
        (["permessage-deflate; client_max_window_bits=8"], ACCEPTED),
        (["permessage-deflate; server_no_context_takeover"], ACCEPTED),
        (["permessage-deflate; server_max_window_bits=9"], f"{ACCEPTED}; server_max_window_bits=9"),
        (
            ['permessage-deflate;server_max_window_bits="12"'],
            f"{ACCEPTED}; server_max_window_bits=12",
        ),
        (["x-webkit-deflate-frame, permessage-deflate"], ACCEPTED),
        (["foo", "permessage-deflate"], ACCEPTED),
        (["permessage-deflate; server_max_window_bits=8, permessage-deflate"], ACCEPTED),
        (["permessage-deflate; server_max_window_bits=8"], None),
        (["permessage-deflate; server_max_window_bits=16"], None),
        (["permessage-deflate; server_max_window_bits=010"], None),
        (["permessage-deflate; server_max_window_bits"], None),
        (["permessage-deflate; client_max_window_bits=7"], None),
        (["permessage-deflate; server_no_context_takeover=1"], None),
        (["permessage-deflate; unknown"], None),
        (["permessage-deflate; client_max_window_bits; client_max_window_bits"], None),
        (["permessage-deflate;"], None),
        (["permessage"], None),
        ([], None),
    ],
)
async def test_the_first_offer_that_is_valid_is_accepted(
    offers: list[str], response: str | None
) -> None:
    headers = [(b"host", b"test")]
    headers += [(b"sec-websocket-extensions", offer.encode()) for offer in offers]
    found = negotiate(headers, MAX_MESSAGE)
    assert (found.response.decode() if found else None) == response


class Compressing(Client):
    """A client that offers compression."""

    async def connect(self, bits: int = 15) -> None:
        offered = PerMessageDeflate(server_max_window_bits=bits)
        request = Request(host="test", target="/ws", extensions=[offered])
        self.peer.send(self._frames.send(request))
        accepted = await self.read()
        assert isinstance(accepted, AcceptConnection)
        assert accepted.extensions == [offered]
        assert offered.client_no_context_takeover

    async def read_message(self) -> str:
        text = ""
        while True:
            event = await self.read()
            assert isinstance(event, TextMessage), event
            text += event.data
            if event.message_finished:
                return text

    def send_raw(self, opcode: Opcode, payload: bytes, *, fin: bool, rsv1: bool = False) -> None:
        """A frame as a client writes it, with a mask of zeros."""
        first = fin << 7 | rsv1 << 6 | opcode
        size = len(payload)
        length = bytes([0x80 | size]) if size < 126 else b"\xfe" + size.to_bytes(2, "big")
        self.peer.send(bytes([first]) + length + bytes(4) + payload)


@pytest.mark.parametrize("bits", [9, 12, 15])
async def test_messages_are_compressed_both_ways(bits: int) -> None:
    client = Compressing(_serving(_echo))
    await client.connect(bits)
    before = len(client.transport.output)
    for text in (TEXT, "short", TEXT[::-1], "ü" * 2000):
        client.send(Message(text))
        assert await client.read_message() == text
    assert len(client.transport.output) - before < 1000


def record(transport: Any, seen: list[bytes]) -> None:
    """Add what is written to a transport."""
    write = transport.write

    def write_and_record(data: bytes) -> None:
        seen.append(data)
        write(data)

    transport.write = write_and_record


async def test_a_message_for_many_is_compressed_once_for_each_window() -> None:
    message = SharedMessages((TEXT.encode(), b"short", (TEXT * 3).encode()))

    async def send(socket: Socket) -> None:
        await socket.send(message)
        await socket.receive()

    state = build_state(App(_serving(send)), ServerSettings())
    seen: list[bytes] = []
    for bits in (15, 15, 10, 0):
        client = Compressing(_serving(send))
        client.peer = Peer(state)
        record(client.transport, seen)
        await (client.connect(bits) if bits else client.open())
        read = [await client.read_message() for _ in range(3)]
        assert [one.encode() for one in read] == list(message.contents)
    first, second, other, plain = (one for one in seen if not one.startswith(b"HTTP/1.1 101"))
    assert first is second
    assert message.compressed == {15: first, 10: other}
    assert plain is message.frames
    assert len(first) < len(plain) / 4


async def test_without_an_offer_or_where_it_is_off_nothing_is_compressed() -> None:
    off = ServerSettings(connection_options=ConnectionOptions(websocket_compression=False))
    for client, headers in (
        (Client(_serving(_echo)), ()),
        (Client(_serving(_echo), off), (OFFER,)),
    ):
        await client.open(*headers)
        assert b"Extensions" not in client.transport.output
        client.send(Message(TEXT))
        echoed = await client.read()
        assert isinstance(echoed, TextMessage)
        assert TEXT.encode() in client.transport.output


def test_what_is_too_short_too_long_or_random_is_sent_as_it_is() -> None:
    assert deflate(b"a" * 100, 15) is None
    assert deflate(b"a" * 100_000, 15) is None
    assert deflate(zlib.compress(bytes(range(256)) * 50, 9)[:300], 15) is None
    assert deflate(b"a" * 1000, 15) is not None


def compress(data: bytes) -> bytes:
    compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
    return (compressor.compress(data) + compressor.flush(zlib.Z_SYNC_FLUSH))[:-4]


@pytest.mark.parametrize("parts", [1, 3])
async def test_a_message_that_is_long_without_compression_is_closed_with_1009(parts: int) -> None:
    client = Compressing(_serving(_echo))
    await client.connect()
    bomb = compress(bytes(20_000_000))
    assert len(bomb) < MAX_MESSAGE
    step = -(-len(bomb) // parts)
    for number in range(parts):
        opcode = Opcode.CONTINUATION if number else Opcode.TEXT
        part = bomb[number * step : (number + 1) * step]
        client.send_raw(opcode, part, fin=number == parts - 1, rsv1=not number)
    event = await client.read()
    assert isinstance(event, CloseConnection)
    assert (event.code, event.reason) == (1009, f"a message has at most {MAX_MESSAGE} bytes")


async def test_a_message_of_the_longest_size_is_read() -> None:
    client = Compressing(_serving(_echo))
    await client.connect()
    client.send_raw(Opcode.TEXT, compress(b"a" * MAX_MESSAGE), fin=True, rsv1=True)
    assert await client.read_message() == "a" * MAX_MESSAGE


async def test_a_ping_between_the_fragments_of_a_compressed_message_is_answered() -> None:
    client = Compressing(_serving(_echo))
    await client.connect()
    whole = compress(TEXT.encode())
    client.send_raw(Opcode.TEXT, whole[:10], fin=False, rsv1=True)
    client.send_raw(Opcode.PING, b"there?", fin=True)
    client.send_raw(Opcode.CONTINUATION, whole[10:], fin=True)
    pong = await client.read()
    assert getattr(pong, "payload", None) == b"there?"
    assert await client.read_message() == TEXT
    client.send_raw(Opcode.TEXT, b"plain", fin=True)
    assert await client.read_message() == "plain"


@pytest.mark.parametrize(
    ("opcode", "payload", "code"),
    [
        (Opcode.TEXT, b"\xff\xff\xff", 1007),
        (Opcode.PING, b"", 1002),
        (Opcode.CONTINUATION, b"", 1002),
    ],
)
async def test_what_cannot_be_decompressed_is_closed(
    opcode: Opcode, payload: bytes, code: int
) -> None:
    client = Compressing(_serving(_echo))
    await client.connect()
    client.send_raw(opcode, payload, fin=True, rsv1=True)
    event: Event = await client.read()
    assert isinstance(event, CloseConnection)
    assert event.code == code
