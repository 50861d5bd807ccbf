"""Scope, receive and send become an exchange, and an answer becomes messages."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import orjson
import pytest

from docgraph.exchange import Answer, Body, Exchange, Socket, Stream, Takeover, Upgrade
from docgraph.exchange.errors import RequestTimeout
from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.events import RequestFailed, RequestFinished, RequestStarted
from docgraph.runtime.sections import Core
from docgraph.server.http.asgi import AsgiAdapter
from docgraph.server.sections import ConnectionOptions
from docgraph.server.settings import ServerSettings

pytestmark = pytest.mark.anyio

Handler = Callable[[Exchange], Awaitable[Answer]]


class App:
    """An application that is one function."""

    def __init__(self, handler: Handler) -> None:
        self.answer = handler
        self.life: list[str] = []

    async def startup(self) -> None:
        self.life.append("startup")

    async def shutdown(self) -> None:
        self.life.append("shutdown")


class Peer:
    """The server's side of one request: what it says, and what it was told."""

    def __init__(self, *messages: dict[str, Any]) -> None:
        self._messages = list(messages)
        self.sent: list[dict[str, Any]] = []

    async def receive(self) -> Any:
        return self._messages.pop(0)

    async def send(self, message: Any) -> None:
        self.sent.append(message)

    @property
    def status(self) -> int:
        return int(self.sent[0]["status"])

    @property
    def headers(self) -> dict[str, str]:
        return {name.decode(): value.decode() for name, value in self.sent[0]["headers"]}

    @property
    def content(self) -> bytes:
        return b"".join(message["body"] for message in self.sent[1:])


@pytest.fixture
def events() -> Iterator[list[Event]]:
    seen: list[Event] = []
    subscribe(seen.append)
    yield seen
    unsubscribe(seen.append)


def _scope(path: bytes = b"/a", method: str = "GET", **headers: str) -> dict[str, Any]:
    return {
        "type": "http",
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "client": ("1.2.3.4", 5),
        "server": ("127.0.0.1", 80),
        "raw_path": path,
        "query_string": b"x=1",
        "headers": [(n.replace("_", "-").encode(), v.encode()) for n, v in headers.items()],
    }


def _websocket(path: bytes = b"/ws") -> dict[str, Any]:
    return {**_scope(path), "type": "websocket", "scheme": "ws"}


async def _call(
    handler: Handler,
    scope: dict[str, Any],
    *messages: dict[str, Any],
    settings: ServerSettings | None = None,
) -> Peer:
    peer = Peer(*messages)
    await AsgiAdapter(App(handler), settings or ServerSettings())(scope, peer.receive, peer.send)
    return peer


def _part(body: bytes, *, more: bool = False) -> dict[str, Any]:
    return {"type": "http.request", "body": body, "more_body": more}


async def _pong(exchange: Exchange) -> Answer:
    return Body(200, b"pong", "text/plain")


async def test_the_application_sees_the_request_as_it_came() -> None:
    seen: list[Exchange] = []

    async def handler(exchange: Exchange) -> Answer:
        seen.append(exchange)
        return Body()

    peer = await _call(handler, _scope(b"/a%20b/c", "PUT", accept="text/html"))

    (exchange,) = seen
    assert exchange.request.method == "PUT"
    assert exchange.request.segments == ("a b", "c")
    assert exchange.request.query.get("x") == "1"
    assert exchange.request.headers.get("accept") == "text/html"
    assert exchange.request.connection.client == ("1.2.3.4", 5)
    assert peer.headers["x-request-id"] == exchange.id


async def test_the_body_is_read_only_when_it_is_asked_for() -> None:
    async def reader(exchange: Exchange) -> Answer:
        exchange.request.body_limit = 100
        return Body(200, await exchange.request.read_body())

    parts = (_part(b"ab", more=True), _part(b"", more=True), _part(b"c"))

    assert (await _call(reader, _scope(method="POST"), *parts)).content == b"abc"
    assert (await _call(_pong, _scope(method="POST"), *parts)).content == b"pong"


async def test_a_path_that_cannot_be_read_is_answered_with_400() -> None:
    peer = await _call(_pong, _scope(b"/%ff"))

    assert peer.status == 400
    assert orjson.loads(peer.content)["message"] == "the path is not valid UTF-8"
    assert peer.headers["access-control-allow-origin"] == "*"


