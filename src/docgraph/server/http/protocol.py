"""One HTTP connection: transport, order of its calls, timeouts (Slowloris), and its end.

A `RequestReader` parses the bytes; each request becomes an `HttpCall` that a task answers. There is
no timer per request: a connection records when it expires, and the process checks all of them a few
times a second.
"""

from __future__ import annotations

import asyncio
from collections import deque
from math import inf

from docgraph.exchange import Connection, DocgraphError, Headers
from docgraph.exchange.errors import Overloaded, RequestTimeout
from docgraph.server.http.call import HttpCall, render_head
from docgraph.server.http.connection_limits import Admitted
from docgraph.server.http.framing import RequestHead
from docgraph.server.http.message_bodies import DRAINABLE, IncomingBody
from docgraph.server.http.reader import SLICE, RequestReader
from docgraph.server.http.state import Phase, ProcessState, StallWatch, describe_peer, report_fault
from docgraph.server.http.websocket import WebSocket, open_websocket
from docgraph.server.respond import Head

_LINGER = 2.0  # seconds that a rejected client has to read its answer
_PROBE_TIME = 5.0  # seconds that the head of a health check may take on a reserved connection
_FINAL_READ_SECONDS = 0.25  # for a request that was on its way when the server stops
# Bytes of input that wait for earlier answers before no more is read. A connection that is not read
# does not notice that its client has disconnected, and the work for it would continue.
_MAX_BACKLOG = 16 * 1024


