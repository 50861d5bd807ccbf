"""A WebSocket from its handshake to its end."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Ping,
    Pong,
    RejectConnection,
    Request,
    TextMessage,
)

from docgraph.exchange import Answer, Body, Exchange, SharedMessages, Socket, Takeover, Upgrade
from docgraph.observe.events import RequestFinished
from docgraph.runtime.sections import Core
from docgraph.server.http.state import build_state
from docgraph.server.http.websocket import MAX_MESSAGE, PING_INTERVAL, PING_TIMEOUT
from docgraph.server.settings import ServerSettings
from tests.connections import Peer, Response, build_request
from tests.http.harness import listening
from tests.unit.server.http.test_exchanges import App, Handler, _until

pytestmark = pytest.mark.anyio


class Client:
    """The client's side of a WebSocket in memory."""

    def __init__(self, handler: Handler, settings: ServerSettings | None = None) -> None:
        self.peer = Peer(build_state(App(handler), settings or ServerSettings()))
        self._frames = WSConnection(ConnectionType.CLIENT)
        self._read = 0

    @property
    def transport(self) -> Any:
        return self.peer.transport

    @property
    def socket(self) -> Any:
        """The server's side, once it is open."""
        return self.transport._protocol

    def send(self, *events: Event) -> None:
        self.peer.send(b"".join(self._frames.send(event) for event in events))

    def shake_hands(self, more: bytes = b"", headers: Sequence[tuple[bytes, bytes]] = ()) -> None:
        request = Request(host="test", target="/ws", extra_headers=[*headers])
        self.peer.send(self._frames.send(request) + more)

    async def open(self, *headers: tuple[bytes, bytes]) -> AcceptConnection:
        self.shake_hands(headers=headers)
        accepted = await self.read()
        assert isinstance(accepted, AcceptConnection)
        return accepted

    async def read(self) -> Event:
        while True:
            for event in self._frames.events():
                return event
            output = self.transport.output
            if len(output) > self._read:
                self._frames.receive_data(bytes(output[self._read :]))
                self._read = len(output)
            elif self.transport.has_ended:
                raise EOFError("the server closed the connection")
            else:
                await self.peer._wait()


def _serving(handler: Callable[[Socket], Any], **options: Any) -> Handler:
    async def answer(exchange: Exchange) -> Answer:
        assert exchange.request.method == "GET"
        assert exchange.request.connection.scheme == "ws"
        return Upgrade(handler, **options)

    return answer


async def _echo(socket: Socket) -> None:
    while (message := await socket.receive()) is not None:
        await socket.send(str(message))


async def _reject(exchange: Exchange) -> Answer:
    return Body(401, headers=[("WWW-Authenticate", "Basic")])


@pytest.mark.parametrize(
    ("claimed", "scheme"), [(b"http", "ws"), (b"https", "wss"), (b"ws", "ws"), (b"wss", "wss")]
)
async def test_a_websocket_behind_a_proxy_is_one_whatever_the_proxy_calls_it(
    claimed: bytes, scheme: str
) -> None:
    seen = []

    async def answer(exchange: Exchange) -> Answer:
        seen.append(exchange.request.connection.scheme)
        return Upgrade(_echo)

    trusting = ServerSettings(core=Core(trusted_proxies=("127.0.0.1",)))
    await Client(answer, trusting).open((b"X-Forwarded-Proto", claimed))

    assert seen == [scheme]


async def test_a_websocket_is_accepted_and_handed_to_its_handler() -> None:
    client = Client(_serving(_echo, headers=[("X-Own", "1")]))

    accepted = await client.open()
    client.send(TextMessage("hello"))
    first = await client.read()
    client.send(BytesMessage(b"raw"))
    second = await client.read()

    assert (b"x-own", b"1") in accepted.extra_headers
    assert isinstance(first, TextMessage)
    assert first.data == "hello"
    assert isinstance(second, TextMessage)
    assert second.data == "b'raw'"


async def test_a_websocket_is_told_as_a_request_without_an_end() -> None:
    with listening(RequestFinished) as finished:
        client = Client(_serving(_echo))
        await client.open()
        client.send(CloseConnection(1000))
        await _until(lambda: finished)

    assert [(one.status, one.endless) for one in finished] == [(101, True)]


async def test_messages_that_come_together_are_heard_in_order() -> None:
    client = Client(_serving(_echo))
    await client.open()

    client.send(*(TextMessage(text) for text in "abc"))

    heard = [await client.read() for _ in range(3)]
    assert [event.data for event in heard if isinstance(event, TextMessage)] == ["a", "b", "c"]