async def test_the_limit_of_parameters_is_handed_on() -> None:
    async def handler(exchange: Exchange) -> Answer:
        return Body(200, str(exchange.request.max_parameters).encode())

    settings = ServerSettings(connection_options=ConnectionOptions(max_parameters=7))

    assert (await _call(handler, _scope(), settings=settings)).content == b"7"


async def test_a_stream_is_sent_chunk_by_chunk() -> None:
    async def handler(exchange: Exchange) -> Answer:
        return Stream(_chunks(b"a", b"b"), media_type="text/event-stream")

    peer = await _call(handler, _scope(accept_encoding="gzip"))

    assert [message["body"] for message in peer.sent[1:]] == [b"a", b"b", b""]
    assert [message["more_body"] for message in peer.sent[1:]] == [True, True, False]
    assert "content-encoding" not in peer.headers
    assert "content-length" not in peer.headers


async def test_a_stream_of_text_is_compressed() -> None:
    async def handler(exchange: Exchange) -> Answer:
        return Stream(_chunks(b"a" * 1000, b"b" * 1000), media_type="application/json")

    peer = await _call(handler, _scope(accept_encoding="gzip"))

    assert peer.headers["content-encoding"] == "gzip"
    assert gzip.decompress(peer.content) == b"a" * 1000 + b"b" * 1000


async def test_head_of_a_stream_reads_nothing_of_it_and_closes_it() -> None:
    stream = _chunks(b"never")

    async def handler(exchange: Exchange) -> Answer:
        return Stream(stream)

    peer = await _call(handler, _scope(method="HEAD"))

    assert peer.content == b""
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_stream_that_breaks_is_told_and_left_without_an_end(events: list[Event]) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"a"
        raise ValueError("secret detail")

    async def handler(exchange: Exchange) -> Answer:
        return Stream(broken())

    peer = await _call(handler, _scope())

    assert [message.get("more_body") for message in peer.sent] == [None, True]
    assert any(isinstance(event, RequestFailed) for event in events)


async def test_an_answer_that_cannot_be_sent_is_a_500_that_says_nothing(
    events: list[Event],
) -> None:
    async def handler(exchange: Exchange) -> Answer:
        return Body(headers=[("Location", "a\r\nb")])

    peer = await _call(handler, _scope())

    assert peer.status == 500
    error = orjson.loads(peer.content)
    assert error["code"] == "internal-error"
    assert "Location" not in peer.content.decode()
    failed = next(event for event in events if isinstance(event, RequestFailed))
    assert error["details"] == {"id": failed.id}


async def test_a_takeover_gets_the_connection_and_our_headers() -> None:
    seen: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["path"], scope["extra"], await receive()))
        await send({"type": "http.response.start", "status": 202, "headers": [(b"vary", b"X")]})
        await send({"type": "http.response.body", "body": b"other"})

    async def handler(exchange: Exchange) -> Answer:
        return Takeover(application, {"extra": 1}, headers=[("X-Own", "1")])

    peer = await _call(handler, _scope(b"/a%20b"), _part(b"in"))

    assert seen == [("/a b", 1, _part(b"in"))]
    assert (peer.status, peer.content) == (202, b"other")
    assert peer.headers["vary"] == "X"
    assert peer.headers["x-own"] == "1"
    assert peer.headers["x-content-type-options"] == "nosniff"
    assert peer.headers["access-control-allow-origin"] == "*"


async def test_a_takeover_whose_body_is_late_is_answered_with_408() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        raise RequestTimeout("the body did not arrive in time", headers=[("Connection", "close")])

    async def handler(exchange: Exchange) -> Answer:
        return Takeover(application)

    peer = await _call(handler, _scope())

    assert peer.status == 408
    assert peer.headers["connection"] == "close"


async def test_a_socket_on_plain_http_is_told_to_upgrade() -> None:
    async def handler(exchange: Exchange) -> Answer:
        return Upgrade(_echo)

    peer = await _call(handler, _scope())

    assert peer.status == 426
    assert peer.headers["upgrade"] == "websocket"


