"""A request on a connection becomes an exchange, and an answer becomes a response."""

from __future__ import annotations

import asyncio
import contextvars
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from itertools import pairwise
from typing import Any

import orjson
import pytest

from docgraph.exchange import Answer, Body, DocgraphError, Exchange, Stream, Takeover
from docgraph.exchange.deadline import Deadline, Patience
from docgraph.observe import Event, subscribe, unsubscribe
from docgraph.observe.events import RequestFailed, RequestFinished, RequestStarted
from docgraph.runtime.sections import Core
from docgraph.server.http.state import build_state
from docgraph.server.sections import ConnectionOptions
from docgraph.server.serve import render_refusal
from docgraph.server.settings import ServerSettings
from tests.connections import Peer, Response, build_request

pytestmark = pytest.mark.anyio

Handler = Callable[[Exchange], Awaitable[Answer]]


class App:
    """An application that is one function."""

    def __init__(self, handler: Handler, probes: tuple[str, ...] = ()) -> None:
        self._handler = handler
        self._probes = probes

    async def startup(self) -> None:
        raise NotImplementedError

    async def contact_database(self) -> str:
        raise NotImplementedError

    async def shutdown(self) -> None:
        raise NotImplementedError

    async def answer(self, exchange: Exchange) -> Answer:
        return await self._handler(exchange)

    def is_probe(self, exchange: Exchange) -> bool:
        return exchange.request.path in self._probes

    def render_error(self, error: DocgraphError, exchange: Exchange) -> Body:
        return render_refusal(error, exchange)


@pytest.fixture
def events() -> Iterator[list[Event]]:
    seen: list[Event] = []
    subscribe(seen.append)
    yield seen
    unsubscribe(seen.append)


def connect(handler: Handler, settings: ServerSettings | None = None, **options: Any) -> Peer:
    return Peer(build_state(App(handler), settings or ServerSettings()), **options)


async def _ask(
    handler: Handler, data: bytes = build_request("GET", "/a"), method: str = "GET", **options: Any
) -> Response:
    return await connect(handler, **options).ask(data, method)


async def _pong(exchange: Exchange) -> Answer:
    return Body(200, b"pong", "text/plain")


async def _read(exchange: Exchange) -> Answer:
    exchange.request.body_limit = 100
    return Body(200, await exchange.request.read_body())


async def test_the_application_sees_the_request_as_it_came() -> None:
    seen: list[Exchange] = []

    async def handler(exchange: Exchange) -> Answer:
        seen.append(exchange)
        return Body()

    response = await _ask(
        handler, build_request("PUT", "/a%20b/c?x=1", accept="text/html"), client=("1.2.3.4", 5)
    )

    (exchange,) = seen
    assert exchange.request.method == "PUT"
    assert exchange.request.segments == ("a b", "c")
    assert exchange.request.query.get("x") == "1"
    assert exchange.request.headers.get("accept") == "text/html"
    assert exchange.request.connection.client == ("1.2.3.4", 5)
    assert exchange.request.connection.scheme == "http"
    assert response["x-request-id"] == exchange.id


async def test_a_connection_with_tls_is_https() -> None:
    async def handler(exchange: Exchange) -> Answer:
        return Body(200, exchange.request.connection.scheme.encode())

    assert (await _ask(handler, tls=True)).body == b"https"


async def test_the_body_is_read_only_when_it_is_asked_for() -> None:
    data = build_request("POST", "/", b"abc")
    chunked = build_request("POST", transfer_encoding="chunked") + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n"

    assert (await _ask(_read, data)).body == b"abc"
    assert (await _ask(_read, chunked)).body == b"abc"
    assert (await _ask(_pong, data)).body == b"pong"


async def test_more_than_the_service_reads_is_refused_without_waiting_for_the_rest() -> None:
    peer = connect(_read)
    peer.send(build_request("POST", transfer_encoding="chunked") + b"65\r\n" + b"a" * 101)

    response = await peer.read()

    assert response.status == 413
    assert response["connection"] == "close"


