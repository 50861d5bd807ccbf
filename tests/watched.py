"""What clients of a change stream are told, without a server: a subscription, then its events."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from pymongo.collection import Collection

from docgraph.events.hub import Hub
from docgraph.events.sections import Events
from docgraph.events.stream_client import Client
from docgraph.exchange import Subscription
from docgraph.exchange.close_reason import StreamClosed
from docgraph.runtime import cancel_until_over
from docgraph.store import Store

__all__ = ["Watched", "open_hub", "watching"]

Things = Collection[dict[str, Any]]


class Watched:
    """The events of one client, as they were before they became JSON."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._events: deque[dict[str, Any]] = deque()

    def __aiter__(self) -> Watched:
        return self

    async def __anext__(self) -> dict[str, Any]:
        while not self._events:
            try:
                self._events += [notice.event for notice in await self._client.read()]
            except StreamClosed:
                raise StopAsyncIteration from None
        return self._events.popleft()

    async def try_next(self) -> dict[str, Any] | None:
        return await anext(self)


@asynccontextmanager
async def open_hub(store: Store) -> AsyncIterator[Hub]:
    hub = Hub(store, Events(), most_cursors=10, most_filters=1000)
    try:
        yield hub
    finally:
        await cancel_until_over({source.task for source in hub._open_sources})


@asynccontextmanager
async def watching(
    store: Store, things: Things, *stages: Any, hub: Hub | None = None, **options: Any
) -> AsyncIterator[Watched]:
    """A client with these stages, rows (`row`), shown properties, and images or not."""
    asked = Subscription(things.database.name, things.name, "test", stages, "standard", **options)
    async with open_hub(store) as own:
        client = await (hub or own).join(asked, None)
        try:
            yield Watched(client)
        finally:
            client.leave()
