"""One request and its response on a connection: uvicorn's cycle, with an end to waiting.

Beside what uvicorn does, a cycle knows its task (a client that leaves ends the work for it), can
fail a body that is late or broken, and decides whether the connection can be used again when a
body was not read to its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.httptools_impl import (
    STATUS_LINE,
    HttpToolsProtocol,
    RequestResponseCycle,
)

from docgraph.exchange import DocgraphError
from docgraph.server.http.before.cors import RawHeaders
from docgraph.server.http.framing import Head

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveEvent, ASGISendEvent

__all__ = ["DRAINABLE", "Cycle", "Outlet", "build_scope"]

# So much of an unread body is read and thrown away to keep the connection, or to let the client
# see the answer before it is closed.
DRAINABLE = 64 * 1024

_BODILESS = (204, 304)
_COPIED = 64 * 1024  # up to this size one write is cheaper than one copy less


def build_scope(
    connection: HttpToolsProtocol, method: str, version: str, head: Head
) -> dict[str, Any]:
    """The ASGI scope of a request."""
    return {
        "type": "http",
        "asgi": {"version": connection.asgi_version, "spec_version": "2.3"},
        "http_version": version,
        "server": connection.server,
        "client": connection.client,
        "scheme": connection.scheme,
        "method": method,
        "root_path": "",
        "path": "",  # made from the raw one where it is needed
        "raw_path": head.path,
        "query_string": head.query,
        "headers": connection.headers,
        "state": connection.app_state,
    }


class Outlet:
    """What a cycle sees of the transport: it does not close it, it says that it is done."""

    __slots__ = ("close", "is_closing", "write")

    def __init__(self, transport: asyncio.Transport, close: Callable[[], None]) -> None:
        self.write = transport.write
        self.is_closing = transport.is_closing
        self.close = close


class Cycle(RequestResponseCycle):
    """`length` is the announced size of the body, None when it comes in chunks."""

    def __init__(
        self, length: int | None, await_body: Callable[[Cycle], None], **given: Any
    ) -> None:
        super().__init__(**given)
        self.length = length
        self.received = 0
        self.failure: DocgraphError | None = None
        self.task: asyncio.Task[None] | None = None
        self._await_body = await_body
        self.is_endless = False  # server-sent events: shutdown does not wait for their end
        self._head = b""  # rendered, but not sent yet
        self._is_bodiless = False

    @property
    def is_drainable(self) -> bool:
        """Whether the rest of the body is known, short, and on its way."""
        return (
            self.length is not None
            and self.length - self.received <= DRAINABLE
            and not self.waiting_for_100_continue
            and self.failure is None
        )

    def fail(self, error: DocgraphError) -> None:
        """Let the body end with an error: its reader will raise it."""
        self.failure = error
        self.keep_alive = False
        self.message_event.set()

    def abandon(self) -> None:
        """The client is gone: end the work for it."""
        self.disconnected = True
        self.message_event.set()
        if self.task is not None and not self.response_complete:
            self.task.cancel()

    async def receive(self) -> ASGIReceiveEvent:
        """The next part of the body; raises when it is late, broken or too large."""
        if self.more_body and not self.response_complete:
            self._await_body(self)
        if self.failure is None:
            message = await super().receive()
            if self.failure is None:
                return message
        raise self.failure

    async def send(self, message: ASGISendEvent) -> None:
        """A part of the response.

        In place of uvicorn's: a head whose body follows at once goes out in one write with it, and
        is checked as a whole, which costs half as much.
        """
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if self.disconnected:
            return
        if not self.response_started and message["type"] == "http.response.start":
            self._start(message["status"], list(message.get("headers", ())))
        elif self.response_started and message["type"] == "http.response.body":
            self._continue(message.get("body", b""), last=not message.get("more_body", False))
        else:
            raise RuntimeError(f"{message['type']} at the wrong time")

    def _start(self, status: int, headers: RawHeaders) -> None:
        if self.more_body and not self.is_drainable:
            self.keep_alive = False
        self.response_started = True
        self.waiting_for_100_continue = False
        for name, value in headers:
            if name == b"content-length":
                self.chunked_encoding, self.expected_content_length = False, int(value)
            elif name == b"connection" and value.lower() == b"close":
                self.keep_alive = False
            elif name == b"content-type":
                self.is_endless = value.startswith(b"text/event-stream")
        self._is_bodiless = self.scope["method"] == "HEAD" or status in _BODILESS
        if self.chunked_encoding is None and not self._is_bodiless:
            self.chunked_encoding = True
            headers.append((b"transfer-encoding", b"chunked"))
        if not self.keep_alive and (b"connection", b"close") not in headers:
            headers.append((b"connection", b"close"))
        self._head = _render_head(status, self.default_headers + headers)
        if self.chunked_encoding:  # a stream may be silent for long, but is open from now on
            self.transport.write(self._head)
            self._head = b""

    def _continue(self, body: bytes, *, last: bool) -> None:
        if self.response_complete:
            raise RuntimeError("a response has one end")
        parts = [self._head]
        self._head = b""
        if self._is_bodiless:
            self.expected_content_length = 0
        elif self.chunked_encoding:
            if body:
                parts += (b"%x\r\n" % len(body), body, b"\r\n")
            if last:
                parts.append(b"0\r\n\r\n")
        else:
            self.expected_content_length -= len(body)
            parts.append(body)
        if last and self.expected_content_length != 0:
            raise RuntimeError("the content does not have its announced length")
        if len(body) > _COPIED:
            for part in parts:
                self.transport.write(part)
        else:
            self.transport.write(b"".join(parts))
        if last:
            self._complete()

    def _complete(self) -> None:
        self.response_complete = True
        self.message_event.set()
        if not self.keep_alive:
            self.transport.close()
        self.on_response()


def _render_head(status: int, headers: RawHeaders) -> bytes:
    head = b"".join((STATUS_LINE[status], *[b"%s: %s\r\n" % one for one in headers], b"\r\n"))
    # a line break in a header would let its author write headers, or a second response
    if head.count(b"\n") != len(headers) + 2 or head.count(b"\r") != len(headers) + 2:
        raise RuntimeError("a response header has a line break")
    return head
