"""The guard in front of the application: what ASGI cannot see of a connection.

Deadlines for head, body, idleness and readers that do not read; bounds on the head; one Host; one
reading of the framing; a client that leaves. It stands on uvicorn's httptools protocol. No timer
is set per request: a connection notes when it expires, and the process sweeps over all of them a
few times a second.
"""

from __future__ import annotations

import asyncio
from math import inf
from typing import TYPE_CHECKING, Any

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from docgraph.exchange import DocgraphError
from docgraph.exchange.errors import BodyTooLarge, Overloaded, RequestError, RequestTimeout
from docgraph.server.http.before.cycle import DRAINABLE, Cycle, Outlet, build_scope
from docgraph.server.http.before.refuse import PartialRequest
from docgraph.server.http.before.state import ProcessState
from docgraph.server.http.framing import (
    Head,
    HeadersTooLarge,
    UrlTooLong,
    check_size,
    explain_refusal,
    read_head,
)
from docgraph.server.http.handshake import check_handshake, wants_websocket, without_upgrade
from docgraph.server.http.phase import Phase
from docgraph.server.http.stall import StallWatch
from docgraph.server.process.sockets import LINGERING

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn._types import ASGI3Application

__all__ = ["GuardedProtocol"]

# The parser is fed in slices, so that a head that never ends, or a thousand pipelined requests in
# one packet, are noticed before they are in memory as objects.
_SLICE = 4096
_LINGER = 2.0  # seconds that a refused client has to read its answer
_CHUNK_OVERHEAD = 16 * 1024  # bytes of chunk framing and trailers beside 8 per byte of content