class HttpProtocol(asyncio.Protocol):
    """HTTP/1.1 on one connection."""

    transport: asyncio.Transport
    connection: Connection
    address: str  # of the peer; empty where it has none
    _stall: StallWatch

    def __init__(self, state: ProcessState, loop: asyncio.AbstractEventLoop) -> None:
        self.state = state
        self.admitted: Headers | None = None
        self._loop = loop
        self._limits = state.limits
        self._reader = RequestReader(self, state.limits)
        self._phase = Phase.NEW
        self._expires = inf
        self._since = 0.0  # when the application asked for the body
        self._held_at: float | None = None  # when the body was paused because of too many others
        self._left = 0.0  # seconds that it had then
        self._active: HttpCall | None = None  # the one that is being answered
        self._last: HttpCall | None = None  # the one that was read last
        self._incoming: IncomingBody | None = None  # its body, if it has one
        self._waiting: deque[HttpCall] = deque()  # for their turn
        self._backlog = b""  # input that is not read yet
        self._deferred: DocgraphError | None = None  # a rejection that waits for earlier answers
        self._shakes_hands = False  # what follows is for the WebSocket, if it becomes one
        self._ignores_input = False  # nothing more is read
        self._room = 0  # bytes that are discarded before a lingering connection is closed
        self._is_reading = True
        self._is_resting = False  # a request was rejected with 503: reading pauses
        self.is_for_probes = False  # a reserved connection: only health checks are answered
        self._writable: asyncio.Event | None = None  # made when the peer is slow the first time
        self.is_writable = True

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin, unless there are too many connections, or the client has disconnected."""
        self.transport = transport
        self.connection = describe_peer(transport)
        self.address = self.connection.client[0] if self.connection.client else ""
        self._stall = StallWatch(transport, self._limits.write_time)
        self.is_proxied = self.state.trusts(self.address)
        admitted = self.state.admit(self)
        self.is_for_probes = admitted is Admitted.PROBES
        longest = _PROBE_TIME if self.is_for_probes else inf
        self._enter(Phase.NEW, min(self._limits.header_time, longest))
        if transport.get_extra_info("peername") is None:
            # The connection was reset before it was accepted, so its address is unknown: neither
            # rate limits nor the brute force guard could count its requests.
            self._ignores_input = True
            transport.abort()
            return
        if admitted is Admitted.NOTHING:
            self._reject(Overloaded("too many connections", bound="connections"))
            if self.state.count_refused() > self._limits.lingering:
                transport.close()

    def eof_received(self) -> bool:
        """Close the connection when it is its turn: the client has disconnected."""
        return self.state.close_in_turn(self.transport, self.connection)

    def connection_lost(self, exc: Exception | None) -> None:
        """End the work for a client that disconnected."""
        self.state.release(self)
        self.state.resting.leave(self)
        self._ignores_input = True
        self._backlog = b""
        self._waiting.clear()
        active, self._active = self._active, None
        if active is not None:
            self.state.exchanges.give_up(active)
        elif self._incoming is not None:
            self._incoming.drop()
        self.resume_writing()
        self._break_cycles()

    def _break_cycles(self) -> None:
        """Drop references that lead back here: thousands of listeners come and go together."""
        self._last = self._incoming = None
        self._reader.release()

    def data_received(self, data: bytes) -> None:
        """Parse the bytes, or buffer them for later."""
        if self._ignores_input:
            self._discard(len(data))
        elif self._waiting or self._backlog or self._shakes_hands:
            self._backlog += data
            if len(self._backlog) >= _MAX_BACKLOG:
                self._pause_reading()
        elif len(data) <= SLICE:
            self._feed(data)
        else:
            self._feed_slices(data)

    def pause_writing(self) -> None:
        """Wait with writing: the peer reads more slowly than we write."""
        self.is_writable = False
        self.state.unread.enter(self)
        if self._writable is None:
            self._writable = asyncio.Event()
        self._writable.clear()

    def resume_writing(self) -> None:
        """Continue to write: the peer has read, or has disconnected."""
        self._stall.reset()
        self.is_writable = True
        self.state.unread.leave(self)
        if self._writable is not None:
            self._writable.set()
        if self._active is None and self._waiting and not self._is_resting:
            self._start_next()

    def _feed_slices(self, data: bytes) -> None:
        for start in range(0, len(data), SLICE):
            if self._ignores_input:
                self._discard(len(data) - start)
                return
            if self._waiting or self._shakes_hands:
                self._backlog += data[start:]
                return
            self._feed(data[start : start + SLICE])

    def _feed(self, data: bytes) -> None:
        try:
            refusal = self._reader.feed(data)
        except Exception as error:
            refusal = report_fault(error)
        if refusal is not None:
            self._give_up(refusal)
        elif self._reader.in_head and self._phase is not Phase.HEAD:
            # The timeout of the first head began with the connection.
            if self._phase is Phase.NEW:
                self._phase = Phase.HEAD
            elif self._phase in (Phase.IDLE, Phase.WORK):
                self._enter(Phase.HEAD, self._limits.header_time)

    def _pause_reading(self) -> None:
        if self._is_reading and not self.transport.is_closing():
            self._is_reading = False
            self.transport.pause_reading()

    def _resume_reading(self) -> None:
        if not self._is_reading and not self.transport.is_closing():
            self._is_reading = True
            self.transport.resume_reading()

    def on_request(
        self, head: RequestHead, headers: Headers, *, keep_alive: bool
    ) -> IncomingBody | None:
        """Answer a request whose head is complete, after the requests before it.

        It also waits until the client has read the previous answer: a client that does not read
        gets no further answers, which would fill the memory.
        """
        self._phase, self._expires = Phase.WORK, inf
        self._incoming = self._held_at = None
        if head.length != 0:
            self._incoming = IncomingBody(
                self, self.state.bodies, head.length, expects_continue=head.expects_continue
            )
        state, is_free = self.state, self._active is None and not self._waiting
        keep_alive = keep_alive and not state.is_leaving and not self.is_for_probes
        if keep_alive and is_free and state.share.is_shared and state.share.must_shed():
            keep_alive = False
        call = self._last = HttpCall(self, head, headers, self._incoming, keep_alive=keep_alive)
        if self._active is None and self.is_writable:
            self._active = call
            state.exchanges.start(call)
        else:
            self._waiting.append(call)
        return self._incoming

    def on_websocket(self, head: RequestHead, headers: Headers, rest: bytes) -> bool:
        """Accept a WebSocket handshake; return False if earlier requests are not answered yet."""
        if self._is_busy:
            return False
        self._enter(Phase.WORK, inf)
        self._shakes_hands = True
        self._backlog = rest
        self._last = HttpCall(self, head, headers, None, keep_alive=False, is_handshake=True)
        self._start(self._last)
        return True

    def on_body_full(self) -> None:
        """Read no more of a body until its reader asks for it."""
        self._pause_reading()

    def on_request_end(self) -> None:
        incoming = self._incoming
        if incoming is not None:
            incoming.is_complete = True
            if incoming.is_counted:
                incoming.uncount()
        if self._phase is Phase.DRAIN:
            self._enter(Phase.IDLE, self._limits.idle_time)
        elif self._phase is Phase.BODY:
            self._enter(Phase.WORK, inf)

    def write(self, data: bytes) -> None:
        """Send; the transport buffers what the peer does not read."""
        if not self.transport.is_closing():
            self.transport.write(data)
            if not self.is_writable:
                self.state.unread.update(self)

    async def wait_writable(self) -> None:
        if self._writable is not None:
            await self._writable.wait()

    def await_body(self, incoming: IncomingBody) -> None:
        """Start the timeout of the body, which the application reads; send `100 Continue`."""
        if incoming is not self._incoming:
            return
        if self._phase is Phase.WORK:
            self._since = self._loop.time()
            self._enter(Phase.BODY, self._limits.body_time)
        if incoming.expects_continue:
            incoming.expects_continue = False
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        if not self._waiting and self._held_at is None:
            self._resume_reading()

    def hold_body(self, incoming: IncomingBody) -> None:
        if incoming is self._incoming:
            self._held_at = self._loop.time()
            self._left = self._expires - self._held_at
            self._expires = self._held_at + self._limits.body_time
            self._pause_reading()

    def go_on_with_body(self, incoming: IncomingBody) -> None:
        if incoming is self._incoming and self._held_at is not None:
            now = self._loop.time()
            self._since += now - self._held_at
            self._expires = now + self._left
            self._held_at = None
            self._resume_reading()

    def on_response_complete(self, call: HttpCall) -> None:
        """Continue with the next request, or end the connection."""
        self._active = None
        if not call.keep_alive:
            self._end()
            return
        if call.is_refused and not self.state.is_leaving and self._phase is not Phase.LINGER:
            self._is_resting = True
            self._pause_reading()
            self.state.resting.enter(self, self._loop)
        else:
            self.go_on()

    def go_on(self) -> None:
        """Start the next request, or read until there is one."""
        self._is_resting = False
        if self._phase is Phase.LINGER or self.transport.is_closing():
            return
        if self._waiting:
            if self.is_writable:
                self._start_next()  # else as soon as this response is read
            return
        if self._deferred is not None:
            self._reject(self._deferred)
            return
        if self._phase in (Phase.WORK, Phase.BODY):
            if self._reader.in_body:
                self._enter(Phase.DRAIN, self._limits.header_time)
            else:
                self._phase = Phase.IDLE
                self._expires = self._loop.time() + self._limits.idle_time
        if self._backlog or not self._is_reading:
            self._read_on()

    @property
    def _is_busy(self) -> bool:
        """Whether some requests are not answered yet."""
        return self._active is not None or bool(self._waiting)

    def _start_next(self) -> None:
        self._start(self._waiting.popleft())
        if not self._waiting:
            self._read_on()

    def _read_on(self) -> None:
        if not self._is_reading:
            self._resume_reading()
        if self._backlog:
            data, self._backlog = self._backlog, b""
            self._feed_slices(data)

    def open_socket(self, call: HttpCall, head: Head) -> WebSocket:
        socket = open_websocket(self.state, self.transport, call, head)
        self._active = None
        self.state.hand_over(self, socket)
        self.transport.set_protocol(socket)
        self._resume_reading()
        if self._backlog:
            socket.data_received(self._backlog)
        self._break_cycles()
        return socket

    def _start(self, call: HttpCall) -> None:
        self._active = call
        self.state.exchanges.start(call)

    def cut(self) -> None:
        self._ignores_input = True
        self.transport.close()

    def _give_up(self, error: DocgraphError) -> None:
        """Report unreadable input: to the reader of a body, otherwise in a response."""
        self._ignores_input = True
        if not self._reader.in_body or self._last is None or self._incoming is None:
            self._reject(error)
        elif self._last.is_answered:
            self._linger()
        else:
            self._last.keep_alive = False
            self._incoming.fail(error)

    def _reject(self, error: DocgraphError) -> None:
        """Send a rejection, after the answers to earlier requests."""
        self._ignores_input = True
        if self._is_busy:
            self._deferred = error
            return
        head, content = self.state.refusals.render(error, self.address, self._reader)
        self.write(render_head(head, self.state.date) + content)
        self._linger()

    def _end(self) -> None:
        """Close the connection after its last response; linger if the client still sends."""
        unread = self._reader.in_body or self._waiting or self._backlog
        if unread and not self.transport.is_closing():
            self._ignores_input = True
            self._linger()
        else:
            self.transport.close()

    def _linger(self) -> None:
        """Close for writing, and discard what the client sends for a moment.

        Closing while the client still sends would make its kernel discard the answer.
        """
        self._enter(Phase.LINGER, _LINGER)
        self._room = DRAINABLE
        self._waiting.clear()  # requests that were not begun get no answer
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self._resume_reading()

    def _discard(self, size: int) -> None:
        if self._phase is Phase.LINGER:
            self._room -= size
            if self._room < 0:
                self.transport.close()

    def shutdown(self) -> None:
        """Answer the requests that were sent by now, then close."""
        if self._is_resting:
            self.state.resting.leave(self)
            self.go_on()
        if self._active is not None and self._active.is_endless:
            self._active.stop()
        elif not self._is_busy:
            self._expires = min(self._expires, self._loop.time() + _FINAL_READ_SECONDS)
        elif self._last is not None:
            self._last.keep_alive = False

    def _enter(self, phase: Phase, seconds: float) -> None:
        self._phase = phase
        self._expires = inf if seconds == inf else self._loop.time() + seconds

    def sweep(self, now: float) -> None:
        """Check the timeouts of this connection; called a few times a second."""
        if self._stall.is_stalled(now):
            self.transport.abort()
        elif now >= self._expires:
            self._expire(now)
        elif self._phase is Phase.BODY and self._is_reading and self._is_body_slow(now):
            rate = self._limits.body_rate
            self._fail_body(RequestTimeout(f"the body is slower than {rate} bytes per second"))

    def _expire(self, now: float) -> None:
        if self._phase is Phase.HEAD:
            if not self._is_busy and not self._is_resting:
                self._reject(RequestTimeout("the request head did not arrive in time"))
            else:
                self._expires = now + 1.0  # earlier answers are due first, or it is not read
        elif self._phase is Phase.BODY:
            if self._held_at is not None:
                self._fail_body(Overloaded("too many bodies are on their way", bound="uploads"))
            elif self._is_reading:
                self._fail_body(RequestTimeout("the body did not arrive in time"))
            else:
                self._expires = now + 1.0  # reading is paused: the client is not late
        else:
            self._expires = inf
            self.transport.close()

    def _is_body_slow(self, now: float) -> bool:
        elapsed = now - self._since
        received = self._incoming.received if self._incoming else 0
        return elapsed > self._limits.body_grace and received < self._limits.body_rate * elapsed

    def _fail_body(self, error: DocgraphError) -> None:
        self._ignores_input = True
        self._enter(Phase.WORK, inf)
        if self._incoming is not None:
            self._incoming.fail(error)