async def test_a_path_that_cannot_be_read_is_answered_with_400() -> None:
    response = await _ask(_pong, build_request("GET", "/%ff"))

    assert response.status == 400
    assert orjson.loads(response.body)["message"] == "the path is not valid UTF-8"
    assert response["access-control-allow-origin"] == "*"


async def test_the_limit_of_parameters_is_handed_on() -> None:
    async def handler(exchange: Exchange) -> Answer:
        return Body(200, str(exchange.request.max_parameters).encode())

    settings = ServerSettings(connection_options=ConnectionOptions(max_parameters=7))

    assert (await _ask(handler, settings=settings)).body == b"7"


async def test_a_stream_is_sent_chunk_by_chunk() -> None:
    async def handler(exchange: Exchange) -> Answer:
        return Stream(_chunks(b"a", b"", b"b"), media_type="text/event-stream")

    peer = connect(handler)
    peer.send(build_request("GET", "/", accept_encoding="gzip"))
    response = await peer.read()

    assert response.body == b"ab"
    assert response["transfer-encoding"] == "chunked"
    assert response["content-encoding"] is None
    assert response["content-length"] is None


async def test_a_stream_to_a_client_of_1_0_ends_with_its_connection() -> None:
    async def handler(exchange: Exchange) -> Answer:
        return Stream(_chunks(b"a", b"b"))

    response = await _ask(handler, b"GET / HTTP/1.0\r\n\r\n")

    assert response.body == b"ab"
    assert response["transfer-encoding"] is None
    assert response["connection"] == "close"


async def test_a_stream_of_text_is_compressed() -> None:
    async def handler(exchange: Exchange) -> Answer:
        return Stream(_chunks(b"a" * 1000, b"b" * 1000), media_type="application/json")

    response = await _ask(handler, build_request("GET", accept_encoding="gzip"))

    assert response["content-encoding"] == "gzip"
    assert gzip.decompress(response.body) == b"a" * 1000 + b"b" * 1000


async def test_head_of_a_stream_reads_nothing_of_it_and_closes_it() -> None:
    stream = _chunks(b"never")

    async def handler(exchange: Exchange) -> Answer:
        return Stream(stream)

    response = await _ask(handler, build_request("HEAD"), "HEAD")

    assert response.body == b""
    with pytest.raises(StopAsyncIteration):
        await anext(stream)


async def test_a_stream_that_breaks_is_told_and_left_without_an_end(events: list[Event]) -> None:
    async def broken() -> AsyncIterator[bytes]:
        yield b"a"
        raise ValueError("secret detail")

    async def handler(exchange: Exchange) -> Answer:
        return Stream(broken())

    peer = connect(handler)
    peer.send(build_request("GET"))

    assert (await peer.read_all()).endswith(b"\r\n\r\n1\r\na\r\n")
    assert any(isinstance(event, RequestFailed) for event in events)


async def test_an_answer_that_cannot_be_sent_is_a_500_that_says_nothing(
    events: list[Event],
) -> None:
    async def handler(exchange: Exchange) -> Answer:
        return Body(headers=[("Location", "a\r\nb")])

    response = await _ask(handler)

    assert response.status == 500
    error = orjson.loads(response.body)
    assert error["code"] == "internal-error"
    assert "Location" not in response.body.decode()
    failed = next(event for event in events if isinstance(event, RequestFailed))
    assert error["details"] == {"id": failed.id}


async def test_a_request_that_is_cancelled_from_inside_does_not_hang() -> None:
    async def handler(exchange: Exchange) -> Answer:
        raise asyncio.CancelledError

    peer = connect(handler)
    peer.send(build_request("GET"))

    assert await peer.read_all() == b""


async def test_pipelined_requests_see_nothing_of_each_other() -> None:
    variable = contextvars.ContextVar("variable", default="nothing")

    async def handler(exchange: Exchange) -> Answer:
        before = variable.get()
        variable.set("something")
        return Body(200, before.encode())

    peer = connect(handler)
    peer.send(build_request("GET") * 3)

    assert [(await peer.read()).body for _ in range(3)] == [b"nothing"] * 3


