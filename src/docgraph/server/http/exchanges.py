"""Run requests: build an `Exchange` from a call, let the application answer it, send the answer.

Failures outside the application (a broken stream, an invalid header) are emitted as failures; a
client that disconnects cancels the task of its call.

A request occupies a place in the admission queue while it is processed, but not while its body is
being received: that is counted elsewhere (`message_bodies.py`).
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from functools import partial
from time import monotonic, perf_counter
from typing import Any, Protocol

from docgraph.exchange import (
    Answer,
    Body,
    Connection,
    Deadline,
    DocgraphError,
    Exchange,
    Headers,
    Request,
    Stream,
    Takeover,
    Upgrade,
)
from docgraph.exchange.errors import NotSupported, Overloaded, UpgradeRequired
from docgraph.exchange.hosts import group_address
from docgraph.exchange.request import cut_unreadable
from docgraph.observe import emit
from docgraph.observe.engine_events import StreamBegun
from docgraph.observe.events import BodyAwaited, RequestFinished, RequestStarted
from docgraph.observe.tracing import RequestTrace, tracing
from docgraph.runtime import AdmissionQueue
from docgraph.runtime.allocations import explain_shortage
from docgraph.runtime.loop_share import LoopShare
from docgraph.server.fields import RequestIds
from docgraph.server.host_gate import HostGate
from docgraph.server.http.bridge import Bridge
from docgraph.server.http.call import SWITCHING, HttpCall
from docgraph.server.http.message_bodies import IncomingBody
from docgraph.server.proxies import TrustedProxies
from docgraph.server.respond import SMALLEST, Responder, check_accepts_compression
from docgraph.server.routes import describe_route
from docgraph.server.serve import hide_error
from docgraph.server.settings import ServerSettings

_CLIENT_GONE = 499  # only the log shows it
_READING_SECONDS = 5.0
_SHEDDING_SECONDS = 0.1
_STARTED_PER_TURN = 16  # requests that begin in one turn of the event loop: some 8 ms of work
_LARGE_BODY = 256 * 1024  # bytes of a body that counts as memory of its request
_BODY_COPIES = 6  # times its size: as it came, its values, and what is sent to the database
_ENDED_PER_TURN = 32  # requests that end in one turn because their clients have disconnected
_SOCKET_SCHEMES = {"http": "ws", "https": "wss"}


class Application(Protocol):
    """The application behind the connections; `answer` never raises."""

    async def startup(self) -> None:
        """Prepare to answer; raises `StartupError` when that is impossible."""

    async def contact_database(self) -> str:
        """Wait until the first request can succeed; returns what is missing."""

    async def shutdown(self) -> None:
        """Close everything; also called when `startup` failed."""

    def is_probe(self, exchange: Exchange) -> bool:
        """Return whether this is a health check, which does not wait for other requests."""

    def render_error(self, error: DocgraphError, exchange: Exchange) -> Body:
        """Return the response to a request that is rejected before its turn; never raises."""

    async def answer(self, exchange: Exchange) -> Answer:
        """Return the answer to one request."""


class Exchanges:
    """The requests of this process."""

    def __init__(
        self,
        application: Application,
        settings: ServerSettings,
        responder: Responder,
        ids: RequestIds,
        proxies: TrustedProxies,
    ) -> None:
        limits = settings.limits
        self._application = application
        self._responder = responder
        self._ids = ids
        self._gate = AdmissionQueue(
            limits.in_flight, limits.queue, "too many requests at a time", limits.wait_time
        )
        self._share = LoopShare(_STARTED_PER_TURN)
        self.departures = LoopShare(_ENDED_PER_TURN)
        self._has_others = settings.core.workers > 1  # a rejected client may reach one with room
        self._proxies = proxies
        self._hosts = HostGate(settings.core, proxies)
        self._listeners = {
            "http": settings.http_listener.host,
            "https": settings.https_listener.host,
        }
        self._max_parameters = settings.connection_options.max_parameters
        self._force_compression = settings.core.force_gzip_encoding
        self._context = contextvars.copy_context()
        self.tasks: set[asyncio.Task[Any]] = set()
        self.started = 0
        self._shed_until = 0.0  # the pool or the memory rejects requests

    def start(self, call: HttpCall) -> None:
        """Answer a call in its own task, without the context of the previous request."""
        task = asyncio.get_running_loop().create_task(self._run(call), context=self._context.copy())
        call.task = task
        self.started += 1
        self.tasks.add(task)

    async def answer_in_task(self, call: HttpCall) -> None:
        """Answer a call in the current task, which another server has made for it."""
        task = call.task = asyncio.current_task()
        assert task is not None  # noqa: S101 - a coroutine of asyncio runs in one
        self.started += 1
        self.tasks.add(task)
        await self._run(call)

    def count_room(self) -> int:
        """Return how many more requests would be admitted, now or after waiting."""
        return 0 if monotonic() < self._shed_until else self._gate.room

    def give_up(self, call: HttpCall) -> None:
        """Cancel the work for a client that has disconnected."""
        if call.task is not None:  # which may end before it has begun
            call.task.add_done_callback(self.tasks.discard)
        self.departures.call(call.abandon)

    async def _run(self, call: HttpCall) -> None:
        id, call.id_lines = self._ids.trace(call.headers.raw)
        exchange, flaw = self._open(call, id)
        call.exchange = exchange
        if tracing.sampler is not None:
            self._begin_trace(call, exchange)
        emit(RequestStarted(id))
        try:
            if flaw is None:
                answer = await self._answer(call, exchange)
            else:
                call.error = flaw.code
                answer = self._application.render_error(flaw, exchange)
            await self._respond(answer, call, exchange)
            patience = exchange.deadline.patience
            if patience is not None and patience.memory is not None and patience.memory.size:
                await self._await_reader(call)
        except asyncio.CancelledError:
            call.close()  # unless the client has disconnected
            call.is_aborted = True
            raise
        except ConnectionError:
            call.is_aborted = True  # a WebSocket whose peer has disconnected
        except Exception as error:
            await self._fail(error, call, exchange)
        finally:
            if call.has_place:  # the client may disconnect between the queue and the work
                self._leave(call)
            patience = exchange.deadline.patience
            if patience is not None and patience.memory is not None:
                patience.memory.shrink(0)
            self._finish(exchange, call)
            if not call.is_answered:
                call.close()
            call.exchange = None  # a cycle would wait for the garbage collector
            self.tasks.discard(call.task)
            call.task = None  # it has the exception whose traceback leads back here

    async def _await_reader(self, call: HttpCall) -> None:
        """Wait until the client has read most of a large answer, which is in memory until then.

        A slow client is left to the limit on unread answers.
        """
        if not call.wire.is_writable:
            with suppress(TimeoutError):
                async with asyncio.timeout(_READING_SECONDS):
                    await call.wire.wait_writable()

    def _begin_trace(self, call: HttpCall, exchange: Exchange) -> None:
        connection = exchange.request.connection
        trace = call.trace = tracing.begin(call.headers.raw)
        trace.scheme, trace.http_version = connection.scheme, connection.http_version
        call.on_stream = partial(self._begin_stream, call, exchange, trace)

    def _begin_stream(self, call: HttpCall, exchange: Exchange, trace: RequestTrace) -> None:
        """Report the start of a stream and end its span there: a stream lasts for hours."""
        trace.route = describe_route(exchange)
        seconds = perf_counter() - exchange.started
        method, service = exchange.request.method, exchange.service
        emit(StreamBegun(exchange.id, method, call.status, seconds, service, trace))
        trace.is_over = True

    def _open(self, call: HttpCall, id: str) -> tuple[Exchange, DocgraphError | None]:
        """Return the exchange; and the error of an invalid request."""
        head, headers, wire = call.request, call.headers, call.wire
        connection, is_usual = wire.connection, head.version == "1.1" and not call.is_handshake
        if wire.is_proxied or not is_usual:
            connection = self._find_connection(call, headers)
        incoming = call.incoming
        if incoming is not None and not incoming.is_complete and connection.client is not None:
            incoming.address = group_address(connection.client[0])
        try:
            request = Request(
                head.method,
                head.path,
                query_string=head.query,
                headers=headers,
                body=None if incoming is None else partial(self._read_body, call, incoming, id),
                connection=connection,
            )
            if headers is not wire.admitted:  # fields of another request on this connection
                known = wire.connection
                self._hosts.check(headers.get("host"), known, self._listeners[known.scheme])
                wire.admitted = headers
        except DocgraphError as error:
            path = cut_unreadable(head.path)
            request = Request(head.method, path, headers=headers, connection=connection)
            return Exchange(request, id), error
        request.max_parameters = self._max_parameters
        return Exchange(request, id), None

    def _find_connection(self, call: HttpCall, headers: Headers) -> Connection:
        """Return the peer of the connection, adjusted for proxies, old clients and WebSockets."""
        connection = call.wire.connection
        client, scheme = self._proxies.resolve(connection.client, connection.scheme, headers)
        return replace(
            connection,
            client=client,
            scheme=_SOCKET_SCHEMES[scheme] if call.is_handshake else scheme,
            http_version=call.request.version,
            host=self._proxies.find_host(connection.client, headers),
        )

    async def _answer(self, call: HttpCall, exchange: Exchange) -> Answer:
        """Wait in the admission queue, then call the application."""
        try:
            if self._force_compression:
                check_accepts_compression(exchange.request.headers.get("accept-encoding"))
            if not self._share.try_enter(1) and not self._application.is_probe(exchange):
                await self._share.enter(1)
            if call.wire.is_for_probes and not self._application.is_probe(exchange):
                raise Overloaded("too many connections", bound="connections")
            if self._gate.try_enter():
                call.has_place = True
            elif not self._application.is_probe(exchange):
                await self._enter(call)
        except DocgraphError as error:
            call.error = error.code
            return self._application.render_error(error, exchange)
        exchange.leave_queue = partial(self._leave, call)
        exchange.outside_queue = partial(self._stay_outside, call)
        try:
            answer = await self._application.answer(exchange)
        finally:
            if call.has_place:
                self._leave(call)
        if exchange.error == Overloaded.code:
            self._reject(call)
            self._shed_until = monotonic() + _SHEDDING_SECONDS
        return answer

    async def _read_body(
        self, call: HttpCall, incoming: IncomingBody, id: str, limit: int
    ) -> bytes:
        """Return the body; the request releases its place while it waits, and gets another one."""
        if incoming.is_complete:
            body = incoming.drain()
        else:
            async with self._stay_outside(call):
                emit(BodyAwaited(id))
                try:
                    body = await incoming.read(limit)
                finally:
                    emit(BodyAwaited(id, over=True))
        if len(body) > _LARGE_BODY and call.exchange is not None:
            # Until there is memory for what it becomes.
            await call.exchange.deadline.acquire(_BODY_COPIES * len(body))
        return body

    @asynccontextmanager
    async def _stay_outside(self, call: HttpCall) -> AsyncIterator[None]:
        """Release the place for a wait that is bounded in another way; wait for one after it."""
        had_place = call.has_place
        self._leave(call)
        yield
        if had_place:
            await self._enter(call)

    async def _enter(self, call: HttpCall) -> None:
        deadline, client = Deadline(), call.wire.connection.client
        if call.exchange is not None:
            deadline, client = call.exchange.deadline, call.exchange.request.connection.client
        share = "" if client is None else group_address(client[0])
        try:
            with deadline.waiting():
                await self._gate.enter(deadline.find_patience(None), share=share)
        except Overloaded:
            self._reject(call)
            raise
        call.has_place = True
        await self._share.enter(1)  # many places may become free in one turn

    def _reject(self, call: HttpCall) -> None:
        """Pause the connection, or close it where the client may reach another worker."""
        call.is_refused = True
        call.keep_alive = call.keep_alive and not self._has_others

    def _leave(self, call: HttpCall) -> None:
        """Release the place, if the call still has one."""
        if call.has_place:
            call.has_place = False
            self._gate.leave()

    async def _respond(self, answer: Answer, call: HttpCall, exchange: Exchange) -> None:
        patience = exchange.deadline.patience
        is_being_built = isinstance(answer, Stream) and answer.is_bounded
        if patience is not None and patience.memory is not None and not is_being_built:
            patience.memory.shrink(len(answer.content) if isinstance(answer, Body) else 0)
        if isinstance(answer, Body):
            if len(answer.content) >= SMALLEST:
                answer = await self._responder.encode(answer, exchange)
            if not call.wire.is_writable:
                await call.wire.wait_writable()
            call.send(*self._responder.render_body(answer, exchange, call.id_lines))
        elif isinstance(answer, Stream):
            await self._stream(answer, call, exchange)
        elif isinstance(answer, Upgrade):
            await self._open_socket(answer, call, exchange)
        else:
            await self._run_takeover(answer, call, exchange)

    async def _stream(self, answer: Stream, call: HttpCall, exchange: Exchange) -> None:
        head, chunks = self._responder.render_stream(answer, exchange, call.id_lines)
        call.on_stop = answer.stop
        try:
            if exchange.request.method == "HEAD":
                call.send(head, b"")
            else:
                await call.send_stream(head, chunks)
        finally:
            for iterator in (chunks, answer.chunks):
                close = getattr(iterator, "aclose", None)
                if close is not None:
                    await close()

    async def _open_socket(self, answer: Upgrade, call: HttpCall, exchange: Exchange) -> None:
        """Accept the WebSocket, and run its handler."""
        if not call.is_handshake:
            raise UpgradeRequired(
                "this resource speaks WebSocket", headers=[("Upgrade", "websocket")]
            )
        head = self._responder.render_common(answer, exchange, call.id_lines)
        socket = call.open_socket(head)
        try:
            await answer.handler(socket)
        except ConnectionError:
            raise
        except Exception:
            await socket.fail()
            raise
        await socket.close()

    async def _run_takeover(self, answer: Takeover, call: HttpCall, exchange: Exchange) -> None:
        if call.is_handshake:
            raise NotSupported("this resource does not speak WebSocket")

        await Bridge(
            call,
            exchange,
            lambda status, headers: self._responder.render_foreign(
                status, headers, answer, exchange, call.id_lines
            ),
        ).run(answer)

    async def _fail(self, error: Exception, call: HttpCall, exchange: Exchange) -> None:
        """Emit an unexpected error under an id, and answer if nothing was sent yet."""
        if isinstance(error, MemoryError):
            error = explain_shortage()
        elif not isinstance(error, DocgraphError):
            error = hide_error(error, exchange, "the request could not be answered")
        call.error = error.code
        if not call.status:
            body = self._application.render_error(error, exchange)
            call.send(*self._responder.render_body(body, exchange, call.id_lines))

    def _finish(self, exchange: Exchange, call: HttpCall) -> None:
        request, account = exchange.request, exchange.account
        client, trace = request.connection.client, call.trace
        if trace is not None:
            trace.route, trace.is_over = describe_route(exchange), True
        emit(
            RequestFinished(
                request_id=exchange.id,
                method=request.method,
                path="/" + "/".join(request.segments),
                status=call.status or _CLIENT_GONE,
                duration=perf_counter() - exchange.started,
                bytes_out=call.sent,
                client=client[0] if client else "",
                account=account.name if account else "",
                service=exchange.service,
                app=exchange.app,
                operation=exchange.operation,
                entries=exchange.entries,
                error=call.error or exchange.error,
                aborted=call.is_aborted,
                endless=call.is_endless or call.status == SWITCHING,
                trace=trace,
            )
        )
