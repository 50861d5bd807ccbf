"""One request of an ASGI server: what a connection is to our own server, and what it sends.

`Exchanges` runs it as any other call, in the task of the server. The request body is received in a
task of its own; that task, or the one that a stream or a sweep starts for a request that takes
longer, notices when the client disconnects.
"""

from __future__ import annotations

import asyncio
from functools import lru_cache
from typing import Any, Final

from docgraph.asgi.body_clock import BodyClock
from docgraph.asgi.output import HIGH_WATER, Gate, Output
from docgraph.asgi.scope import AsgiHead, AsgiReceive, AsgiScope, AsgiSend
from docgraph.asgi.socket import AsgiSocket
from docgraph.exchange import DocgraphError, Headers
from docgraph.exchange.errors import BodyTooLarge
from docgraph.runtime import cancel_until_over
from docgraph.server.http.bridge import AsgiMessage
from docgraph.server.http.call import SWITCHING, HttpCall
from docgraph.server.http.connection_limits import Admitted
from docgraph.server.http.message_bodies import IncomingBody
from docgraph.server.http.state import ProcessState, StallWatch
from docgraph.server.respond import Head

_RESPONSE_TO_HANDSHAKE: Final = "websocket.http.response"  # an extension of the specification
_POLICY_VIOLATION: Final = 1008  # servers without the extension answer 403
_CLOSE: Final = (b"connection", b"close")


class AsgiCall(HttpCall):
    """A call whose response is ASGI messages: the server frames them."""

    wire: AsgiConnection

    async def begin(self, head: Head) -> None:
        """Send the head alone, and each part as it comes."""
        await super().begin(head)
        self.wire.output.start()
        self.wire.listen()

    def _start(self, head: Head) -> list[bytes]:
        super()._start(head)
        self._chunked = False
        self.wire.begin(head, is_last=not self.keep_alive)
        return []