async def test_a_fault_while_a_request_is_read_is_told_and_answered(
    events: list[Event], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("secret detail")

    monkeypatch.setattr("docgraph.server.http.reader.read_head", fail)

    response = await _ask(_pong)

    assert response.status == 500
    assert b"secret" not in response.body
    assert any(isinstance(event, RequestFailed) for event in events)


async def test_a_head_that_comes_again_is_read_as_the_first_time() -> None:
    async def handler(exchange: Exchange) -> Answer:
        request = exchange.request
        return Body(200, f"{request.method} {request.path} {dict(request.headers)}".encode())

    peer = connect(handler)
    requests = [
        build_request("GET", "/a"),
        build_request("GET", "/a"),
        build_request("GET", "/b"),
        build_request("PUT", "/b"),
        build_request("PUT", "/b", x="1"),
        b"PUT /b HTTP/1.0\r\nhost: test\r\nx: 1\r\n\r\n",
    ]
    seen = [(await peer.ask(data)).body.decode() for data in requests]

    assert [text.partition(" {")[0] for text in seen] == [
        *["GET /a", "GET /a", "GET /b", "PUT /b", "PUT /b", "PUT /b"]
    ]
    assert ["'x': '1'" in text for text in seen] == [False, False, False, False, True, True]
    assert peer.transport.has_ended


# --- other applications ---------------------------------------------------------------------------


async def test_a_takeover_gets_the_connection_and_our_headers() -> None:
    seen: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope["path"], scope["extra"], await receive()))
        await send({"type": "http.response.start", "status": 202, "headers": [(b"vary", b"X")]})
        await send({"type": "http.response.body", "body": b"other"})
        seen.append(await receive())

    async def handler(exchange: Exchange) -> Answer:
        return Takeover(application, {"extra": 1}, headers=[("X-Own", "1")])

    response = await _ask(handler, build_request("POST", "/a%20b", b"in"))

    part = {"type": "http.request", "body": b"in", "more_body": False}
    assert seen == [("/a b", 1, part), {"type": "http.disconnect"}]
    assert (response.status, response.body) == (202, b"other")
    assert response["vary"] == "X"
    assert response["x-own"] == "1"
    assert response["x-content-type-options"] == "nosniff"
    assert response["access-control-allow-origin"] == "*"


async def test_a_takeover_reads_a_body_in_the_parts_it_comes_in() -> None:
    parts: list[Any] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        while not parts or parts[-1]["more_body"]:
            parts.append(await receive())
        headers = [(b"content-length", b"2"), (b"connection", b"close")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"o", "more_body": True})
        await send({"type": "http.response.body", "body": b"k"})

    async def handler(exchange: Exchange) -> Answer:
        return Takeover(application)

    peer = connect(handler)
    peer.send(build_request("POST", "/", content_length="4") + b"ab")
    await _until(lambda: parts)
    peer.send(b"cd")
    response = await peer.read()

    assert [part["body"] for part in parts] == [b"ab", b"cd"]
    assert response.body == b"ok"
    assert response["connection"] == "close"


async def test_a_takeover_of_head_sends_no_content() -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"5")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"other"})

    async def handler(exchange: Exchange) -> Answer:
        return Takeover(application)

    peer = connect(handler)
    peer.send(build_request("HEAD") + build_request("HEAD"))

    for _ in range(2):
        assert (await peer.read("HEAD"))["content-length"] == "5"


async def test_a_takeover_hears_that_its_client_has_left() -> None:
    seen: list[Any] = []
    asked = asyncio.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        asked.set()
        try:
            seen.append(await receive())
        except asyncio.CancelledError:
            seen.append("cancelled")
            raise

    async def handler(exchange: Exchange) -> Answer:
        return Takeover(application)

    peer = connect(handler)
    peer.send(build_request("GET"))
    await asked.wait()
    peer.leave()

    await _until(lambda: seen)
    assert seen == ["cancelled"]