async def test_frames_before_the_handshake_is_decided_wait_for_it() -> None:
    decided = asyncio.Event()

    async def answer(exchange: Exchange) -> Answer:
        await decided.wait()
        return Upgrade(_echo)

    client = Client(answer)
    client.shake_hands()
    masked = bytes([0x81, 0x82, 0, 0, 0, 0]) + b"hi"
    client.peer.send(masked)
    await asyncio.sleep(0)
    decided.set()

    assert isinstance(await client.read(), AcceptConnection)
    echoed = await client.read()
    assert isinstance(echoed, TextMessage)
    assert echoed.data == "hi"


async def test_a_message_in_fragments_is_one_message() -> None:
    client = Client(_serving(_echo))
    await client.open()

    client.send(TextMessage("ä", message_finished=False), TextMessage("b"))

    echoed = await client.read()
    assert isinstance(echoed, TextMessage)
    assert echoed.data == "äb"


async def test_a_handler_that_ends_closes_and_one_that_fails_closes_with_1011() -> None:
    async def ends(socket: Socket) -> None:
        await socket.send("bye")

    async def fails(socket: Socket) -> None:
        raise ValueError("broken")

    codes = []
    for handler in (ends, fails):
        client = Client(_serving(handler))
        await client.open()
        event = await client.read()
        while not isinstance(event, CloseConnection):
            event = await client.read()
        codes.append(event.code)
        client.send(event.response())
        await client.peer.wait_lost()

    assert codes == [1000, 1011]


async def test_a_client_that_does_not_say_goodbye_is_left() -> None:
    async def ends(socket: Socket) -> None:
        return None

    client = Client(_serving(ends))
    await client.open()
    assert isinstance(await client.read(), CloseConnection)
    assert not client.transport.is_closing()

    client.socket.sweep(asyncio.get_running_loop().time() + 11)

    assert client.transport.is_closing()


async def test_the_goodbye_of_a_client_is_answered_and_its_handler_hears_none() -> None:
    heard: list[Any] = []

    async def handler(socket: Socket) -> None:
        heard.append(await socket.receive())
        with pytest.raises(ConnectionResetError):
            await socket.send("too late")
        await socket.close()

    client = Client(_serving(handler))
    await client.open()
    client.send(CloseConnection(code=1000))

    assert isinstance(await client.read(), CloseConnection)
    await client.peer.wait_lost()
    assert heard == [None]


