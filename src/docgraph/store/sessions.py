"""Logical sessions for reads, kept and used again.

Without one the driver makes a session for every command and ends it afterwards, which is a tenth
of what a small read costs. A session serves one command at a time; only reads use those here, so
that neither transactions nor numbers of retryable writes are ever attached to them. One that was
idle for long is a new one to the server.
"""

from __future__ import annotations

from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.mongo_client import AsyncMongoClient

from docgraph.exchange.data import Document

__all__ = ["Sessions"]

_KEPT = 256


class Sessions:
    """The idle sessions of a client."""

    def __init__(self, client: AsyncMongoClient[Document]) -> None:
        self._client = client
        self._idle: list[AsyncClientSession] = []

    def take(self) -> AsyncClientSession | None:
        """A session for one command; None where the server, as far as is known, has none."""
        if self._idle:
            return self._idle.pop()
        if self._client.topology_description.logical_session_timeout_minutes is None:
            return None
        return self._client.start_session(causal_consistency=False)

    def give_back(self, session: AsyncClientSession | None) -> None:
        """Keep the session for the next command, also when this one failed: it only read."""
        if session is not None and len(self._idle) < _KEPT:
            self._idle.append(session)

    async def close(self) -> None:
        """Hand the sessions to the driver, which tells the server that they have ended."""
        while self._idle:
            await self._idle.pop().end_session()