@pytest.mark.parametrize(
    "messages",
    [
        [{"type": "http.response.body", "body": b""}],
        [{"type": "http.response.start", "status": 200}] * 2,
        [{"type": "http.response.start", "status": 200, "headers": [(b"a", b"b\r\nc: d")]}],
        [],
    ],
    ids=["body-first", "two-starts", "line-break", "nothing"],
)
async def test_a_takeover_that_does_not_keep_to_asgi_is_told(
    messages: list[Any], events: list[Event]
) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        for message in messages:
            await send(message)

    async def handler(exchange: Exchange) -> Answer:
        return Takeover(application)

    response = await _ask(handler)

    assert response.status == 500
    assert any(isinstance(event, RequestFailed) for event in events)


async def test_a_takeover_that_is_shorter_than_announced_is_cut(events: list[Event]) -> None:
    async def application(scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"5")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"abc"})

    async def handler(exchange: Exchange) -> Answer:
        return Takeover(application)

    peer = connect(handler)
    peer.send(build_request("GET") * 2)

    assert (await peer.read_all()).endswith(b"\r\n\r\nabc")
    assert any(isinstance(event, RequestFailed) for event in events)


# --- the log --------------------------------------------------------------------------------------


async def test_every_request_is_told_once(events: list[Event]) -> None:
    await _ask(_pong, build_request("GET", "/a/b?c=d"), client=("1.2.3.4", 5))

    started, finished = events
    assert isinstance(started, RequestStarted)
    assert isinstance(finished, RequestFinished)
    assert started.request_id == finished.request_id
    assert (finished.method, finished.path, finished.status) == ("GET", "/a/b", 200)
    assert (finished.bytes_out, finished.client, finished.aborted) == (4, "1.2.3.4", False)
    assert finished.duration > 0


@pytest.mark.parametrize(
    ("media_type", "is_endless"), [("text/event-stream", True), ("application/json", False)]
)
async def test_a_stream_of_events_is_told_as_one_without_an_end(
    events: list[Event], media_type: str, is_endless: bool
) -> None:
    async def handler(exchange: Exchange) -> Answer:
        return Stream(_chunks(b"data: 1\n\n"), media_type=media_type)

    await _ask(handler, build_request("GET"))

    (finished,) = [one for one in events if isinstance(one, RequestFinished)]
    assert finished.endless is is_endless


async def test_a_request_whose_client_left_is_told_as_aborted(events: list[Event]) -> None:
    entered = asyncio.Event()

    async def handler(exchange: Exchange) -> Answer:
        entered.set()
        await asyncio.Event().wait()
        return Body()

    peer = connect(handler)
    peer.send(build_request("GET"))
    await entered.wait()
    peer.leave()

    finished = await _until(lambda: [e for e in events if isinstance(e, RequestFinished)])
    assert (finished[0].aborted, finished[0].status) == (True, 499)


async def test_callers_without_compression_are_turned_away_when_it_is_forced() -> None:
    settings = ServerSettings(core=Core(force_gzip_encoding=True))
    accepting = build_request("GET", accept_encoding="gzip")

    assert (await _ask(_pong, settings=settings)).status == 400
    assert (await _ask(_pong, accepting, settings=settings)).status == 200


async def _chunks(*chunks: bytes) -> AsyncIterator[bytes]:
    for chunk in chunks:
        yield chunk


async def _until(check: Callable[[], Any]) -> Any:
    async with asyncio.timeout(60):
        while not (value := check()):  # noqa: ASYNC110 - what is awaited tells nobody
            await asyncio.sleep(0)
    return value


async def test_a_crowd_begins_over_many_turns_and_a_probe_overtakes_it() -> None:
    seen: list[str] = []

    async def handler(exchange: Exchange) -> Answer:
        seen.append(exchange.request.path)
        return Body()

    state = build_state(App(handler, probes=("/ping",)), ServerSettings())
    for path in (*["/a"] * 100, "/ping"):
        Peer(state).send(build_request("GET", path))
    begun = [0]
    while begun[-1] < 101:
        await asyncio.sleep(0)
        begun.append(len(seen))

    assert max(after - before for before, after in pairwise(begun)) < 20
    assert seen.index("/ping") < 20


