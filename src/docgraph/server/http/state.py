"""What the connections of one process share, and what the workers of an instance count together."""

from __future__ import annotations

import asyncio
from collections.abc import MutableSequence
from email.utils import formatdate
from time import time
from typing import Protocol

from docgraph.server.cors import CorsPolicy
from docgraph.server.http.bodies import Bodies
from docgraph.server.http.exchanges import Application, Exchanges
from docgraph.server.http.refuse import Refusals
from docgraph.server.http.resting import Resting
from docgraph.server.http.trace import RequestIds
from docgraph.server.http.unread import Unread
from docgraph.server.respond import Offload, Responder
from docgraph.server.settings import Limits, ServerSettings

__all__ = ["OpenConnection", "ProcessState", "build_state"]


class OpenConnection(Protocol):
    """A connection, whatever is spoken on it."""

    transport: asyncio.Transport

    def shutdown(self) -> None:
        """Finish what was accepted, then close."""

    def sweep(self, now: float) -> None:
        """Called a few times a second: whose time is up?"""


class ProcessState:
    """The connections, the limits, and who answers.

    `counts` has one cell per worker, each written by its own worker only: no lock is needed, and
    the sum is the number of connections of the instance.
    """

    def __init__(
        self,
        limits: Limits,
        exchanges: Exchanges,
        refusals: Refusals,
        counts: MutableSequence[int],
        worker: int,
    ) -> None:
        self.limits = limits
        self.exchanges = exchanges
        self.refusals = refusals
        self.bodies = Bodies(limits)
        self.unread = Unread(limits.unread_size)
        self.resting = Resting(exchanges.count_room)
        self.connections: set[OpenConnection] = set()
        self.date = b""
        self.is_leaving = False  # asked to stop: no connection stays open behind its answer
        self._counts = counts
        self._worker = worker
        self.set_date()

    def count_connections(self) -> int:
        """Note how many connections this process has; returns those of the instance."""
        self._counts[self._worker] = len(self.connections)
        return sum(self._counts)

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
    counts: MutableSequence[int] | None = None,
    worker: int = 0,
) -> ProcessState:
    """All that connections need to have an application answer."""
    ids = RequestIds(settings.core.tracing_headers)
    responder = Responder(CorsPolicy(settings.cors.allow_origins), offload)
    return ProcessState(
        limits or settings.limits,
        Exchanges(application, settings, responder, ids),
        Refusals(application, responder, ids),
        [0] if counts is None else counts,
        worker,
    )
