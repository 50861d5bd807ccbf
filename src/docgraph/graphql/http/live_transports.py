"""Transports of live queries: server-sent events, and WebSocket (`graphql-transport-ws`).

GraphQL over SSE has one operation per request (distinct connections mode), a WebSocket several.
Its client has to begin with `connection_init`, whose payload may have credentials if the handshake
had none. Each `subscribe` is authorized as a POST to the app. Queries without `@live` have one
answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import Any, Final, Protocol

import msgspec

from docgraph.exchange import DocgraphError, Exchange, Request, Socket
from docgraph.exchange.close_reason import (
    FAILED,
    LEFT,
    NOT_KNOWN,
    STOPPED,
    CloseReason,
    MessageLimit,
    StreamClosed,
)
from docgraph.exchange.errors import Forbidden, NotFound, TooManyRequests, Unauthenticated
from docgraph.exchange.headers import find_acceptance
from docgraph.graphql.errors import Classification, GraphqlError
from docgraph.graphql.http.response_shape import JSON_TYPES, list_errors
from docgraph.graphql.live.live_query import LiveQuery, find_ending
from docgraph.observe import emit
from docgraph.observe.events import UnattendedFailed
from docgraph.runtime import allocations, cancel_until_over

EVENTS: Final = "text/event-stream"
_HEARTBEAT: Final = b":\n\n"
_COMPLETE: Final = b"event:complete\ndata:\n\n"
_CODES: Final = {"rights": Forbidden.code, "credentials": Unauthenticated.code}
_SILENT: Final = (LEFT, STOPPED)  # a client that gets no `complete` connects again


def wants_events(exchange: Exchange) -> bool:
    """Return whether the caller prefers server-sent events to JSON."""
    accepted = exchange.request.headers.get_list("accept")
    return bool(accepted) and find_acceptance(accepted, EVENTS, JSON_TYPES).is_preferred


class LiveEvents(AsyncIterator[bytes]):
    """The events of one live query, with a comment after each interval without events."""

    def __init__(self, query: LiveQuery, heartbeat: float) -> None:
        self._query = query
        self._heartbeat = heartbeat
        self._is_over = False

    async def __anext__(self) -> bytes:
        if self._is_over:
            raise StopAsyncIteration
        try:
            async with asyncio.timeout(self._heartbeat):
                return _render_next(await self._query.read())
        except TimeoutError:
            return _HEARTBEAT
        except StreamClosed as ended:
            self._is_over = True
            if ended.ending in _SILENT:
                raise StopAsyncIteration from None
            errors = render_ending(ended.ending, self._query.error)
            return _render_next(b'{"errors":%s}' % errors) + _COMPLETE

    def stop(self) -> None:
        """End the stream because the server stops."""
        self._query.end(STOPPED)


async def send_once(content: bytes) -> AsyncIterator[bytes]:
    """Yield the events of an operation that has one answer."""
    yield _render_next(content) + _COMPLETE


def render_ending(ending: CloseReason, error: DocgraphError | None) -> bytes:
    """Return the list of errors that says why a live query has ended."""
    if error is not None and not isinstance(error, Unauthenticated | Forbidden):
        return allocations.dumps(list_errors(error))
    code = _CODES.get(ending.word, "live-ended")
    return allocations.dumps([GraphqlError(ending.reason, Classification.ABORTED, code).as_dict()])


def _render_next(content: bytes) -> bytes:
    return b"event:next\ndata:%s\n\n" % content


PROTOCOL: Final = "graphql-transport-ws"
MAX_ID: Final = 200  # characters

# The close codes that the protocol defines.
INVALID = CloseReason(4400, "Invalid message", "messages")
NOT_INITIALIZED = CloseReason(4401, "Unauthorized", "credentials")
REJECTED = CloseReason(4403, "Forbidden", "rights")
INIT_TIMEOUT = CloseReason(4408, "Connection initialisation timeout", "messages")
INIT_TWICE = CloseReason(4429, "Too many initialisation requests", "messages")

ACK: Final = '{"type":"connection_ack"}'
PONG: Final = '{"type":"pong"}'


class ClientMessage(msgspec.Struct):
    """A message of the client; the payload stays text, so that its numbers keep their precision."""

    type: str
    id: str | None = None
    payload: msgspec.Raw = msgspec.Raw()  # empty: there is none


_decoder = msgspec.json.Decoder(ClientMessage)


def decode_message(text: str | bytes) -> ClientMessage | None:
    """Return the message; None if the protocol does not have it."""
    try:
        message = _decoder.decode(text) if isinstance(text, str) else None
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return None
    if message is None or not (message.id is None or 0 < len(message.id) <= MAX_ID):
        return None
    needs_id = message.type in {"subscribe", "complete"}
    return None if needs_id and message.id is None else message


def decode_payload(payload: msgspec.Raw) -> dict[str, Any]:
    """Return the payload of `connection_init`; empty if it is no object."""
    try:
        value = msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def find_authorization(payload: dict[str, Any]) -> bytes | None:
    """Return the credentials in `connection_init`: what a header `Authorization` would have."""
    values = [value for name, value in payload.items() if name.lower() == "authorization"]
    if len(values) != 1 or not isinstance(values[0], str) or not values[0].isascii():
        return None
    text = values[0].strip()
    return text.encode() if text and text.isprintable() else None


def render_content(kind: str, id: str, content: bytes = b"") -> str:
    """Return a message of the server about one operation."""
    head = f'{{"id":{msgspec.json.encode(id).decode()},"type":"{kind}"'
    return f'{head},"payload":{content.decode()}}}' if content else f"{head}}}"


def is_live_handshake(request: Request) -> bool:
    """Return whether a request opens a WebSocket with this protocol."""
    if request.method != "GET" or not request.connection.is_websocket:
        return False
    offered = ",".join(request.headers.get_list("sec-websocket-protocol"))
    return PROTOCOL in [name.strip() for name in offered.split(",")]


_INIT_SECONDS: Final = 10.0
_MAX_OPERATIONS: Final = 20
_TRY_AGAIN: Final = 1013  # clients connect again after it
_MAX_MESSAGES: Final = 600  # per minute


class SocketHost(Protocol):
    """The part of the endpoint that a connection uses."""

    async def connect(
        self, client: LiveSocket, exchange: Exchange, authorization: bytes | None
    ) -> Exchange:
        """Return the exchange of an initialized connection; raise its rejection."""

    async def open_operation(
        self, exchange: Exchange, payload: bytes
    ) -> tuple[bytes | None, LiveQuery | None]:
        """Run an operation; return its one answer, or the live query."""

    def close_query(self, query: LiveQuery, reason: str) -> None:
        """Release a live query that has ended."""


class LiveSocket:
    """One connection."""

    def __init__(self, host: SocketHost, exchange: Exchange) -> None:
        self.ending: CloseReason | None = None
        self.queries: dict[str, LiveQuery] = {}
        self.closers: list[Callable[[], None]] = []  # called at the end
        self._host = host
        self._exchange = exchange
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._messages: deque[str] = deque()
        self._wake = asyncio.Event()
        self._listening: asyncio.Task[None] | None = None
        self._is_initialized = False

    async def serve(self, socket: Socket) -> None:
        """Serve the connection until one side ends it."""
        socket.count_frame = MessageLimit(_MAX_MESSAGES, self.end)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(_INIT_SECONDS, self._check_initialized)
        listening = self._listening = asyncio.create_task(self._listen(socket), name="live socket")
        try:
            await self._send(socket)
        finally:
            timer.cancel()
            await cancel_until_over({listening, *self._tasks.values()})
            for id in tuple(self.queries):
                self._remove(id, "left" if self.ending is None else self.ending.word)
            for close in self.closers:
                close()

    def end(self, ending: CloseReason) -> None:
        if self.ending is None:
            self.ending = ending
            self._wake.set()
            if self._listening is not None:
                self._listening.cancel()

    async def _send(self, socket: Socket) -> None:
        """Send the pending messages; of each query only the newest answer."""
        while self.ending is None:
            self._wake.clear()
            while self._messages and self.ending is None:
                await socket.send(self._messages.popleft())
            for id, query in tuple(self.queries.items()):
                content = query.pop()
                if content is not None:
                    await socket.send(render_content("next", id, content))
                elif query.ending is NOT_KNOWN:
                    self.end(NOT_KNOWN)
                elif query.ending is not None and self.queries.get(id) is query:
                    self._remove(id, query.ending.word)
                    ending = render_ending(query.ending, query.error)
                    self._push(render_content("error", id, ending))
            if not self._wake.is_set():
                await self._wake.wait()
        await socket.close(self.ending.code, self.ending.reason)

    def _push(self, message: str) -> None:
        self._messages.append(message)
        self._wake.set()

    async def _listen(self, socket: Socket) -> None:
        """Handle the messages of the client.

        It is cancelled when the connection is ended. It then closes the socket, because a peer that
        does not read blocks the other task.
        """
        try:
            while (text := await socket.receive()) is not None:
                message = decode_message(text)
                if message is None:
                    self.end(INVALID)
                    return
                await self._handle(message)
            self.end(LEFT)
        except Exception as error:
            emit(UnattendedFailed("a connection with live queries", error))
            self.end(FAILED)
        finally:
            if self.ending is not None:
                await socket.close(self.ending.code, self.ending.reason)

    async def _handle(self, message: ClientMessage) -> None:
        match message.type:
            case "connection_init":
                await self._initialize(message)
            case "ping":
                self._push(PONG)
            case "pong":
                pass
            case "subscribe":
                self._subscribe(message)
            case "complete":
                await self._complete(message.id or "")
            case _:
                self.end(INVALID)

    async def _initialize(self, message: ClientMessage) -> None:
        if self._is_initialized:
            self.end(INIT_TWICE)
            return
        self._is_initialized = True
        authorization = find_authorization(decode_payload(message.payload))
        try:
            self._exchange = await self._host.connect(self, self._exchange, authorization)
        except DocgraphError as error:
            if isinstance(error, Unauthenticated | Forbidden | NotFound):
                self.end(REJECTED)
            else:
                self.end(CloseReason(_TRY_AGAIN, error.message[:100], "failed"))
            return
        self._push(ACK)

    def _check_initialized(self) -> None:
        if not self._is_initialized:
            self.end(INIT_TIMEOUT)

    def _subscribe(self, message: ClientMessage) -> None:
        id = message.id or ""
        if not self._is_initialized:
            self.end(NOT_INITIALIZED)
        elif id in self._tasks or id in self.queries:
            self.end(CloseReason(4409, f"Subscriber for {id[:40]} already exists", "messages"))
        elif not bytes(message.payload).startswith(b"{"):
            self.end(INVALID)
        elif len(self._tasks.keys() | self.queries.keys()) >= _MAX_OPERATIONS:
            error = TooManyRequests(
                f"this connection has too many operations, {_MAX_OPERATIONS} of them",
                hint="complete one of them first",
            )
            self._push(render_content("error", id, allocations.dumps(list_errors(error))))
        else:
            work = self._operate(id, bytes(message.payload))
            self._tasks[id] = asyncio.create_task(work, name="live operation")

    async def _operate(self, id: str, payload: bytes) -> None:
        """Begin an operation; the client may complete it meanwhile, which cancels this."""
        try:
            content, query = await self._host.open_operation(self._exchange, payload)
        except DocgraphError as error:
            shown = render_ending(find_ending(error), error)
            self._push(render_content("error", id, shown))
        except Exception as error:
            emit(UnattendedFailed("an operation of a connection", error))
            self._push(render_content("error", id, render_ending(FAILED, None)))
        else:
            if query is not None:
                self.queries[id] = query
                query.on_news = self._wake.set
                self._wake.set()
            else:
                self._push(render_content("next", id, content or b"{}"))
                self._push(render_content("complete", id))
        finally:
            self._tasks.pop(id, None)

    async def _complete(self, id: str) -> None:
        task = self._tasks.pop(id, None)  # not by the task: it may be cancelled before it begins
        if task is not None:
            await cancel_until_over({task})
        self._remove(id, "left")

    def _remove(self, id: str, reason: str) -> None:
        query = self.queries.pop(id, None)
        if query is not None:
            self._host.close_query(query, reason)
