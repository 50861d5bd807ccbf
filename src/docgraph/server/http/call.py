"""One request on a connection, and the framing of its response.

A call decides how a response is framed and whether the connection can be reused after it; the
connection decides in which order calls are answered, and when it ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any, Protocol

from docgraph.exchange import Connection, Exchange, Headers, Socket
from docgraph.observe.tracing import RequestTrace
from docgraph.server.http.framing import RequestHead
from docgraph.server.http.message_bodies import IncomingBody
from docgraph.server.respond import Head, phrase_of

SWITCHING = 101
_BODILESS = frozenset((204, 304))
_COPIED = 64 * 1024  # up to this size one write is cheaper than avoiding a copy
_STATUS_LINES = {
    status: f"HTTP/1.1 {status} {phrase_of(status)}\r\n".encode() for status in range(100, 600)
}
_CHUNKED = b"Transfer-Encoding: chunked\r\n"
_CLOSE = b"Connection: close\r\n"


class OpenSocket(Socket, Protocol):
    """A WebSocket, as the server sees it."""

    async def fail(self) -> None:
        """Close the WebSocket because the service failed."""


class CurrentDate(Protocol):
    """What all connections share, as a call sees it."""

    date: bytes  # the line of the date


class Wire(Protocol):
    """The connection, as a call sees it."""

    connection: Connection
    is_for_probes: bool
    address: str
    is_proxied: bool  # the peer is a trusted proxy: each request may be of another client
    admitted: Headers | None  # fields whose host was checked; those of another request are others

    @property
    def is_writable(self) -> bool:
        """Whether the peer reads as fast as we write."""

    @property
    def state(self) -> CurrentDate:
        """What all connections share."""

    def write(self, data: bytes) -> None:
        """Send; the transport buffers what the peer does not read."""

    async def wait_writable(self) -> None:
        """Wait until the peer has read most of what was written."""

    def on_response_complete(self, call: HttpCall) -> None:
        """Continue after the response is completely written."""

    def open_socket(self, call: HttpCall, head: Head) -> OpenSocket:
        """Switch to WebSocket."""

    def cut(self) -> None:
        """End the connection: a response on it is incomplete."""


class HttpCall:
    """A request as the connection read it, and its state so far, for the log."""

    task: asyncio.Task[Any] | None = None
    exchange: Exchange | None = None  # while it is answered
    has_place = False  # among the requests in flight
    status = 0  # nothing was sent yet
    sent = 0  # bytes of content
    error = ""  # the code of a rejection here
    is_aborted = False  # the client disconnected before the response was sent
    is_answered = False
    is_refused = False  # it exceeded the limit
    is_endless = False
    is_bounded = False  # the response is buffered for a slow client
    id_lines: list[bytes]  # of the response: the request id, and what continues a trace
    trace: RequestTrace | None = None
    on_stream: Callable[[], None] | None = None  # called when the response is a stream
    on_stop: Callable[[], None] | None = None  # ends a stream cleanly when the server stops
    _is_bodiless = False  # the response has no content in any case
    _chunked = False
    _left: int | None = None  # bytes of content that remain
    _over: asyncio.Event | None = None  # created by the first waiter

    def __init__(
        self,
        wire: Wire,
        request: RequestHead,
        headers: Headers,
        incoming: IncomingBody | None,
        *,
        keep_alive: bool,
        is_handshake: bool = False,
    ) -> None:
        self.wire = wire
        self.request = request
        self.headers = headers
        self.incoming = incoming  # None: there is no body
        self.keep_alive = keep_alive
        self.is_handshake = is_handshake  # of a WebSocket

    def send(self, head: Head, content: bytes) -> None:
        if self.is_aborted:
            return
        parts = self._start(head)
        self.sent = len(content)
        if content and len(content) <= _COPIED:
            parts.append(content)
        self.wire.write(b"".join(parts))
        if len(content) > _COPIED:
            self.wire.write(content)
        self._complete()

    async def send_stream(self, head: Head, chunks: AsyncIterator[bytes]) -> None:
        """Send a response in parts, each as it arrives."""
        await self.begin(head)
        async for chunk in chunks:
            await self.send_part(chunk)
        await self.end()

    async def begin(self, head: Head) -> None:
        """Send the head alone: a stream may be silent for long, but is open from now on."""
        if not self.wire.is_writable:
            await self.wire.wait_writable()
        if not self.is_aborted:
            self.wire.write(b"".join(self._start(head)))

    async def send_part(self, data: bytes) -> None:
        if not self.wire.is_writable and not self.is_bounded:
            await self.wire.wait_writable()
        if self.is_aborted or self._is_bodiless or not data:
            return
        if self._left is not None:
            self._left -= len(data)
            if self._left < 0:
                raise RuntimeError("the content is longer than announced")
        self.sent += len(data)
        if not self._chunked:
            self.wire.write(data)
        elif len(data) <= _COPIED:
            self.wire.write(b"%x\r\n%s\r\n" % (len(data), data))
        else:  # it is not copied: the events of a stream are the same bytes for all its clients
            for part in (b"%x\r\n" % len(data), data, b"\r\n"):
                self.wire.write(part)

    async def end(self) -> None:
        if self._left:
            raise RuntimeError("the content is shorter than announced")
        if not self.is_aborted and not self.is_answered:
            if self._chunked:
                self.wire.write(b"0\r\n\r\n")
            self._complete()

    def open_socket(self, head: Head) -> OpenSocket:
        self.status = SWITCHING
        self.is_answered = True
        if self.on_stream is not None:
            self.on_stream()
        return self.wire.open_socket(self, head)

    def _start(self, head: Head) -> list[bytes]:
        if self.status:
            raise RuntimeError("a request has one response")
        self.status = head.status
        self.is_endless, self.is_bounded = head.is_endless, head.is_bounded
        if self.is_endless and self.on_stream is not None:
            self.on_stream()
        incoming, request = self.incoming, self.request
        if incoming is not None and not incoming.is_complete:
            self.keep_alive = self.keep_alive and incoming.is_drainable
            incoming.expects_continue = False
        if head.closes:
            self.keep_alive = False
        lines = [_STATUS_LINES[head.status], self.wire.state.date, *head.lines]
        if request.method == "HEAD" or head.status in _BODILESS:
            self._is_bodiless = True
        elif head.length is not None:
            self._left = head.length
        elif request.version == "1.1":
            self._chunked = True
            lines.append(_CHUNKED)
        else:
            self.keep_alive = False  # the end of the connection is the end of the content
        if not self.keep_alive:
            lines.append(_CLOSE)
        lines.append(b"\r\n")
        return lines

    def _complete(self) -> None:
        self.is_answered = True
        if self.incoming is not None and not self.incoming.is_complete:
            self.incoming.drop()
        if self._over is not None:
            self._over.set()
        self.wire.on_response_complete(self)

    async def wait_end(self) -> None:
        """Wait until the response is complete or the client has disconnected."""
        if self._over is None:
            self._over = asyncio.Event()
        if not self.is_answered and not self.is_aborted:
            await self._over.wait()

    def close(self) -> None:
        """End the call: an incomplete response must not look complete."""
        if not self.is_answered and not self.is_aborted:
            self.wire.cut()

    def stop(self) -> None:
        """End a stream because the server stops: cleanly if it can be, else by a cut."""
        self.keep_alive = False
        if self.on_stop is None:
            self.wire.cut()
        else:
            self.on_stop()

    def abandon(self) -> None:
        """Cancel the work: the client has disconnected."""
        if self.incoming is not None:
            self.incoming.drop()
        if not self.is_answered:
            self.is_aborted = True
            if self._over is not None:
                self._over.set()
            if self.task is not None:
                self.task.cancel()


def render_head(head: Head, date: bytes) -> bytes:
    """Return the head of a response that ends the connection."""
    return b"".join((_STATUS_LINES[head.status], date, *head.lines, _CLOSE, b"\r\n"))