async def test_a_websocket_is_accepted_and_handed_to_its_handler() -> None:
    async def handler(exchange: Exchange) -> Answer:
        assert exchange.request.method == "GET"
        return Upgrade(_echo, headers=[("X-Own", "1")])

    peer = await _call(
        handler,
        _websocket(),
        {"type": "websocket.connect"},
        {"type": "websocket.receive", "text": "hello"},
        {"type": "websocket.receive", "bytes": b"raw"},
        {"type": "websocket.disconnect", "code": 1000},
    )

    assert [message["type"] for message in peer.sent] == [
        "websocket.accept",
        "websocket.send",
        "websocket.send",
    ]
    assert (b"x-own", b"1") in peer.sent[0]["headers"]
    assert [message["text"] for message in peer.sent[1:]] == ["hello", "b'raw'"]


async def test_a_handler_that_ends_closes_and_one_that_fails_closes_with_1011() -> None:
    async def ends(socket: Socket) -> None:
        await socket.send("bye")

    async def fails(socket: Socket) -> None:
        raise ValueError("broken")

    codes = []
    for one in (ends, fails):

        async def handler(exchange: Exchange, one: Any = one) -> Answer:
            return Upgrade(one)

        peer = await _call(handler, _websocket(), {"type": "websocket.connect"})
        codes.append(peer.sent[-1]["code"])

    assert codes == [1000, 1011]


async def test_a_refused_websocket_gets_an_ordinary_response() -> None:
    async def handler(exchange: Exchange) -> Answer:
        return Body(401, headers=[("WWW-Authenticate", "Basic")])

    peer = await _call(handler, _websocket(), {"type": "websocket.connect"})

    assert peer.sent[0]["type"] == "websocket.http.response.start"
    assert peer.status == 401
    assert peer.headers["access-control-allow-origin"] == "*"


async def test_every_request_is_told_once(events: list[Event]) -> None:
    await _call(_pong, _scope(b"/a/b"))

    started, finished = events
    assert isinstance(started, RequestStarted)
    assert isinstance(finished, RequestFinished)
    assert started.request_id == finished.request_id
    assert (finished.method, finished.path, finished.status) == ("GET", "/a/b", 200)
    assert (finished.bytes_out, finished.client, finished.aborted) == (4, "1.2.3.4", False)
    assert finished.duration > 0


async def test_a_request_whose_client_left_is_told_as_aborted(events: list[Event]) -> None:
    async def handler(exchange: Exchange) -> Answer:
        await asyncio.sleep(60)
        return Body()

    task = asyncio.create_task(_call(handler, _scope()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    finished = events[-1]
    assert isinstance(finished, RequestFinished)
    assert finished.aborted


async def test_one_request_too_many_is_refused_and_the_place_is_given_back() -> None:
    release = asyncio.Event()

    async def handler(exchange: Exchange) -> Answer:
        await release.wait()
        return Body()

    options = ConnectionOptions(max_requests_in_flight=1, queue=0)
    adapter = AsgiAdapter(App(handler), ServerSettings(connection_options=options))
    first, second, third = Peer(), Peer(), Peer()
    task = asyncio.create_task(adapter(_scope(), first.receive, first.send))
    await asyncio.sleep(0)
    await adapter(_scope(), second.receive, second.send)
    release.set()
    await task
    await adapter(_scope(), third.receive, third.send)

    assert [peer.status for peer in (first, second, third)] == [200, 503, 200]
    assert second.headers["retry-after"] == "1"
    assert second.headers["connection"] == "close"


async def test_callers_without_compression_are_turned_away_when_it_is_forced() -> None:
    settings = ServerSettings(core=Core(force_gzip_encoding=True))

    assert (await _call(_pong, _scope(), settings=settings)).status == 400
    accepted = _scope(accept_encoding="gzip")
    assert (await _call(_pong, accepted, settings=settings)).status == 200


async def test_the_life_of_the_server_is_that_of_the_application() -> None:
    application = App(_pong)
    peer = Peer({"type": "lifespan.startup"}, {"type": "lifespan.shutdown"})

    await AsgiAdapter(application, ServerSettings())({"type": "lifespan"}, peer.receive, peer.send)

    assert application.life == ["startup", "shutdown"]
    assert [message["type"] for message in peer.sent] == [
        "lifespan.startup.complete",
        "lifespan.shutdown.complete",
    ]


async def _chunks(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def _echo(socket: Socket) -> None:
    while (message := await socket.receive()) is not None:
        await socket.send(str(message))
