"""What the connections of one process share, and what the workers of an instance count together."""

from __future__ import annotations

import asyncio
from email.utils import formatdate
from time import time
from typing import Protocol

from docgraph.server.cors import CorsPolicy
from docgraph.server.http.bodies import Bodies
from docgraph.server.http.connection_limits import Admitted, Cells, ConnectionLimits
from docgraph.server.http.exchanges import Application, Exchanges
from docgraph.server.http.refuse import Refusals
from docgraph.server.http.resting import Resting
from docgraph.server.http.trace import RequestIds
from docgraph.server.http.unread import Unread
from docgraph.server.proxies import TrustedProxies
from docgraph.server.respond import Offload, Responder
from docgraph.server.settings import Limits, ServerSettings

__all__ = ["OpenConnection", "ProcessState", "build_state"]


class OpenConnection(Protocol):
    """A connection, whatever is spoken on it."""

    transport: asyncio.Transport
    address: str

    def shutdown(self) -> None:
        """Finish what was accepted, then close."""

    def sweep(self, now: float) -> None:
        """Called a few times a second: whose time is up?"""


class ProcessState:
    """The connections, the limits, and who answers."""

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
        self.is_leaving = False  # asked to stop: no connection stays open behind its answer
        self._connection_limits = connection_limits
        self.set_date()

    def admit(self, connection: OpenConnection) -> Admitted:
        """A connection is open: what it may ask for."""
        self.connections[connection] = admitted = self._connection_limits.admit(connection.address)
        return admitted

    def hand_over(self, connection: OpenConnection, successor: OpenConnection) -> None:
        """Something else is spoken on the same connection."""
        self.connections[successor] = self.connections.pop(connection)

    def release(self, connection: OpenConnection) -> None:
        """A connection has ended."""
        admitted = self.connections.pop(connection, Admitted.NOTHING)
        self._connection_limits.release(admitted, connection.address)

    def count_refused(self) -> int:
        """Connections that are one too many, and not closed yet."""
        return len(self.connections) - self._connection_limits.count_own()

    def sweep(self, now: float) -> None:
        """Look at all connections; called a few times a second."""
        self.set_date()
        for connection in tuple(self.connections):
            connection.sweep(now)

    def set_date(self) -> None:
        """The line of the date in the responses of the next moment."""
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
    """All that connections need to have an application answer."""
    ids = RequestIds(settings.core.tracing_headers)
    responder = Responder(CorsPolicy(settings.cors.allow_origins), offload)
    limits, proxies = limits or settings.limits, TrustedProxies(settings.core.trusted_proxies)
    return ProcessState(
        limits,
        Exchanges(application, settings, responder, ids, proxies),
        Refusals(application, responder, ids),
        ConnectionLimits(limits, proxies, cells, worker),
    )
