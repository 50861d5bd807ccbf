"""How one request is answered: ASGI messages for HTTP responses and for WebSockets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import unquote_to_bytes

from docgraph.exchange import Takeover, Upgrade
from docgraph.exchange.errors import NotSupported
from docgraph.server.http.before.cors import RawHeaders
from docgraph.server.http.before.respond import Head
from docgraph.server.http.handshake import UpgradeRequired

__all__ = ["Channel", "HttpChannel", "Message", "Outcome", "Receive", "Scope", "Send", "WsChannel"]

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
AddHeaders = Callable[[RawHeaders], RawHeaders]

_NORMAL_CLOSURE, _INTERNAL_ERROR = 1000, 1011  # RFC 6455 7.4.1


@dataclass(slots=True)
class Outcome:
    """What becomes of one request, for its line in the log; status 0: nothing went out yet."""

    status: int = 0
    bytes_out: int = 0
    error: str = ""
    aborted: bool = False


class Channel(Protocol):
    """Sends the answer to one request.

    `add_common_headers` adds to given headers those that all responses have.
    """

    outcome: Outcome

    async def send_body(self, head: Head, content: bytes) -> None:
        """A complete response."""

    async def send_stream(self, head: Head, chunks: AsyncIterator[bytes]) -> None:
        """A response in parts, each sent as it comes."""

    async def upgrade(self, answer: Upgrade, add_common_headers: AddHeaders) -> None:
        """Accept the WebSocket, and let its handler have it."""

    async def take_over(self, answer: Takeover, add_common_headers: AddHeaders) -> None:
        """Leave the rest to another ASGI application."""


@dataclass(slots=True)
class _Responses:
    """Responses in ASGI messages; for a refused WebSocket they have names of their own."""

    scope: Scope
    receive: Receive
    send: Send
    outcome: Outcome = field(default_factory=Outcome)
    types: tuple[str, str] = ("http.response.start", "http.response.body")

    async def send_body(self, head: Head, content: bytes) -> None:
        self.outcome.status = head.status
        self.outcome.bytes_out = len(content)
        start, body = self.types
        await self.send({"type": start, "status": head.status, "headers": head.headers})
        await self.send({"type": body, "body": content, "more_body": False})

    async def send_stream(self, head: Head, chunks: AsyncIterator[bytes]) -> None:
        self.outcome.status = head.status
        start, body = self.types
        await self.send({"type": start, "status": head.status, "headers": head.headers})
        async for chunk in chunks:
            self.outcome.bytes_out += len(chunk)
            await self.send({"type": body, "body": chunk, "more_body": True})
        await self.send({"type": body, "body": b"", "more_body": False})


class HttpChannel(_Responses):
    """Answers an HTTP request."""

    async def upgrade(self, answer: Upgrade, add_common_headers: AddHeaders) -> None:
        raise UpgradeRequired("this resource speaks WebSocket", headers=[("Upgrade", "websocket")])

    async def take_over(self, answer: Takeover, add_common_headers: AddHeaders) -> None:
        scope = {
            **self.scope,
            "path": unquote_to_bytes(self.scope["raw_path"]).decode("utf-8", "replace"),
            **answer.scope,
        }

        async def send(message: Message) -> None:
            if message["type"] == "http.response.start":
                self.outcome.status = message["status"]
                message = {
                    **message,
                    "headers": add_common_headers(list(message.get("headers", ()))),
                }
            elif message["type"] == "http.response.body":
                self.outcome.bytes_out += len(message.get("body", b""))
            await self.send(message)

        await answer.application(scope, self.receive, send)


class WsChannel(_Responses):
    """Answers a WebSocket handshake: with a refusal like any response, or with the socket."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        super().__init__(
            scope,
            receive,
            send,
            types=("websocket.http.response.start", "websocket.http.response.body"),
        )

    async def upgrade(self, answer: Upgrade, add_common_headers: AddHeaders) -> None:
        await self.send({"type": "websocket.accept", "headers": add_common_headers([])})
        self.outcome.status = answer.status
        socket = _Socket(self.receive, self.send, self.outcome)
        try:
            await answer.handler(socket)
        except ConnectionError:
            raise
        except Exception:
            await socket.close(_INTERNAL_ERROR, "internal error")
            raise
        await socket.close(_NORMAL_CLOSURE)

    async def take_over(self, answer: Takeover, add_common_headers: AddHeaders) -> None:
        raise NotSupported("this resource does not speak WebSocket")


class _Socket:
    """`exchange.Socket` in ASGI messages; sending to a peer that is gone raises ConnectionError."""

    __slots__ = ("_open", "_outcome", "_receive", "_send")

    def __init__(self, receive: Receive, send: Send, outcome: Outcome) -> None:
        self._receive = receive
        self._send = send
        self._outcome = outcome
        self._open = True

    async def send(self, text: str) -> None:
        if not self._open:
            raise ConnectionResetError("the WebSocket is closed")
        await self._pass({"type": "websocket.send", "text": text})
        self._outcome.bytes_out += len(text)

    async def receive(self) -> str | bytes | None:
        if not self._open:
            return None
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            self._open = False
            return None
        text: str | None = message.get("text")
        return text if text is not None else bytes(message["bytes"])

    async def close(self, code: int = _NORMAL_CLOSURE, reason: str = "") -> None:
        if self._open:
            self._open = False
            await self._pass({"type": "websocket.close", "code": code, "reason": reason})

    async def _pass(self, message: Message) -> None:
        try:
            await self._send(message)
        except OSError as gone:  # what uvicorn raises when the peer has left
            self._open = False
            raise ConnectionResetError("the peer of the WebSocket is gone") from gone
