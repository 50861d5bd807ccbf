"""A request of an ASGI server becomes an exchange, and an answer becomes its messages."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator
from typing import Any

import pytest

from docgraph.asgi.output import HIGH_WATER
from docgraph.exchange import Answer, Body, Exchange, Socket, Stream, Upgrade
from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.events import RequestFinished
from docgraph.server.sections import ConnectionOptions
from docgraph.server.settings import ServerSettings
from tests.http.harness import eventually
from tests.unit.asgi.harness import AsgiPeer, make_scope

pytestmark = pytest.mark.anyio
POST: dict[str, Any] = {"method": "POST"}
CHUNKED = [(b"host", b"test"), (b"transfer-encoding", b"chunked")]
LARGE = b"x" * (5 * HIGH_WATER)


def limited(**options: Any) -> ServerSettings:
    return ServerSettings(connection_options=ConnectionOptions(**options))


async def pong(exchange: Exchange) -> Answer:
    return Body(200, b"pong", "text/plain")


async def read(exchange: Exchange) -> Answer:
    exchange.request.body_limit = 1 << 20
    return Body(200, await exchange.request.read_body())


async def test_an_answer_is_two_messages() -> None:
    peer = AsgiPeer(pong, make_scope())
    status, headers, body = await peer.respond()

    assert (status, body) == (200, b"pong")
    assert headers[b"content-length"] == b"4"
    assert headers[b"content-type"] == b"text/plain; charset=utf-8"
    assert b"x-request-id" in headers
    assert b"transfer-encoding" not in headers
    assert b"connection" not in headers
    assert peer.received == 0  # nothing is received for a request without a body
    assert not peer.state.connections


async def test_head_has_the_length_and_no_content() -> None:
    _, headers, body = await AsgiPeer(pong, make_scope(method="HEAD")).respond()
    assert (headers[b"content-length"], body) == (b"4", b"")


async def test_the_body_arrives_in_parts() -> None:
    peer = AsgiPeer(read, make_scope(**POST, headers=CHUNKED))
    peer.give(body=b"ab", more_body=True)
    peer.give(body=b"c", more_body=False)
    assert (await peer.respond())[2] == b"abc"


async def test_a_body_of_http_2_needs_no_header() -> None:
    peer = AsgiPeer(read, make_scope(**POST, http_version="2"))
    peer.give(body=b"abc", more_body=False)
    _, headers, body = await peer.respond()
    assert body == b"abc"
    assert b"connection" not in headers  # which HTTP/2 does not have


async def test_a_body_is_not_received_faster_than_it_is_read() -> None:
    async def slow(exchange: Exchange) -> Answer:
        await may_read.wait()
        return await read(exchange)

    may_read = asyncio.Event()
    peer = AsgiPeer(slow, make_scope(**POST, headers=CHUNKED))
    for _ in range(8):
        peer.give(body=b"x" * 40_000, more_body=True)
    peer.give(body=b"", more_body=False)
    for _ in range(20):
        await asyncio.sleep(0)
    assert peer.received == 2  # more than is buffered for a reader who has not asked

    may_read.set()
    assert (await peer.respond())[2] == b"x" * 320_000


async def test_a_body_above_the_limit_is_rejected() -> None:
    peer = AsgiPeer(read, make_scope(**POST, headers=CHUNKED), limited(max_body_size=100_000))
    for _ in range(3):
        peer.give(body=b"x" * 40_000, more_body=True)
    status, headers, _ = await peer.respond()
    assert status == 413
    assert headers[b"connection"] == b"close"


@pytest.mark.parametrize(("later", "reason"), [(7.0, "slower than"), (31.0, "in time")])
async def test_a_late_body_is_408(later: float, reason: str) -> None:
    peer = AsgiPeer(read, make_scope(**POST, headers=CHUNKED))
    peer.give(body=b"x", more_body=True)
    await eventually(lambda: bool(peer.state.bodies.count))
    peer.sweep(1.0)
    assert not peer.task.done()
    peer.sweep(later)
    status, _, body = await peer.respond()
    assert (status, reason in body.decode()) == (408, True)


async def test_many_bodies_wait_for_one_another() -> None:
    options = limited(max_uploads=1, max_uploads_per_address=1)
    peer = AsgiPeer(read, make_scope(**POST, headers=CHUNKED), options)
    peer.give(body=b"x", more_body=True)
    await eventually(lambda: bool(peer.state.bodies.count))
    (connection,) = peer.state.connections
    incoming = connection._incoming  # type: ignore[attr-defined]
    connection.hold_body(incoming)  # type: ignore[attr-defined]
    peer.give(body=b"y", more_body=True)
    peer.sweep(20.0)
    assert not peer.task.done()  # a pause is no fault of the client
    peer.sweep(31.0)
    assert (await peer.respond())[0] == 503


async def test_a_large_answer_waits_for_the_client() -> None:
    async def large(exchange: Exchange) -> Answer:
        return Body(200, LARGE)

    peer = AsgiPeer(large, make_scope())
    peer.may_send.clear()
    for _ in range(20):
        await asyncio.sleep(0)
    assert peer.sent == []
    assert peer.state.unread.size > 0  # it counts as long as it is not read

    peer.may_send.set()
    _, _, body = await peer.respond()
    assert body == LARGE
    assert max(len(part.get("body", b"")) for part in peer.sent) == HIGH_WATER
    assert peer.state.unread.size == 0


async def test_a_client_that_does_not_read_is_given_up() -> None:
    async def large(exchange: Exchange) -> Answer:
        return Body(200, LARGE)

    peer = AsgiPeer(large, make_scope())
    peer.may_send.clear()
    await eventually(lambda: peer.state.unread.size)
    peer.sweep()
    peer.sweep(21.0)
    await peer.finish()
    assert not peer.state.connections
    assert peer.sent == []


async def test_a_stream_is_sent_as_it_comes_and_no_faster_than_it_is_read() -> None:
    made = 0

    async def endless() -> AsyncIterator[bytes]:
        nonlocal made
        while True:
            made += 1
            yield b"x" * 10_000
            await asyncio.sleep(0)

    async def stream(exchange: Exchange) -> Answer:
        return Stream(endless(), media_type="text/event-stream")

    peer = AsgiPeer(stream, make_scope())
    await peer.wait_sent(3)
    assert peer.sent[0]["type"] == "http.response.start"
    peer.may_send.clear()
    for _ in range(100):
        await asyncio.sleep(0)
    before = made
    for _ in range(100):
        await asyncio.sleep(0)
    assert made == before

    peer.sweep()  # from now on, it notices
    peer.give("http.disconnect")
    peer.may_send.set()
    await peer.finish()
    assert not peer.state.connections


async def test_the_head_of_a_stream_is_sent_before_its_first_part() -> None:
    async def silent() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    async def stream(exchange: Exchange) -> Answer:
        return Stream(silent(), media_type="text/event-stream")

    peer = AsgiPeer(stream, make_scope())
    await peer.wait_sent(1)
    peer.sweep()
    peer.give("http.disconnect")
    await peer.finish()
    assert len(peer.sent) == 1


async def test_a_client_that_disconnects_ends_the_work() -> None:
    events: list[Event] = []
    ended = asyncio.Event()

    async def endless(exchange: Exchange) -> Answer:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return Body()

    subscribe(events.append)
    try:
        peer = AsgiPeer(endless, make_scope())
        await asyncio.sleep(0)
        peer.sweep()
        peer.give("http.disconnect")
        await peer.finish()  # no error for the server
    finally:
        unsubscribe(events.append)
    assert ended.is_set()
    assert peer.sent == []
    (finished,) = (one for one in events if isinstance(one, RequestFinished))
    assert (finished.status, finished.aborted) == (499, True)
    assert not peer.task.cancelled()


async def test_a_disconnect_in_the_middle_of_a_body_ends_the_work() -> None:
    peer = AsgiPeer(read, make_scope(**POST, headers=CHUNKED))
    peer.give(body=b"x", more_body=True)
    peer.give("http.disconnect")
    await peer.finish()
    assert peer.sent == []
    assert peer.state.bodies.size == 0


async def test_a_server_that_cancels_gets_its_cancellation() -> None:
    async def endless(exchange: Exchange) -> Answer:
        await asyncio.Event().wait()
        return Body()

    peer = AsgiPeer(endless, make_scope())
    await asyncio.sleep(0)
    peer.task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await peer.task


async def test_an_error_of_the_server_is_a_disconnect_or_the_servers() -> None:
    peer = AsgiPeer(pong, make_scope())
    peer.fault = OSError("gone")
    await peer.finish()  # as ASGI 2.4 reports a disconnect

    peer = AsgiPeer(pong, make_scope())
    peer.fault = RuntimeError("a fault of the server")
    with pytest.raises(RuntimeError, match="a fault of the server"):
        await peer.finish()


async def test_a_stream_that_fails_does_not_look_complete() -> None:
    async def failing() -> AsyncIterator[bytes]:
        yield b"x"
        raise ValueError("flaw")

    async def stream(exchange: Exchange) -> Answer:
        return Stream(failing(), media_type="text/event-stream")

    peer = AsgiPeer(stream, make_scope())
    await peer.finish()
    assert all(part.get("more_body", True) for part in peer.sent)


@pytest.mark.parametrize(
    ("values", "status"),
    [
        ({"headers": [(b"host", b"x"), (b"a", b"x" * 9000)]}, 431),
        ({"headers": [(b"host", b"x"), *[(b"a", b"b")] * 200]}, 431),
        ({"headers": []}, 400),
        ({"headers": [(b"host", b"a"), (b"host", b"b")]}, 400),
        ({"headers": [(b"host", b"a/b")]}, 400),
        ({"headers": [(b"host", b"a"), (b"content-length", b"x")]}, 400),
        ({"query_string": b"x" * 9000}, 414),
        ({"method": "TRACE"}, 405),
        ({"path": "/\x00"}, 400),
        ({"raw_path": b"/%ff", "path": "/\N{REPLACEMENT CHARACTER}"}, 400),
    ],
)
async def test_an_invalid_head_is_rejected_as_by_our_own_server(
    values: dict[str, Any], status: int
) -> None:
    assert (await AsgiPeer(pong, make_scope(**values)).respond())[0] == status


# --- WebSocket ------------------------------------------------------------------------------------


def socket_scope(**values: Any) -> dict[str, Any]:
    scope = make_scope(**{"type": "websocket", "scheme": "ws", "subprotocols": [], **values})
    del scope["method"]
    return scope


def serve(talk: Any) -> Any:
    async def answer(exchange: Exchange) -> Answer:
        assert exchange.request.connection.is_websocket
        return Upgrade(talk, headers=[("Sec-WebSocket-Protocol", "graphql-transport-ws")])

    return answer


async def echo(socket: Socket) -> None:
    while (message := await socket.receive()) is not None:
        assert isinstance(message, str)
        await socket.send(message)


async def test_a_websocket_is_accepted_with_its_subprotocol() -> None:
    peer = AsgiPeer(serve(echo), socket_scope())
    peer.give("websocket.connect")
    peer.give("websocket.receive", text="hello")
    await peer.wait_sent(2)
    accept, message = peer.sent
    assert accept["type"] == "websocket.accept"
    assert accept["subprotocol"] == "graphql-transport-ws"
    assert not any(name == b"sec-websocket-protocol" for name, _ in accept["headers"])
    assert message == {"type": "websocket.send", "text": "hello"}
    peer.give("websocket.disconnect", code=1000)
    await peer.finish()
    assert not peer.state.connections


@pytest.mark.parametrize("extensions", [None, {}, {"websocket.http.response": {}}])
async def test_a_rejected_handshake_is_a_response_where_the_server_can_send_one(
    extensions: Any,
) -> None:
    async def refuse(exchange: Exchange) -> Answer:
        return Body(401, b"no", "text/plain")

    peer = AsgiPeer(refuse, socket_scope(extensions=extensions))
    peer.give("websocket.connect")
    await peer.finish()
    if extensions:
        start, body = peer.sent
        assert start["type"] == "websocket.http.response.start"
        assert (start["status"], body["body"], body["more_body"]) == (401, b"no", False)
    else:
        assert peer.sent == [{"type": "websocket.close", "code": 1008}]


async def test_a_client_that_leaves_before_the_handshake_gets_nothing() -> None:
    peer = AsgiPeer(serve(echo), socket_scope())
    peer.give("websocket.disconnect", code=1006)
    await peer.finish()
    assert peer.sent == []


async def test_a_long_message_is_closed() -> None:
    peer = AsgiPeer(serve(echo), socket_scope())
    peer.give("websocket.connect")
    peer.give("websocket.receive", bytes=b"x" * 70_000)
    await peer.finish()
    assert peer.sent[-1]["code"] == 1009


async def test_messages_that_are_not_wanted_are_not_received() -> None:
    async def deaf(socket: Socket) -> None:
        await may_end.wait()

    may_end = asyncio.Event()
    peer = AsgiPeer(serve(deaf), socket_scope())
    peer.give("websocket.connect")
    for _ in range(5):
        peer.give("websocket.receive", text="x")
    await peer.wait_sent(1)
    for _ in range(20):
        await asyncio.sleep(0)
    assert peer.received == 2  # the handshake, and the message that waits
    may_end.set()
    await peer.finish()
    assert peer.sent[-1]["type"] == "websocket.close"


async def test_a_stop_closes_a_websocket_with_service_restart() -> None:
    peer = AsgiPeer(serve(echo), socket_scope())
    peer.give("websocket.connect")
    await peer.wait_sent(1)
    for connection in tuple(peer.state.connections):
        connection.shutdown()
    await peer.finish()
    assert peer.sent[-1]["code"] == 1012


async def test_a_handler_that_fails_closes_with_an_error() -> None:
    async def fail(socket: Socket) -> None:
        raise ValueError("flaw")

    peer = AsgiPeer(serve(fail), socket_scope())
    peer.give("websocket.connect")
    await peer.finish()
    assert peer.sent[-1]["code"] == 1011


async def test_a_stream_notices_a_disconnect_before_any_sweep() -> None:
    """Else a user who comes and goes would have more streams open than he may have."""

    async def endless() -> AsyncIterator[bytes]:
        yield b"data: 1\n\n"
        await asyncio.Event().wait()

    async def stream(exchange: Exchange) -> Answer:
        return Stream(endless(), media_type="text/event-stream")

    peer = AsgiPeer(stream, make_scope())
    await peer.wait_sent(2)
    peer.give("http.disconnect")
    await peer.finish()


async def test_a_request_leaves_no_cycle() -> None:
    exchanges: list[weakref.ref[Exchange]] = []

    async def remember(exchange: Exchange) -> Answer:
        exchanges.append(weakref.ref(exchange))
        return Body()

    await AsgiPeer(remember, make_scope()).respond()
    gc.disable()
    try:
        peer = AsgiPeer(remember, make_scope(**POST, headers=CHUNKED))
        peer.give(body=b"x", more_body=False)
        await peer.respond()
        connection = peer.connection
        del peer
        await asyncio.sleep(0)
        assert exchanges[-1]() is None
        assert connection() is None
    finally:
        gc.enable()
