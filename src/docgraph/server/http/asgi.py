"""ASGI ↔ Exchange: with `channel.py` the only file that knows scope, receive and send.

A request becomes an `Exchange`, the application turns it into an `Answer`, and the answer goes out
as messages. What goes wrong here and not in the application (a stream that breaks, a header that
cannot be sent) is emitted as a failure; a client that left has cancelled us (`cycle.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from functools import lru_cache
from time import perf_counter
from typing import Protocol
from uuid import uuid4

from docgraph.exchange import (
    Answer,
    Body,
    Connection,
    DocgraphError,
    Exchange,
    Headers,
    Request,
    Stream,
    Upgrade,
)
from docgraph.exchange.errors import InternalError, Overloaded, RequestError
from docgraph.observe import emit
from docgraph.observe.events import RequestFailed, RequestFinished, RequestStarted
from docgraph.runtime import Gate
from docgraph.server.compress import check_accepts_compression
from docgraph.server.cors import CorsPolicy
from docgraph.server.http.channel import (
    Channel,
    HttpChannel,
    Outcome,
    Receive,
    Scope,
    Send,
    WsChannel,
)
from docgraph.server.http.trace import RequestIds
from docgraph.server.proxies import TrustedProxies
from docgraph.server.respond import Caller, Offload, Responder, error_body
from docgraph.server.settings import ServerSettings

__all__ = ["Application", "AsgiAdapter"]

_CLIENT_GONE = 499  # only the log shows it
_CLOSE = ("Connection", "close")


class Application(Protocol):
    """What stands behind the adapter; `answer` never raises."""

    async def startup(self) -> None:
        """Make ready to answer; raises `StartupError` when that cannot be."""

    async def shutdown(self) -> None:
        """Give everything back; also called when `startup` failed."""

    async def answer(self, exchange: Exchange) -> Answer:
        """The answer to one request."""
        ...


class AsgiAdapter:
    """The application as an ASGI callable."""

    def __init__(
        self,
        application: Application,
        settings: ServerSettings,
        *,
        offload: Offload | None = None,
        ids: RequestIds | None = None,
    ) -> None:
        limits = settings.limits
        self._application = application
        self._gate = Gate(
            limits.in_flight, limits.queue, "too many requests at a time", limits.wait_time
        )
        self._proxies = TrustedProxies(settings.core.trusted_proxies)
        self._ids = ids or RequestIds(settings.core.tracing_headers)
        self._max_parameters = settings.connection_options.max_parameters
        self._force_compression = settings.core.force_gzip_encoding
        self._responder = Responder(
            CorsPolicy(settings.cors.allow_origins), offload or asyncio.to_thread
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request, one WebSocket, or the life of the server."""
        if scope["type"] == "http":
            await self._handle(scope, receive, HttpChannel(scope, receive, send))
        elif scope["type"] == "websocket":
            await receive()  # websocket.connect, which says nothing more
            await self._handle(scope, receive, WsChannel(scope, receive, send))
        else:
            await self._live(receive, send)

    async def _live(self, receive: Receive, send: Send) -> None:
        await receive()
        await self._application.startup()
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self._application.shutdown()
        await send({"type": "lifespan.shutdown.complete"})

    async def _handle(self, scope: Scope, receive: Receive, channel: Channel) -> None:
        started = perf_counter()
        id, traces = self._ids.trace(scope["headers"])
        headers = Headers(scope["headers"])
        origin = headers.get("origin")
        caller = Caller(
            origin=origin.encode("latin-1") if origin is not None else None,
            accept_encoding=headers.get("accept-encoding"),
            traces=traces,
        )
        exchange, flaw = self._open(scope, receive, headers, id)
        exchange.started = started
        emit(RequestStarted(id))
        outcome = channel.outcome
        try:
            if flaw is None:
                answer = await self._answer(exchange, outcome)
            else:
                outcome.error = flaw.code
                answer = error_body(flaw)
            await self._respond(answer, channel, caller, exchange)
        except asyncio.CancelledError:
            outcome.aborted = True
            raise
        except ConnectionError:
            outcome.aborted = True  # a WebSocket whose peer is gone
        except Exception as error:
            await self._fail(error, channel, caller, exchange)
        finally:
            self._finish(exchange, outcome)

    # --- in ---------------------------------------------------------------------------------------

    def _open(
        self, scope: Scope, receive: Receive, headers: Headers, id: str
    ) -> tuple[Exchange, DocgraphError | None]:
        """The exchange; and what is wrong with the request, if it cannot be understood."""
        client, scheme = self._proxies.resolve(scope["client"], scope["scheme"], headers)
        host = self._proxies.find_host(scope["client"], headers)
        connection = _connection(client, scope["server"], scheme, scope["http_version"], host)
        method = scope.get("method", "GET")
        try:
            request = Request(
                method,
                scope["raw_path"],
                query_string=scope["query_string"],
                headers=headers,
                body=lambda: _read_chunks(receive),
                connection=connection,
            )
        except DocgraphError as error:
            return Exchange(
                Request(method, b"/", headers=headers, connection=connection), id
            ), error
        request.max_parameters = self._max_parameters
        return Exchange(request, id), None

    async def _answer(self, exchange: Exchange, outcome: Outcome) -> Answer:
        """Ask the application, when it is our turn."""
        try:
            if self._force_compression:
                check_accepts_compression(exchange.request.headers.get("accept-encoding"))
            if not self._gate.try_enter():
                await self._gate.enter()
        except DocgraphError as error:
            outcome.error = error.code
            body = error_body(error)
            if isinstance(error, Overloaded):
                body.headers.append(_CLOSE)
            return body
        try:
            return await self._application.answer(exchange)
        finally:
            self._gate.leave()

    # --- out --------------------------------------------------------------------------------------

    async def _respond(
        self, answer: Answer, channel: Channel, caller: Caller, exchange: Exchange
    ) -> None:
        if isinstance(answer, Body):
            head, content = await self._responder.render_body(answer, caller, exchange)
            await channel.send_body(head, content)
        elif isinstance(answer, Stream):
            await self._stream(answer, channel, caller, exchange)
        else:
            add_common_headers = self._responder.common_headers_adder(
                answer.headers, caller, exchange
            )
            if isinstance(answer, Upgrade):
                await channel.upgrade(answer, add_common_headers)
            else:
                await channel.take_over(answer, add_common_headers)

    async def _stream(
        self, answer: Stream, channel: Channel, caller: Caller, exchange: Exchange
    ) -> None:
        head, chunks = self._responder.render_stream(answer, caller, exchange)
        try:
            if exchange.request.method == "HEAD":
                await channel.send_body(head, b"")
                return
            await channel.send_stream(head, chunks)
        finally:
            for iterator in (chunks, answer.chunks):
                close = getattr(iterator, "aclose", None)
                if close is not None:
                    await close()

    async def _fail(
        self, error: Exception, channel: Channel, caller: Caller, exchange: Exchange
    ) -> None:
        """An unexpected error: emitted under an id, and answered if nothing was sent yet."""
        if not isinstance(error, DocgraphError):
            fault = uuid4().hex[:12]
            request = exchange.request
            emit(
                RequestFailed(
                    fault, exchange.id, error, request.method, request.path, exchange.service
                )
            )
            error = InternalError("the request could not be answered", details={"id": fault})
        channel.outcome.error = error.code
        if channel.outcome.status == 0:
            head, content = await self._responder.render_body(error_body(error), caller, exchange)
            await channel.send_body(head, content)

    def _finish(self, exchange: Exchange, outcome: Outcome) -> None:
        request, account = exchange.request, exchange.account
        client = request.connection.client
        emit(
            RequestFinished(
                request_id=exchange.id,
                method=request.method,
                path=request.path,
                status=outcome.status or _CLIENT_GONE,
                duration=perf_counter() - exchange.started,
                bytes_out=outcome.bytes_out,
                client=client[0] if client else "",
                account=account.name if account else "",
                service=exchange.service,
                app=exchange.app,
                error=outcome.error or exchange.error,
                aborted=outcome.aborted,
            )
        )


# The requests of one connection share it; the cache has room for all connections.
_connection = lru_cache(maxsize=4096)(Connection)


async def _read_chunks(receive: Receive) -> AsyncIterator[bytes]:
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise RequestError("the client left before its body was complete")
        if message["body"]:
            yield message["body"]
        more = message["more_body"]
