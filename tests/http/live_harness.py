"""Clients of live queries, in memory: server-sent events of a POST, and `graphql-transport-ws`.

async with subscribe(service, "app", "query @live { … }") as client:
    answer = await client.next()

async with connect(service, "app") as socket:
    await socket.begin()
    socket.subscribe("1", "query @live { … }")
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from wsproto.events import TextMessage

from tests.http.harness import Document, Service
from tests.http.stream_harness import SocketClient, SseClient

PROTOCOL = "graphql-transport-ws"


class LiveEventsClient(SseClient):
    """Server-sent events of one operation; `is_complete` after the event `complete`."""

    method = "POST"
    kinds = frozenset({"next", "complete"})
    is_complete = False

    def _read_block(self, block: str) -> None:
        if block.startswith("event:complete"):
            assert block == "event:complete\ndata:"
            self.is_complete = True
            self.closed = (0, "complete")
        else:
            super()._read_block(block)


class LiveSocketClient(SocketClient):
    """A connection with several operations."""

    protocols = (PROTOCOL,)

    def tell(self, message: Any) -> None:
        """Send a message, as JSON unless it is text."""
        text = message if isinstance(message, str) else json.dumps(message)
        self._service.loop.call_soon_threadsafe(self.say, TextMessage(text))

    async def begin(self, payload: Document | None = None) -> None:
        """Initialize the connection."""
        message: Document = {"type": "connection_init"}
        self.tell(message if payload is None else {**message, "payload": payload})
        assert await self.next() == {"type": "connection_ack"}

    def subscribe(self, id: str, query: str, **others: Any) -> None:
        self.tell({"id": id, "type": "subscribe", "payload": {"query": query, **others}})

    async def next_of(self, id: str, kind: str = "next") -> Any:
        """The payload of the next message, which has to be this one."""
        message = await self.next()
        assert (message["id"], message["type"]) == (id, kind), message
        return message.get("payload")


@asynccontextmanager
async def subscribe(
    service: Service,
    app: str,
    query: str,
    headers: Mapping[str, str] | None = None,
    **others: Any,
) -> AsyncIterator[LiveEventsClient]:
    """A client of one operation; raises `Refused` when the answer has no events."""
    state = service.client._transport.state  # type: ignore[attr-defined]
    client = LiveEventsClient(service, state, "test")
    client.body = json.dumps({"query": query, **others}).encode()
    fields = {"content-type": "application/json", **(headers or {})}
    try:
        await service.there(client.open(f"{service.base}/{app}", fields))
        yield client
    finally:
        await client.leave()


@asynccontextmanager
async def connect(
    service: Service, app: str, headers: Mapping[str, str] | None = None
) -> AsyncIterator[LiveSocketClient]:
    """A WebSocket; raises `Refused` when the handshake is not accepted."""
    state = service.client._transport.state  # type: ignore[attr-defined]
    client = LiveSocketClient(service, state, "test")
    try:
        await service.there(client.open(f"{service.base}/{app}", headers or {}))
        yield client
    finally:
        await client.leave()
