"""Live queries over WebSocket: several operations per connection (`graphql-transport-ws`).

The client has to begin with `connection_init`, whose payload may have credentials if the handshake
had none. Each `subscribe` is authorized as a POST to the app. Queries without `@live` have one
answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

import orjson

from docgraph.exchange import DocgraphError, Exchange, Socket
from docgraph.exchange.close_reason import FAILED, LEFT, NOT_KNOWN, CloseReason, MessageLimit
from docgraph.exchange.errors import Forbidden, NotFound, TooManyRequests, Unauthenticated
from docgraph.graphql.http.live_events import render_ending
from docgraph.graphql.http.live_messages import (
    ACK,
    INIT_TIMEOUT,
    INIT_TWICE,
    INVALID,
    NOT_INITIALIZED,
    PONG,
    REJECTED,
    ClientMessage,
    decode_message,
    decode_payload,
    exists_already,
    find_authorization,
    render_content,
)
from docgraph.graphql.http.response_shape import list_errors
from docgraph.graphql.live.live_query import LiveQuery, find_ending
from docgraph.observe import emit
from docgraph.observe.events import UnattendedFailed
from docgraph.runtime import cancel_until_over

_INIT_SECONDS: Final = 10.0
_MAX_OPERATIONS: Final = 20
_TRY_AGAIN: Final = 1013  # clients connect again after it
_MAX_MESSAGES: Final = 600  # per minute


class SocketHost(Protocol):
    """What a connection needs of the endpoint."""

    async def connect(
        self, client: LiveSocket, exchange: Exchange, authorization: bytes | None
    ) -> Exchange:
        """Return the exchange of an initialized connection; raise its rejection."""
        ...

    async def open_operation(
        self, exchange: Exchange, payload: bytes
    ) -> tuple[bytes | None, LiveQuery | None]:
        """Run an operation; return its one answer, or the live query."""
        ...

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
        """End the connection, with the reason."""
        if self.ending is None:
            self.ending = ending
            self._wake.set()
            if self._listening is not None:
                self._listening.cancel()

    # --- out --------------------------------------------------------------------------------------

    async def _send(self, socket: Socket) -> None:
        """Send what there is, of each query only the newest answer."""
        while self.ending is None:
            self._wake.clear()
            while self._messages and self.ending is None:
                await socket.send(self._messages.popleft())
            for id, query in tuple(self.queries.items()):
                await self._send_news(socket, id, query)
            if not self._wake.is_set():
                await self._wake.wait()
        await socket.close(self.ending.code, self.ending.reason)

    async def _send_news(self, socket: Socket, id: str, query: LiveQuery) -> None:
        content = query.pop()
        if content is not None:
            await socket.send(render_content("next", id, content))
        elif query.ending is NOT_KNOWN:
            self.end(NOT_KNOWN)
        elif query.ending is not None and self.queries.get(id) is query:
            self._remove(id, query.ending.word)
            self._push(render_content("error", id, render_ending(query.ending, query.error)))

    def _push(self, message: str) -> None:
        self._messages.append(message)
        self._wake.set()

    # --- in ---------------------------------------------------------------------------------------

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
            self.end(_find_rejection(error))
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
            self.end(exists_already(id))
        elif not bytes(message.payload).startswith(b"{"):
            self.end(INVALID)
        elif len(self._tasks.keys() | self.queries.keys()) >= _MAX_OPERATIONS:
            error = TooManyRequests(
                f"this connection has too many operations, {_MAX_OPERATIONS} of them",
                hint="complete one of them first",
            )
            self._push(render_content("error", id, orjson.dumps(list_errors(error))))
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


def _find_rejection(error: DocgraphError) -> CloseReason:
    """Return how a connection is closed whose initialization is rejected."""
    if isinstance(error, Unauthenticated | Forbidden | NotFound):
        return REJECTED
    return CloseReason(_TRY_AGAIN, error.message[:100], "failed")