class AsgiConnection:
    """A request from its scope to its end."""

    is_for_probes = False
    admitted: Headers | None = None
    _kind = "http.response"
    _socket: AsgiSocket | None = None
    _incoming: IncomingBody | None = None
    _clock: BodyClock | None = None  # made when the application waits for the body
    _stall: StallWatch | None = None  # made for a request that takes longer
    _call: AsgiCall | None = None
    _task: asyncio.Task[Any] | None = None
    _listener: asyncio.Task[None] | None = None
    _is_lost = False
    _is_cut = False

    def __init__(
        self, state: ProcessState, scope: AsgiScope, receive: AsgiReceive, send: AsgiSend
    ) -> None:
        self.state = state
        self._scope = scope
        self._receive = receive
        self._is_handshake = scope["type"] == "websocket"
        head = self._head = AsgiHead(scope)
        self.connection = head.connection
        client = head.connection.client
        self.address = client[0] if client else ""
        self.is_proxied = state.trusts(self.address)
        self.output = Output(send, self._on_sent)
        self.transport: Any = self.output  # what has a send buffer
        self._room = Gate()  # open: the next message may be received

    async def answer(self) -> None:
        """Answer the request; return when the server has accepted the response."""
        self._task = asyncio.current_task()
        self.state.connections[self] = Admitted.NOTHING
        try:
            if self._is_handshake and (await self._receive())["type"] != "websocket.connect":
                return
            await self._answer()
            if not self._is_lost:
                await self.output.flush()
        except asyncio.CancelledError:
            if not self._is_lost or self._task is None:
                raise
            self._task.uncancel()  # this ended the work, not the server
        except OSError:
            pass  # the client has disconnected (ASGI 2.4)
        finally:
            await self._close()

    async def _answer(self) -> None:
        limits = self.state.limits
        try:
            head = self._head.check(limits)
        except DocgraphError as error:
            refusal, content = self.state.refusals.render(error, self.address, self._head)
            self.begin(refusal, is_last=True)
            self.write(content)
            self.on_response_complete()
            return
        if head.length != 0 and not self._is_handshake:
            self._incoming = IncomingBody(
                self, self.state.bodies, head.length, expects_continue=head.expects_continue
            )
            if not head.expects_continue:
                self.listen()
                await asyncio.sleep(0)  # most bodies have arrived together with their head
        call = self._call = AsgiCall(
            self,
            head,
            Headers.of_lower_case(self._head.headers),
            self._incoming,
            keep_alive=True,
            is_handshake=self._is_handshake,
        )
        await self.state.exchanges.answer_in_task(call)

    async def _close(self) -> None:
        self.state.connections.pop(self, None)
        self.state.unread.leave(self)
        if self._incoming is not None and not self._incoming.is_complete:
            self._incoming.drop()
        await self.output.close()
        if self._listener is not None and not self._listener.done():
            await cancel_until_over([self._listener])
        # What they refer to is freed now, not by the collector.
        self._call = self._socket = self._incoming = None

    @property
    def is_writable(self) -> bool:
        return self.output.is_writable

    async def wait_writable(self) -> None:
        await self.output.wait_writable()

    def begin(self, head: Head, *, is_last: bool) -> None:
        """Send a status and header fields; `is_last`: the connection ends with this response."""
        headers = [*map(_read_line, head.lines)]
        if self._is_handshake:
            if _RESPONSE_TO_HANDSHAKE not in (self._scope.get("extensions") or {}):
                self._kind = ""
                self.output.put({"type": "websocket.close", "code": _POLICY_VIOLATION})
                return
            self._kind = _RESPONSE_TO_HANDSHAKE
        elif is_last and self.connection.http_version.startswith("1"):
            headers.append(_CLOSE)
        kind = f"{self._kind}.start"
        self.output.put({"type": kind, "status": head.status, "headers": headers})

    def write(self, data: bytes) -> None:
        """Send content, in parts: a server buffers whole messages, whatever the client reads."""
        if not self._kind or self._is_cut:
            return
        was_writable = self.output.is_writable
        for start in range(0, len(data), HIGH_WATER):
            part = data[start : start + HIGH_WATER]
            kind = f"{self._kind}.body"
            self.output.put({"type": kind, "body": part, "more_body": True}, len(part))
        if not was_writable:
            self.state.unread.update(self)
        elif not self.output.is_writable:
            self.state.unread.enter(self)

    def on_response_complete(self, call: HttpCall | None = None) -> None:
        if self._kind:
            self.output.end({"type": f"{self._kind}.body", "body": b"", "more_body": False})
        self.output.complete()

    def open_socket(self, call: HttpCall, head: Head) -> AsgiSocket:
        headers = [*map(_read_line, head.lines)]
        chosen = [value.decode() for name, value in headers if name == b"sec-websocket-protocol"]
        self.output.put(
            {
                "type": "websocket.accept",
                "subprotocol": chosen[0] if chosen else None,
                "headers": [pair for pair in headers if pair[0] != b"sec-websocket-protocol"],
            }
        )
        self._socket = AsgiSocket(self.output, call, self._room)
        self.output.start()
        self.listen()
        return self._socket

    def cut(self) -> None:
        """End the response where it is: the server sees that it is incomplete."""
        self._is_cut = True
        self.output.complete(drops=True)
        if asyncio.current_task() is not self._task:
            self.lose()

    def listen(self) -> None:
        """Receive what comes, and notice when the client disconnects."""
        if self._listener is None or self._listener.done():
            loop = asyncio.get_running_loop()
            self._listener = loop.create_task(self._receive_messages())

    async def _receive_messages(self) -> None:
        """Receive until the body is complete; called again, until the client disconnects."""
        is_over = False
        try:
            while not is_over:
                if not self._room.is_open:
                    await self._room.wait()
                is_over = self._hear(await self._receive())
        except OSError:
            self.lose()

    def _hear(self, message: AsgiMessage) -> bool:
        """Handle a message; return whether there is nothing more to expect now."""
        kind, incoming = message["type"], self._incoming
        if kind in ("http.disconnect", "websocket.disconnect"):
            self.lose()
            return True
        if self._socket is not None:
            self._socket.hear(message)
            return False
        if incoming is None or incoming.is_complete:
            return False
        data = message.get("body", b"")
        if incoming.received + len(data) > self.state.limits.body_size:
            most = self.state.limits.body_size
            incoming.fail(BodyTooLarge(f"the body is larger than {most} bytes"))
        elif data and incoming.feed(data):
            self._room.close()
        if not message.get("more_body", False):
            incoming.is_complete = incoming.failure is None
            if incoming.is_counted:
                incoming.uncount()
            return True
        return False

    def await_body(self, incoming: IncomingBody) -> None:
        if self._clock is None:
            self._clock = BodyClock(self.state.limits, asyncio.get_running_loop())
        incoming.expects_continue = False  # the server sends it when the body is received
        if not self._clock.is_held:
            self._room.open()
        self.listen()

    def hold_body(self, incoming: IncomingBody) -> None:
        if self._clock is not None:
            self._clock.hold()
            self._room.close()

    def go_on_with_body(self, incoming: IncomingBody) -> None:
        if self._clock is not None:
            self._clock.resume()
            self._room.open()

    def lose(self) -> None:
        """End the work: the client has disconnected, or does not read."""
        if self._is_lost:
            return
        self._is_lost = True
        self.output.complete(drops=True)
        call = self._call
        if self._socket is not None and call is not None:
            self._socket.lose(call)
        elif call is not None and call.task is not None:
            self.state.exchanges.give_up(call)
        elif self._task is not None:
            self._task.cancel()

    def shutdown(self) -> None:
        """End what would not end by itself: the server stops."""
        if self._socket is not None:
            self._socket.shutdown()
        elif self._call is not None and self._call.is_endless:
            self._call.stop()

    def sweep(self, now: float) -> None:
        """Check the timeouts; from now on, notice when the client disconnects."""
        incoming = self._incoming
        if self._stall is None:
            self._stall = StallWatch(self.transport, self.state.limits.write_time)
        if self._stall.is_stalled(now):
            self.lose()
        elif incoming is not None and not incoming.is_complete:
            if self._clock is not None:
                self._clock.check(now, incoming)
        elif self._call is not None and self._call.status != SWITCHING:
            self.listen()

    def _on_sent(self) -> None:
        if self.output.is_writable:
            if self._stall is not None:
                self._stall.reset()
            self.state.unread.leave(self)
        else:
            self.state.unread.update(self)
        if self.output.failure is not None:
            self.lose()


@lru_cache(maxsize=1024)  # most responses have the same lines
def _read_line(line: bytes) -> tuple[bytes, bytes]:
    """Return the field of a rendered line, with its name in lower case as ASGI wants it."""
    name, _, value = line[:-2].partition(b": ")
    return name.lower(), value
