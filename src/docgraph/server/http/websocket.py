"""WebSocket connections: frames by `wsproto`, with a timeout for every wait.

A WebSocket replaces the HTTP protocol on a connection whose handshake was accepted, and is the
`Socket` that a service uses. There is no timer per socket: pings and their timeouts are checked
when the process sweeps its connections.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf

from wsproto.connection import Connection, ConnectionState, ConnectionType
from wsproto.events import BytesMessage, CloseConnection, Event, Message, Ping, Pong, TextMessage
from wsproto.utilities import LocalProtocolError, generate_accept_token

from docgraph.exchange import SharedMessages
from docgraph.server.http.call import HttpCall
from docgraph.server.http.deflate import FrameHeaders, MessageDeflate, deflate, negotiate
from docgraph.server.http.state import ProcessState, StallWatch
from docgraph.server.respond import Head

MAX_MESSAGE = 64 * 1024  # bytes of a client's message; more is closed with 1009
PING_INTERVAL = 20.0
PING_TIMEOUT = 20.0
FAREWELL = 5.0  # seconds that a handler has to end after its client
_CLOSING = 10.0  # seconds that a client has to answer a close frame
_TEXT, _COMPRESSED_TEXT = b"\x81", b"\xc1"  # a text message, complete
_LONGEST_SHORT, _LONGEST_MEDIUM = 125, 0xFFFF  # bytes, by the form of their length
NORMAL, TOO_LARGE, INTERNAL_ERROR, RESTART = 1000, 1009, 1011, 1012  # RFC 6455 7.4.1
_TIMEOUT = 3008  # of the registry of close codes


def open_websocket(
    state: ProcessState, transport: asyncio.Transport, call: HttpCall, head: Head
) -> WebSocket:
    """Accept a handshake, and return the protocol that replaces HTTP."""
    key = call.headers.get("sec-websocket-key") or ""  # there is one: it was checked
    is_on = state.limits.websocket_compression
    deflating = negotiate(call.headers.raw, MAX_MESSAGE) if is_on else None
    if not transport.is_closing():
        extensions = b"Sec-WebSocket-Extensions: %s\r\n" % deflating.response if deflating else b""
        transport.write(
            b"".join(
                (
                    b"HTTP/1.1 101 Switching Protocols\r\n",
                    state.date,
                    *head.lines,
                    b"Upgrade: websocket\r\nConnection: Upgrade\r\n",
                    extensions,
                    b"Sec-WebSocket-Accept: %s\r\n\r\n"
                    % generate_accept_token(key.encode("latin-1")),
                )
            )
        )
    return WebSocket(state, transport, call, deflating)


def render_frame(content: bytes, bits: int = 0) -> bytes:
    """Return a server's text message in one frame (RFC 6455 5.2): the same bytes for all peers.

    With the `bits` of a window it is compressed, if that makes it smaller.
    """
    compressed = deflate(content, bits) if bits else None
    first, content = (_TEXT, content) if compressed is None else (_COMPRESSED_TEXT, compressed)
    size = len(content)
    if size <= _LONGEST_SHORT:
        length = bytes((size,))
    elif size <= _LONGEST_MEDIUM:
        length = b"\x7e" + size.to_bytes(2, "big")
    else:
        length = b"\x7f" + size.to_bytes(8, "big")
    return b"".join((first, length, content))


def _render_frames(message: SharedMessages, bits: int) -> bytes:
    """Return the frames of the messages for a window of so many bits; 0: without compression."""
    if not bits:
        message.frames = message.frames or b"".join(map(render_frame, message.contents))
        return message.frames
    frames = message.compressed = message.compressed or {}
    if bits not in frames:
        frames[bits] = b"".join(render_frame(content, bits) for content in message.contents)
    return frames[bits]


class WebSocket(asyncio.Protocol):
    """One open WebSocket; sending to a disconnected peer raises `ConnectionResetError`."""

    def __init__(
        self,
        state: ProcessState,
        transport: asyncio.Transport,
        call: HttpCall,
        deflating: MessageDeflate | None = None,
    ) -> None:
        self.transport = transport
        self.address = call.wire.address
        self._state = state
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._frames = Connection(ConnectionType.SERVER, [deflating] if deflating else [])
        self._window = deflating.bits if deflating else 0
        self._headers = FrameHeaders()
        self.count_frame: Callable[[], tuple[int, str] | None] | None = None
        self._messages: deque[str | bytes] = deque()
        self._parts: list[str | bytes] = []  # of an incomplete message
        self._size = 0  # bytes of these parts
        self._heard = asyncio.Event()  # a message, or the end
        self._writable = asyncio.Event()
        self._writable.set()
        self._is_over = False  # one side has sent a close frame, or disconnected
        self._is_reading = True
        self._stall = StallWatch(transport, state.limits.write_time)
        self._ping_at = self._loop.time() + PING_INTERVAL
        self._pong_by = inf
        self._close_by = inf

    async def send(self, message: str | SharedMessages) -> None:
        while not self._writable.is_set():  # it may be closed again before this task continues
            await self._writable.wait()
        if self._is_over:
            raise ConnectionResetError("the WebSocket is closed")
        if isinstance(message, str):
            self._write(Message(data=message))
            self._call.sent += len(message)
        else:
            self.offer(message)

    def offer(self, message: SharedMessages) -> bool:
        transport = self.transport
        if self._is_over or not self._writable.is_set() or transport.is_closing():
            return False
        transport.write(_render_frames(message, self._window))
        self._call.sent += message.size
        return True

    async def receive(self) -> str | bytes | None:
        while not self._messages:
            if self._is_over:
                return None
            self._heard.clear()
            self._resume_reading()
            await self._heard.wait()
        message = self._messages.popleft()
        if not self._messages:
            self._resume_reading()
        return message

    async def close(self, code: int = NORMAL, reason: str = "") -> None:
        """Send a close frame with a code, and wait for the peer's in the background."""
        if not self._is_over:
            self._end()
            self._write(CloseConnection(code=code, reason=reason))
            self._close_by = self._loop.time() + _CLOSING
            self._writable.set()  # no sender has to wait any longer
            self._resume_reading()

    async def fail(self) -> None:
        await self.close(INTERNAL_ERROR, "internal error")

    def eof_received(self) -> bool:
        """Close the connection when it is its turn: the peer has disconnected."""
        return self._state.close_in_turn(self.transport, self._call.wire.connection)

    def connection_lost(self, exc: Exception | None) -> None:
        """Notify the handler that the peer has disconnected; it has a moment to end by itself."""
        self._state.release(self)
        self._state.exchanges.departures.call(self._notify_handler)

    def _notify_handler(self) -> None:
        self._end()
        self._writable.set()
        task = self._call.task
        if task is not None and not task.done():
            farewell = self._loop.call_later(FAREWELL, task.cancel)
            task.add_done_callback(lambda _: farewell.cancel())

    def data_received(self, data: bytes) -> None:
        """Process frames, or parts of them."""
        try:
            self._frames.receive_data(data)
        except LocalProtocolError:  # something after the close frames of both
            self.transport.close()
            return
        for event in self._frames.events():
            self._handle(event)
            if self.transport.is_closing():
                return
        if self._headers.feed(data) > MAX_MESSAGE:  # by its header: the rest need not arrive
            self._reject_long()

    def pause_writing(self) -> None:
        """Pause: the peer reads more slowly than we write; replies to its pings wait, too."""
        self._writable.clear()
        if not self._is_over:
            self._pause_reading()

    def resume_writing(self) -> None:
        """Resume: the peer has read."""
        self._stall.reset()
        self._writable.set()
        if not self._messages:
            self._resume_reading()

    def shutdown(self) -> None:
        """Send a close frame with "service restart", and close."""
        self._close_at_once(RESTART)

    def sweep(self, now: float) -> None:
        """Ping, and drop a peer that does not read, answer, or close."""
        if self._stall.is_stalled(now):
            self.transport.abort()
        elif now >= self._close_by:
            self._close_by = inf
            self.transport.abort() if self.transport.is_closing() else self._hang_up()
        elif self._is_over or not self._is_reading:
            return  # while reading is paused, a pong cannot be seen
        elif now >= self._pong_by:
            self._close_at_once(_TIMEOUT, "a ping was not answered in time")
        elif now >= self._ping_at:
            self._write(Ping())
            self._ping_at, self._pong_by = inf, now + PING_TIMEOUT

    def _handle(self, event: Event) -> None:
        if isinstance(event, CloseConnection):
            if self._frames.state is ConnectionState.REMOTE_CLOSING:
                self._write(event.response())
            elif self._frames.state is ConnectionState.OPEN and event.code == TOO_LARGE:
                self._reject_long()  # by its size without compression
            elif self._frames.state is ConnectionState.OPEN:
                self._write(event)
            self._end()
            self._hang_up()
        elif self._is_over or self._is_one_too_many(event):
            return
        elif isinstance(event, TextMessage | BytesMessage):
            self._handle_part(event)
        elif isinstance(event, Ping):
            self._write(event.response())
        elif isinstance(event, Pong) and self._pong_by < inf:
            self._ping_at, self._pong_by = self._loop.time() + PING_INTERVAL, inf

    def _is_one_too_many(self, event: Event) -> bool:
        """Return whether the service accepts no more frames; the peer is then closed."""
        is_whole = getattr(event, "frame_finished", True)  # a long one arrives in several events
        is_awaited = isinstance(event, Pong) and self._pong_by < inf
        if self.count_frame is None or not is_whole or is_awaited:
            return False
        ending = self.count_frame()
        if ending is not None:
            self._close_at_once(*ending)
        return ending is not None

    def _handle_part(self, event: TextMessage | BytesMessage) -> None:
        data = event.data if isinstance(event, TextMessage) else bytes(event.data)
        self._size += len(data.encode() if isinstance(data, str) else data)
        if self._size > MAX_MESSAGE:
            self._reject_long()
            return
        if data:  # fragments without data could be sent endlessly
            self._parts.append(data)
        if event.message_finished:
            empty: str | bytes = "" if isinstance(data, str) else b""
            self._messages.append(empty.join(self._parts))  # type: ignore[arg-type]
            self._parts, self._size = [], 0
            self._pause_reading()  # one at a time: a handler that is slow slows its peer
            self._heard.set()

    def _reject_long(self) -> None:
        self._close_at_once(TOO_LARGE, f"a message has at most {MAX_MESSAGE} bytes")

    def _close_at_once(self, code: int, reason: str = "") -> None:
        if not self._is_over:
            self._write(CloseConnection(code=code, reason=reason))
        self._end()
        self._hang_up()

    def _end(self) -> None:
        self._is_over = True
        self._heard.set()
        self.count_frame = None  # what counts may refer to this: a cycle

    def _hang_up(self) -> None:
        """Close; a peer that does not read the rest has limited time for it."""
        self._close_by = self._loop.time() + self._state.limits.write_time
        self.transport.close()

    def _write(self, event: Event) -> None:
        if not self.transport.is_closing():
            self.transport.write(self._frames.send(event))

    def _pause_reading(self) -> None:
        if self._is_reading and not self.transport.is_closing():
            self._is_reading = False
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        is_wanted = self._is_over or self._writable.is_set()
        if is_wanted and not self._is_reading and not self.transport.is_closing():
            self._is_reading = True
            if self._pong_by < inf:  # it may wait in the buffers of the system
                self._pong_by = self._loop.time() + PING_TIMEOUT
            self.transport.resume_reading()
