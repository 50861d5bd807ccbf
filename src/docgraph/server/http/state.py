"""State of one connection, state that all connections share, rejections of incomplete requests."""

from __future__ import annotations

import asyncio
from email.utils import formatdate
from enum import Enum, auto
from math import inf
from time import time
from typing import Any, Final, Protocol
from uuid import uuid4

from docgraph.exchange import Connection, DocgraphError, Exchange, Headers, Request
from docgraph.exchange.errors import InternalError
from docgraph.exchange.request import cut_unreadable
from docgraph.observe import emit
from docgraph.observe.events import RequestFailed, RequestRefused
from docgraph.runtime.allocations import explain_shortage
from docgraph.runtime.loop_share import LoopShare
from docgraph.server.fields import RawHeaders, RequestIds
from docgraph.server.http.connection_limits import Admitted, Cells, ConnectionLimits, OverloadPause
from docgraph.server.http.connection_share import ConnectionShare
from docgraph.server.http.exchanges import Application, Exchanges
from docgraph.server.http.framing import find_path
from docgraph.server.http.message_bodies import UnreadResponses, UploadBudget
from docgraph.server.proxies import UNIX, TrustedProxies
from docgraph.server.respond import CorsPolicy, Head, OffloadCompression, Responder
from docgraph.server.settings import Limits, ServerSettings

_SLOWEST: Final = 1024  # bytes per second that a peer has to read
_CLOSED_PER_TURN: Final = 100  # connections; closing one takes 0.02 ms, thousands leave at once


class Phase(Enum):
    """Phases of a connection, each with its own timeout."""

    NEW = auto()  # the first byte
    HEAD = auto()  # the end of the head
    WORK = auto()  # nothing from the client: the application is running
    BODY = auto()  # the body, which the application reads
    DRAIN = auto()  # the rest of a short body that the service did not read
    IDLE = auto()  # the next request
    LINGER = auto()  # the client to read its last response, and to disconnect


class StallWatch:
    """Checks the send buffer of one connection at each call."""

    __slots__ = ("_mark", "_patience", "_pending", "_transport")

    def __init__(self, transport: asyncio.Transport, patience: float) -> None:
        self._transport = transport
        self._patience = patience
        self._mark = inf  # since when the buffer is not empty, or last shrank enough
        self._pending = 0

    def reset(self) -> None:
        """Restart the measurement: the peer has read."""
        self._mark = inf

    def is_stalled(self, now: float) -> bool:
        """Return whether the peer read less than 1 KiB per second during the timeout."""
        pending = self._transport.get_write_buffer_size()
        if pending == 0:
            self._mark = inf
        elif self._mark == inf:
            self._mark, self._pending = now, pending
        elif self._pending - pending >= _SLOWEST * self._patience:
            self._mark, self._pending = now, pending  # enough for the whole timeout
        elif now - self._mark >= self._patience:
            return True
        return False


def describe_peer(transport: asyncio.Transport) -> Connection:
    """Return the addresses of both ends, if they have any, and whether TLS is used."""
    return Connection(
        _read_address(transport.get_extra_info("peername")),
        _read_address(transport.get_extra_info("sockname")),
        "https" if transport.get_extra_info("sslcontext") else "http",
    )


def _read_address(name: Any) -> tuple[str, int] | None:
    """Return host and port; those of a Unix socket, whose name is a text, are `unix` and 0."""
    if isinstance(name, tuple):
        return str(name[0]), int(name[1])
    return None if name is None else (UNIX, 0)


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
        share: ConnectionShare,
    ) -> None:
        self.limits = limits
        self.exchanges = exchanges
        self.share = share
        self.refusals = refusals
        self.bodies = UploadBudget(limits)
        self.unread = UnreadResponses(limits.unread_size)
        self.resting = OverloadPause(exchanges.count_room)
        self.connections: dict[OpenConnection, Admitted] = {}
        self.date = b""
        self._closings = LoopShare(_CLOSED_PER_TURN)
        self.is_leaving = False  # stopping: responses close their connections
        self._connection_limits = connection_limits
        self.trusts = connection_limits.trusts  # whether an address is that of a trusted proxy
        self.set_date()

    def admit(self, connection: OpenConnection) -> Admitted:
        """Count an open connection; returns the requests that it may send."""
        self.connections[connection] = admitted = self._connection_limits.admit(connection.address)
        return admitted

    def hand_over(self, connection: OpenConnection, successor: OpenConnection) -> None:
        """Replace the protocol of a connection."""
        self.connections[successor] = self.connections.pop(connection)

    def close_in_turn(self, transport: asyncio.Transport, connection: Connection) -> bool:
        """Close the connection of a client that has left, in this turn of the loop or a later one.

        Returns whether the connection stays open until then: one with TLS closes by itself.
        """
        if connection.scheme == "https":
            return False
        self._closings.call(transport.close)
        return True

    def release(self, connection: OpenConnection) -> None:
        admitted = self.connections.pop(connection, Admitted.NOTHING)
        self._connection_limits.release(admitted, connection.address)
        self.share.add(-1)

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
    offload: OffloadCompression = asyncio.to_thread,
    cells: Cells | None = None,
    worker: int = 0,
) -> ProcessState:
    ids = RequestIds(settings.core.tracing_headers)
    responder = Responder(CorsPolicy(settings.cors.allow_origins), offload)
    limits, proxies = limits or settings.limits, TrustedProxies(settings.core.trusted_proxies)
    return ProcessState(
        limits,
        Exchanges(application, settings, responder, ids, proxies),
        Refusals(application, responder, ids),
        ConnectionLimits(limits, proxies, cells, worker),
        ConnectionShare(cells, worker),
    )


class ReadHead(Protocol):
    """A request head as far as it was read."""

    @property
    def method(self) -> str:
        """Its method; empty if it is not known."""

    @property
    def target(self) -> bytes:
        """Its target."""

    @property
    def headers(self) -> RawHeaders:
        """Its fields, with names in lower case."""


class Refusals:
    """Renders and reports rejections by the protocol layer, before a request is complete.

    They look like all others: the format of the service or a page, request id, CORS, logged. They
    always end the connection, because what follows on it can no longer be trusted.
    """

    def __init__(self, application: Application, responder: Responder, ids: RequestIds) -> None:
        self._application = application
        self._responder = responder
        self._ids = ids

    def render(self, error: DocgraphError, client: str, read: ReadHead) -> tuple[Head, bytes]:
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
    if isinstance(error, MemoryError):
        return explain_shortage()
    id = uuid4().hex[:12]
    emit(RequestFailed(id, "", error))
    return InternalError("the request could not be read", details={"id": id})