async def test_places_that_become_free_together_are_taken_over_many_turns() -> None:
    options = ConnectionOptions(max_requests_in_flight=100, queue=100)
    settings = ServerSettings(connection_options=options)
    seen: list[str] = []
    is_over = asyncio.Event()

    async def handler(exchange: Exchange) -> Answer:
        seen.append(exchange.request.path)
        await is_over.wait()
        return Body()

    state = build_state(App(handler), settings)
    for _ in range(200):
        Peer(state).send(build_request("GET", "/a"))
    while len(seen) < 100 or state.exchanges.count_room() > 0:  # noqa: ASYNC110
        await asyncio.sleep(0)
    is_over.set()
    begun = [len(seen)]
    while begun[-1] < 200:
        await asyncio.sleep(0)
        begun.append(len(seen))

    assert max(after - before for before, after in pairwise(begun)) < 20


async def test_clients_that_leave_between_the_queue_and_the_work_leave_no_place_occupied() -> None:
    options = ConnectionOptions(max_requests_in_flight=20, queue=100)
    seen: list[str] = []
    is_over = asyncio.Event()

    async def handler(exchange: Exchange) -> Answer:
        seen.append(exchange.request.path)
        await is_over.wait()
        return Body()

    state = build_state(App(handler), ServerSettings(connection_options=options))
    peers = [Peer(state) for _ in range(60)]
    for peer in peers:
        peer.send(build_request("GET", "/a"))
    while len(seen) < 20 or state.exchanges.count_room() > 60:  # noqa: ASYNC110
        await asyncio.sleep(0)
    is_over.set()
    while len(seen) == 20:  # noqa: ASYNC110
        await asyncio.sleep(0)
    for peer in peers:
        peer.leave()
    while state.exchanges.tasks:  # noqa: ASYNC110
        await asyncio.sleep(0)

    assert len(seen) < 40  # some had a place, and had not begun
    assert state.exchanges.count_room() == 120


async def test_the_second_wait_of_a_request_ends_with_its_patience() -> None:
    options = ConnectionOptions(max_requests_in_flight=1, queue=10)
    settings = ServerSettings(connection_options=options)
    is_over, is_inside = asyncio.Event(), asyncio.Event()
    patience = Patience(0.0)

    async def handler(exchange: Exchange) -> Answer:
        if exchange.request.method == "POST":
            exchange.deadline = Deadline(patience=patience)
            return await _read(exchange)
        is_inside.set()
        await is_over.wait()
        return Body()

    state = build_state(App(handler), settings)
    sender, other = Peer(state), Peer(state)
    sender.send(build_request("POST", content_length="3"))
    other.send(build_request("GET"))
    await is_inside.wait()  # the sender has released its place
    sender.send(b"abc")

    answer = await sender.read()  # a bound of the queue alone would be none

    assert orjson.loads(answer.body)["code"] == "overloaded"
    assert patience.left < 0
    is_over.set()
    assert (await other.read()).status == 200


async def test_each_request_of_a_proxy_has_its_own_caller_scheme_and_host() -> None:
    seen = []

    async def answer(exchange: Exchange) -> Answer:
        connection = exchange.request.connection
        seen.append((connection.client, connection.scheme, connection.host))
        return Body()

    settings = ServerSettings(core=Core(trusted_proxies=("127.0.0.1",)))
    peer = Peer(build_state(App(answer), settings))
    for address, scheme, host in (
        ("10.0.0.1", "https", "a.example"),
        ("10.0.0.2", "http", "b.example"),
        ("10.0.0.1", "https", "a.example"),
    ):
        fields = {"x_forwarded_for": address, "x_forwarded_proto": scheme}
        await peer.ask(build_request("GET", x_forwarded_host=host, **fields))
    await peer.ask(build_request("GET"))
    peer.leave()

    first, second = (("10.0.0.1", 0), "https", "a.example"), (("10.0.0.2", 0), "http", "b.example")
    assert seen == [first, second, first, (("127.0.0.1", 123), "http", None)]