class GuardedProtocol(HttpToolsProtocol):
    """One connection."""

    server_state: ProcessState

    def __init__(
        self,
        config: Config,
        server_state: ProcessState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = server_state.limits
        self._most_fed = self._limits.headers_size + self._limits.url_size + 2 * _SLICE
        self._phase = Phase.NEW
        self._expires = inf
        self._since = 0.0  # when the application asked for the body
        self._active: Cycle | None = None  # the request being answered; `cycle` is the last one
        self.url = b""
        self.headers = []
        self._backlog = b""  # pipelined input that is not parsed yet
        self._deferred: DocgraphError | None = None  # a refusal that waits for earlier answers
        self._ignores_input = False  # nothing more is parsed
        self._room = 0  # bytes that are thrown away before a lingering connection is closed
        self._fed = 0  # bytes of an unfinished head or chunk size that the parser holds
        self._in_body = False
        self._framing = 0  # bytes of a chunked body that are not content

    # --- the transport ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._outlet = Outlet(transport, self._end)
        self._stall = StallWatch(transport, self._limits.write_time)
        self._enter(Phase.NEW, self._limits.header_time)
        excess = self.server_state.count_connections() - self._limits.connections
        if excess > 0:
            self._refuse(Overloaded("too many connections"))
            if excess > LINGERING:
                transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._active is not None:
            self._active.abandon()
            self._active = None
        self.pipeline.clear()
        self._backlog = b""
        self._ignores_input = True
        self.server_state.count_connections()

    def data_received(self, data: bytes) -> None:
        if self._ignores_input:
            self._discard(len(data))
        elif self.pipeline or self._backlog:
            self._backlog += data
            self.flow.pause_reading()
        elif len(data) <= _SLICE:
            self._feed(data)
        else:
            self._feed_slices(data)

    def resume_writing(self) -> None:
        self._stall.reset()
        super().resume_writing()

    def _feed_slices(self, data: bytes) -> None:
        for start in range(0, len(data), _SLICE):
            if self._ignores_input:
                self._discard(len(data) - start)
                return
            if self.pipeline:
                self._backlog = data[start:]
                return
            self._feed(data[start : start + _SLICE])

    def _feed(self, data: bytes) -> None:
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            reason = error.__context__
            if not isinstance(reason, DocgraphError):
                reason = explain_refusal(error, data)
            self._give_up(reason)
        else:
            self._fed += len(data)
            if self._fed > self._most_fed:
                self._give_up(self._explain_excess())

    def _explain_excess(self) -> RequestError:
        """What it is that never ends; what ends is measured when it is complete."""
        if self._in_body:
            return RequestError("the framing of the body is too long")
        if len(self.url) > self._limits.url_size:
            return UrlTooLong(f"the URL exceeds {self._limits.url_size} bytes")
        return HeadersTooLarge(f"the headers exceed {self._limits.headers_size} bytes in all")

    # --- the parser -------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._fed = 0
        self.url = b""
        self.headers = []
        if self._phase is Phase.NEW:
            self._phase = Phase.HEAD  # its time runs since the connection was made
        elif self._phase in (Phase.IDLE, Phase.WORK):
            self._enter(Phase.HEAD, self._limits.header_time)

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._in_body:
            self.headers.append((name.lower(), value))
        else:  # a trailer: counted, never merged into the head
            self._count_framing(len(name) + len(value))

    def on_headers_complete(self) -> None:
        version = self.parser.get_http_version()
        method = self.parser.get_method().decode("ascii")
        check_size(self.url, self.headers, self._limits)
        head = read_head(method, version, self.url, self.headers)
        self.scope = build_scope(self, method, version, head)  # type: ignore[assignment]
        if self.parser.should_upgrade():
            if wants_websocket(self.headers):
                check_handshake(method, version, head.length, self.headers)
            return  # `_upgrade` goes on
        self._begin_cycle(head, keep_alive=version == "1.1" and self.parser.should_keep_alive())

    def on_chunk_header(self) -> None:
        self._fed = 0
        self._count_framing(8)

    def on_body(self, body: bytes) -> None:
        self._fed = 0
        cycle: Cycle = self.cycle  # type: ignore[assignment]
        cycle.received += len(body)
        if cycle.response_complete:
            return
        if cycle.received > self._limits.body_size:
            raise BodyTooLarge(f"the body is larger than {self._limits.body_size} bytes")
        cycle.body += body
        if len(cycle.body) > HIGH_WATER_LIMIT:
            self.flow.pause_reading()
        cycle.message_event.set()

    def on_message_complete(self) -> None:
        if not self._in_body:  # an upgrade: `_upgrade` goes on
            return
        self._in_body = False
        self._fed = 0
        self.cycle.more_body = False
        if self._phase is Phase.DRAIN:
            self._enter(Phase.IDLE, self._limits.idle_time)
        elif self._phase is Phase.BODY:
            self._enter(Phase.WORK, inf)
        if not self.cycle.response_complete:
            self.cycle.message_event.set()

    def _count_framing(self, size: int) -> None:
        self._framing += size
        received = self.cycle.received  # type: ignore[attr-defined]
        if self._framing > _CHUNK_OVERHEAD + 8 * received:
            raise RequestError("the body has more framing than content")

    # --- requests ---------------------------------------------------------------------------------

    def _begin_cycle(self, head: Head, *, keep_alive: bool) -> None:
        self._enter(Phase.WORK, inf)
        self._in_body = True
        self._framing = 0
        cycle = Cycle(
            length=head.length,
            await_body=self._await_body,
            scope=self.scope,
            transport=self._outlet,
            flow=self.flow,
            logger=self.logger,
            access_logger=self.access_logger,
            access_log=False,
            default_headers=self.server_state.default_headers,
            message_event=asyncio.Event(),
            expect_100_continue=head.expects_continue,
            keep_alive=keep_alive,
            on_response=self.on_response_complete,
        )
        self.cycle = cycle
        if self._active is None:
            self._start_asgi_task(cycle, self.app)
        else:
            self.flow.pause_reading()
            self.pipeline.appendleft((cycle, self.app))

    def _start_asgi_task(  # type: ignore[override]
        self, cycle: Cycle, app: ASGI3Application
    ) -> None:
        self._active = cycle
        task = self.loop.create_task(cycle.run_asgi(app))
        task.add_done_callback(self.tasks.discard)
        self.tasks.add(task)
        cycle.task = task

    def _await_body(self, cycle: Cycle) -> None:
        """The application asks for the body of the request it answers: now its time runs."""
        if cycle is self.cycle and self._phase is Phase.WORK:
            self._since = self.loop.time()
            self._enter(Phase.BODY, self._limits.body_time)

    def on_response_complete(self) -> None:
        self.server_state.total_requests += 1
        self._active = None
        if self._phase is Phase.LINGER or self.transport.is_closing():
            return
        if self.pipeline:
            cycle, app = self.pipeline.pop()
            self._start_asgi_task(cycle, app)  # type: ignore[arg-type]
            if self.pipeline:
                return
        elif self._deferred is not None:
            self._refuse(self._deferred)
            return
        elif self._phase in (Phase.WORK, Phase.BODY):
            if self.cycle.more_body:
                self._enter(Phase.DRAIN, self._limits.header_time)
            else:
                self._enter(Phase.IDLE, self._limits.idle_time)
        self.flow.resume_reading()
        if self._backlog:
            data, self._backlog = self._backlog, b""
            self._feed_slices(data)

    # --- upgrades ---------------------------------------------------------------------------------

    def _upgrade(self, rest: bytes) -> None:
        """A WebSocket is handed over; any other protocol is ignored, as RFC 9110 7.8 allows.

        llhttp takes everything behind such a head for the other protocol. It is fed again without
        the upgrade, so that its body is a body and not the next request.
        """
        if wants_websocket(self.headers) and self._active is None:
            self._ignores_input = True
            self.handle_websocket_upgrade()
            return
        method, version = self.scope["method"].encode(), self.scope["http_version"]
        head = without_upgrade(method, version, self.url, self.headers)
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
        self._feed(head)
        if rest and not self._ignores_input:
            self._feed_slices(rest)

    # --- the ends ---------------------------------------------------------------------------------

    def _give_up(self, error: DocgraphError) -> None:
        """The input cannot be parsed: in a body its reader gets the error, else we answer."""
        self._ignores_input = True
        if not self._in_body:
            self._refuse(error)
        elif self.cycle.response_complete:
            self._linger()
        else:
            self.cycle.fail(error)  # type: ignore[attr-defined]

    def _refuse(self, error: DocgraphError) -> None:
        """Answer in place of the application, after the answers that are still due."""
        self._ignores_input = True
        if self._active is not None:
            self._deferred = error
            return
        request = PartialRequest(
            client=self.client[0] if self.client else "",
            method=self.parser.get_method().decode("ascii") if self.url else "",
            target=self.url,
            headers=self.headers,
        )
        state = self.server_state
        self.transport.write(state.refusals.render(error, request, state.default_headers))
        self._linger()

    def _end(self) -> None:
        """The last response of this connection is written."""
        unread = self.cycle.more_body or self.pipeline or self._backlog
        if unread and not self.transport.is_closing():
            self._ignores_input = True
            self._linger()
        else:
            self.transport.close()

    def _linger(self) -> None:
        """Close for writing, and read on for a moment.

        Closing at once while the client still sends would make its kernel throw our answer away.
        """
        self._enter(Phase.LINGER, _LINGER)
        self._room = DRAINABLE
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()

    def _discard(self, size: int) -> None:
        if self._phase is Phase.LINGER:
            self._room -= size
            if self._room < 0:
                self.transport.close()

    def shutdown(self) -> None:
        """Finish what was accepted, then close."""
        if self._active is None or self._active.is_endless:
            self.transport.close()
        else:
            self.cycle.keep_alive = False

    # --- time -------------------------------------------------------------------------------------

    def _enter(self, phase: Phase, seconds: float) -> None:
        self._phase = phase
        self._expires = inf if seconds == inf else self.loop.time() + seconds

    def sweep(self, now: float) -> None:
        """Called a few times a second: whose time is up?"""
        if self._stall.is_stalled(now):
            self.transport.abort()
        elif now >= self._expires:
            self._expire(now)
        elif self._phase is Phase.BODY and not self.flow.read_paused and self._is_body_slow(now):
            self._fail_body(f"the body is slower than {self._limits.body_rate} bytes per second")

    def _expire(self, now: float) -> None:
        if self._phase is Phase.HEAD:
            if self._active is None:
                self._refuse(RequestTimeout("the request head did not arrive in time"))
            else:
                self._expires = now + 1.0  # earlier answers are due first
        elif self._phase is Phase.BODY:
            if self.flow.read_paused:
                self._expires = now + 1.0  # it is the application that lets the client wait
            else:
                self._fail_body("the body did not arrive in time")
        else:
            self._expires = inf
            self.transport.close()

    def _is_body_slow(self, now: float) -> bool:
        elapsed = now - self._since
        received = self.cycle.received  # type: ignore[attr-defined]
        return elapsed > self._limits.body_grace and received < self._limits.body_rate * elapsed

    def _fail_body(self, reason: str) -> None:
        self._ignores_input = True
        self._enter(Phase.WORK, inf)
        self.cycle.fail(  # type: ignore[attr-defined]
            RequestTimeout(reason, headers=[("Connection", "close")])
        )
