"""State shared by the connections of a process, and rejections of incomplete requests."""

from __future__ import annotations

import asyncio
from email.utils import formatdate
from time import time
from typing import Protocol
from uuid import uuid4

from docgraph.exchange import DocgraphError, Exchange, Headers, Request
from docgraph.exchange.errors import InternalError
from docgraph.exchange.request import cut_unreadable
from docgraph.observe import emit
from docgraph.observe.events import RequestFailed, RequestRefused
from docgraph.server.fields import RequestIds
from docgraph.server.http.body_budget import Bodies, Unread
from docgraph.server.http.connection_limits import Admitted, Cells, ConnectionLimits, Resting
from docgraph.server.http.exchanges import Application, Exchanges
from docgraph.server.http.framing import find_path
from docgraph.server.http.reader import RequestReader
from docgraph.server.proxies import TrustedProxies
from docgraph.server.respond import CorsPolicy, Head, Offload, Responder
from docgraph.server.settings import Limits, ServerSettings


class OpenConnection(Protocol):
    """A connection of any protocol."""

    transport: asyncio.Transport
    address: str

    def shutdown(self) -> None:
        """Finish accepted requests, then close."""

    def sweep(self, now: float) -> None:
        """Check the timeouts; called a few times a second."""


class ProcessState:
    """The connections, the limits, and the application."""

    def __init__(
        self,
        limits: Limits,
        exchanges: Exchanges,
        refusals: Refusals,
        connection_limits: ConnectionLimits,
    ) -> None:
        self.limits = limits
        self.exchanges = exchanges
        self.refusals = refusals
        self.bodies = Bodies(limits)
        self.unread = Unread(limits.unread_size)
        self.resting = Resting(exchanges.count_room)
        self.connections: dict[OpenConnection, Admitted] = {}
        self.date = b""
        self.is_leaving = False  # stopping: responses close their connections
        self._connection_limits = connection_limits
        self.set_date()

    def admit(self, connection: OpenConnection) -> Admitted:
        """Count an open connection; returns the requests that it may send."""
        self.connections[connection] = admitted = self._connection_limits.admit(connection.address)
        return admitted

    def hand_over(self, connection: OpenConnection, successor: OpenConnection) -> None:
        """Replace the protocol of a connection."""
        self.connections[successor] = self.connections.pop(connection)

    def release(self, connection: OpenConnection) -> None:
        """Count down a connection that has ended."""
        admitted = self.connections.pop(connection, Admitted.NOTHING)
        self._connection_limits.release(admitted, connection.address)

    def count_refused(self) -> int:
        """Return the number of connections above the limit that are still open."""
        return len(self.connections) - self._connection_limits.count_own()

    def sweep(self, now: float) -> None:
        """Check all connections; called a few times a second."""
        self.set_date()
        for connection in tuple(self.connections):
            connection.sweep(now)

    def set_date(self) -> None:
        """Set the line of the date for the next responses."""
        self.date = f"Date: {formatdate(time(), usegmt=True)}\r\n".encode()


def build_state(
    application: Application,
    settings: ServerSettings,
    limits: Limits | None = None,
    *,
    offload: Offload = asyncio.to_thread,
    cells: Cells | None = None,
    worker: int = 0,
) -> ProcessState:
    """Build the state that connections share."""
    ids = RequestIds(settings.core.tracing_headers)
    responder = Responder(CorsPolicy(settings.cors.allow_origins), offload)
    limits, proxies = limits or settings.limits, TrustedProxies(settings.core.trusted_proxies)
    return ProcessState(
        limits,
        Exchanges(application, settings, responder, ids, proxies),
        Refusals(application, responder, ids),
        ConnectionLimits(limits, proxies, cells, worker),
    )


# Rejections by the protocol layer, before a request is complete.
#
# They look like all others: the format of the service or a page, request id, CORS, logged. They
# always end the connection, because what follows on it can no longer be trusted.


class Refusals:
    """Renders and reports rejections."""

    def __init__(self, application: Application, responder: Responder, ids: RequestIds) -> None:
        self._application = application
        self._responder = responder
        self._ids = ids

    def render(self, error: DocgraphError, client: str, read: RequestReader) -> tuple[Head, bytes]:
        """Return the response to a request as far as it was read, and report the rejection."""
        id, trace = self._ids.trace(read.headers)
        emit(
            RequestRefused(
                status=error.status,
                reason=error.message,
                client=client,
                request_id=id,
                method=read.method,
                path=read.target.partition(b"?")[0].decode("latin-1"),
            )
        )
        path = cut_unreadable(find_path(read.target))  # it selects the format of the error
        request = Request(read.method, path, headers=Headers.of_lower_case(read.headers))
        exchange = Exchange(request, id)
        body = self._application.render_error(error, exchange)
        return self._responder.render_body(body, exchange, trace)


def report_fault(error: Exception) -> DocgraphError:
    """Report an internal error during reading: details to the log, an id to the caller."""
    id = uuid4().hex[:12]
    emit(RequestFailed(id, "", error))
    return InternalError("the request could not be read", details={"id": id})