async def test_a_message_above_its_bound_is_closed_with_1009() -> None:
    client = Client(_serving(_echo))
    await client.open()

    client.send(TextMessage("ä" * (MAX_MESSAGE // 2) + "b"))

    event = await client.read()
    assert isinstance(event, CloseConnection)
    assert event.code == 1009


def _announce(size: int, first: int = 0x81) -> bytes:
    """The header of a masked frame."""
    if size < 126:
        return bytes((first, 0x80 | size)) + bytes(4)
    if size < 1 << 16:
        return bytes((first, 0x80 | 126)) + size.to_bytes(2, "big") + bytes(4)
    return bytes((first, 0x80 | 127)) + size.to_bytes(8, "big") + bytes(4)


TOO_LONG = {
    "text": [_announce(MAX_MESSAGE + 1)],
    "bytes": [_announce(1 << 62, 0x82)],
    "byte by byte": [bytes((one,)) for one in _announce(MAX_MESSAGE + 1)],
    "fragments": [_announce(40_000, 0x01) + bytes(40_000), _announce(30_000, 0x80)],
    "behind a message": [_announce(2) + b"ab" + _announce(MAX_MESSAGE + 1)],
    "behind a ping": [_announce(0, 0x89) + _announce(MAX_MESSAGE + 1)],
    "inside fragments, behind a ping": [
        _announce(40_000, 0x01) + bytes(40_000) + _announce(0, 0x89) + _announce(30_000, 0x80)
    ],
}


@pytest.mark.parametrize("case", TOO_LONG)
async def test_a_message_that_is_announced_too_long_is_closed_without_its_payload(
    case: str,
) -> None:
    client = Client(_serving(_echo))
    await client.open()

    for data in TOO_LONG[case]:
        client.peer.send(data)

    while not isinstance(event := await client.read(), CloseConnection):
        assert isinstance(event, Pong | TextMessage)
    assert event.code == 1009


async def test_messages_of_the_longest_length_are_taken_one_after_the_other() -> None:
    client = Client(_serving(_echo))
    await client.open()
    for size in (MAX_MESSAGE, 126, 125, 0, MAX_MESSAGE):
        frame = _announce(size, 0x01) + b"a" * size + _announce(0, 0x89) + _announce(0, 0x80)
        client.peer.send(frame[: size // 2])
        client.peer.send(frame[size // 2 :])
        received = 0
        while True:
            event = await client.read()
            assert isinstance(event, Pong | TextMessage)
            if isinstance(event, TextMessage):
                received += len(event.data)
                if event.message_finished:
                    break
        assert received == size


async def test_what_is_no_frame_is_closed_with_1002() -> None:
    client = Client(_serving(_echo))
    await client.open()

    client.peer.send(b"\xff\xff\xff\xff")

    event = await client.read()
    assert isinstance(event, CloseConnection)
    assert event.code == 1002
    await client.peer.wait_lost()


async def test_pings_are_answered_and_sent() -> None:
    client = Client(_serving(_echo))
    await client.open()
    now = asyncio.get_running_loop().time()

    client.send(Ping(payload=b"x"))
    assert await client.read() == Pong(payload=b"x")
    client.socket.sweep(now + PING_INTERVAL + 1)
    assert isinstance(await client.read(), Ping)
    client.send(Pong())
    client.socket.sweep(now + PING_INTERVAL + PING_TIMEOUT + 2)
    assert not client.transport.is_closing()


async def test_what_a_service_counts_are_the_frames_of_its_peer() -> None:
    """But not the pong that it was asked for, nor the parts in which a frame arrives."""
    counted: list[int] = []

    def count() -> tuple[int, str] | None:
        counted.append(1)
        return (1008, "enough") if len(counted) > 4 else None

    async def handler(socket: Socket) -> None:
        socket.count_frame = count
        await _echo(socket)

    client = Client(_serving(handler))
    await client.open()
    client.socket.sweep(asyncio.get_running_loop().time() + PING_INTERVAL + 1)
    assert isinstance(await client.read(), Ping)
    client.send(Pong())
    assert counted == []
    masked = bytes([0x81, 0x84, 0, 0, 0, 0]) + b"long"
    for byte in masked:
        client.peer.send(bytes([byte]))
    assert isinstance(await client.read(), TextMessage)
    assert len(counted) == 1

    client.send(Ping(), Pong(), TextMessage("", message_finished=False), *[Ping()] * 50)

    events = [await client.read() for _ in range(2)]
    assert isinstance(events[0], Pong)
    assert events[1] == CloseConnection(1008, "enough")
    assert len(counted) == 5  # nothing behind it was looked at
    await client.peer.wait_lost()


async def test_fragments_without_content_take_no_memory() -> None:
    client = Client(_serving(_echo))
    await client.open()

    client.send(*[TextMessage("", message_finished=False)] * 1000)
    assert client.socket._parts == []
    client.send(TextMessage("a"))

    echoed = await client.read()
    assert isinstance(echoed, TextMessage)
    assert echoed.data == "a"


async def test_a_peer_that_does_not_answer_pings_is_closed_with_a_code_of_its_own() -> None:
    client = Client(_serving(_echo))
    await client.open()
    now = asyncio.get_running_loop().time()

    client.socket.sweep(now + PING_INTERVAL + 1)
    assert isinstance(await client.read(), Ping)
    client.socket.sweep(now + PING_INTERVAL + PING_TIMEOUT + 2)

    event = await client.read()
    assert isinstance(event, CloseConnection)
    assert event.code == 3008


async def test_a_handler_that_is_busy_slows_its_peer_and_sends_no_pings() -> None:
    released = asyncio.Event()

    async def handler(socket: Socket) -> None:
        await released.wait()
        await _echo(socket)

    client = Client(_serving(handler))
    await client.open()
    client.send(TextMessage("a"))
    assert not client.transport.is_reading()
    client.socket.sweep(asyncio.get_running_loop().time() + 1000)
    assert not client.transport.is_closing()
    released.set()

    assert isinstance(await client.read(), TextMessage)
    assert client.transport.is_reading()


async def test_a_peer_that_does_not_read_is_dropped() -> None:
    client = Client(_serving(_echo))
    await client.open()
    now = asyncio.get_running_loop().time()
    client.transport.pending = 1000

    client.socket.sweep(now)
    assert not client.transport.is_closing()
    client.socket.sweep(now + ServerSettings().limits.write_time + 1)

    assert client.transport.is_closing()


async def test_sending_waits_for_a_peer_that_is_slow() -> None:
    sent = asyncio.Event()

    async def handler(socket: Socket) -> None:
        await socket.receive()
        await socket.send("slow")
        sent.set()

    client = Client(_serving(handler))
    await client.open()
    client.socket.pause_writing()
    client.send(TextMessage("go"))
    for _ in range(5):
        await asyncio.sleep(0)
    assert not sent.is_set()
    client.socket.resume_writing()
    async with asyncio.timeout(60):
        await sent.wait()


async def test_what_waits_for_a_slow_peer_is_not_lost_when_that_stops_again_at_once() -> None:
    message = SharedMessages((b"one", b"two"))

    async def handler(socket: Socket) -> None:
        await socket.receive()
        await socket.send(message)
        await socket.receive()

    client = Client(_serving(handler))
    await client.open()
    before = len(client.transport.output)
    client.send(TextMessage("go"))
    client.socket.pause_writing()
    for _ in range(5):
        await asyncio.sleep(0)
    client.socket.resume_writing()
    client.socket.pause_writing()  # before the handler has had its turn
    for _ in range(5):
        await asyncio.sleep(0)
    assert len(client.transport.output) == before

    client.socket.resume_writing()

    async with asyncio.timeout(60):
        assert [await client.read(), await client.read()] == [
            TextMessage("one"),
            TextMessage("two"),
        ]


async def test_a_peer_that_does_not_read_is_not_read_from() -> None:
    """Its pings would be answered into our memory."""
    client = Client(_serving(_echo))
    await client.open()
    client.socket.pause_writing()
    before = len(client.transport.output)
    client.send(*[Ping(b"x" * 125)] * 10)
    assert len(client.transport.output) == before

    client.socket.resume_writing()

    assert isinstance(await client.read(), Pong)
    client.send(TextMessage("heard"))
    while not isinstance(event := await client.read(), TextMessage):
        pass
    assert event.data == "heard"


async def test_a_pong_that_was_not_read_in_time_is_waited_for() -> None:
    client = Client(_serving(_echo))
    await client.open()
    now = asyncio.get_running_loop().time()
    client.socket.sweep(now + PING_INTERVAL)
    assert isinstance(await client.read(), Ping)
    client.socket.pause_writing()
    client.socket._pong_by = now  # long ago
    client.socket.resume_writing()

    client.socket.sweep(now + 1)

    client.send(Pong(), TextMessage("still here"))
    assert isinstance(await client.read(), TextMessage)


async def test_a_slow_peer_that_is_closed_can_say_goodbye() -> None:
    async def handler(socket: Socket) -> None:
        await socket.receive()
        await socket.close(1000)

    client = Client(_serving(handler))
    await client.open()
    client.send(TextMessage("go"))
    client.socket.pause_writing()
    closed = await client.read()
    assert isinstance(closed, CloseConnection)
    client.send(closed.response())
    async with asyncio.timeout(60):
        await client.peer.wait_lost()


async def test_the_end_of_the_server_is_1012() -> None:
    client = Client(_serving(_echo))
    await client.open()

    client.socket.shutdown()

    event = await client.read()
    assert isinstance(event, CloseConnection)
    assert event.code == 1012


async def test_a_refused_websocket_gets_an_ordinary_response() -> None:
    client = Client(_reject)
    client.shake_hands(b"early")

    response = await client.peer.read()

    assert response.status == 401
    assert response["access-control-allow-origin"] == "*"
    assert response["connection"] == "close"
    assert client.transport.has_ended


async def test_a_refusal_is_understood_by_a_client_of_websockets() -> None:
    client = Client(_reject)
    client.shake_hands()

    rejected = await client.read()

    assert isinstance(rejected, RejectConnection)
    assert rejected.status_code == 401


async def test_a_socket_on_plain_http_is_told_to_upgrade() -> None:
    async def answer(exchange: Exchange) -> Answer:
        return Upgrade(_echo)

    response: Response = await Peer(build_state(App(answer), ServerSettings())).ask(
        build_request("GET", "/ws")
    )

    assert response.status == 426
    assert response["upgrade"] == "websocket"


async def test_a_takeover_does_not_speak_websocket() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise NotImplementedError

    async def answer(exchange: Exchange) -> Answer:
        return Takeover(application)

    client = Client(answer)
    client.shake_hands()

    assert (await client.peer.read()).status == 501


async def test_a_handshake_behind_an_unanswered_request_is_a_request_like_any_other() -> None:
    released = asyncio.Event()

    async def answer(exchange: Exchange) -> Answer:
        await released.wait()
        return Body(200, exchange.request.path.encode())

    peer = Peer(build_state(App(answer), ServerSettings()))
    handshake = WSConnection(ConnectionType.CLIENT).send(Request(host="test", target="/ws"))
    peer.send(build_request("GET", "/a") + handshake + build_request("GET", "/b"))
    released.set()

    assert [(await peer.read()).body for _ in range(3)] == [b"/a", b"/ws", b"/b"]
