"""`events`: answers requests for change streams, over WebSocket or by server-sent events."""

from __future__ import annotations

import asyncio
from functools import partial
from math import ceil
from typing import ClassVar, Final

from docgraph.events.client import Client
from docgraph.events.hub import Hub
from docgraph.events.identity import find_resume_token
from docgraph.events.places import Places
from docgraph.events.renewals import Renewals, Session
from docgraph.events.sections import Events
from docgraph.events.transports import EventChunks, serve_socket
from docgraph.exchange import (
    Answer,
    Exchange,
    Renew,
    Stream,
    Subscription,
    Upgrade,
)
from docgraph.exchange.errors import Forbidden, RequestError
from docgraph.exchange.pages import Page
from docgraph.observe import emit
from docgraph.observe.stream_events import StreamClient
from docgraph.plugins.kinds import Provider
from docgraph.runtime import Generations, Tasks
from docgraph.runtime.sections import Core
from docgraph.store import Store
from docgraph.store.guard.event_ids import hides_ids

__all__ = ["EventStreamsProvider", "Streams"]

_EVENTS: Final = "text/event-stream"
_SOCKET_SCHEMES: Final = frozenset({"ws", "wss"})
# Proxies must pass each event on at once.
_HEADERS: Final = (("Cache-Control", "no-store"), ("X-Accel-Buffering", "no"))


class Streams:
    """The open streams of this process."""

    def __init__(self, hub: Hub, places: Places, renewals: Renewals, heartbeat: float) -> None:
        self._hub = hub
        self._places = places
        self._renewals = renewals
        self._heartbeat = heartbeat

    async def answer(self, exchange: Exchange, subscription: Subscription, renew: Renew) -> Answer:
        """A WebSocket or server-sent events, as the request asks; raises what refuses it."""
        is_socket = exchange.request.connection.scheme in _SOCKET_SCHEMES
        _check_transport(exchange, is_socket=is_socket)
        client = await self._open(exchange, subscription, renew, is_socket=is_socket)
        if is_socket:
            return Upgrade(partial(serve_socket, client))
        # A place may be that of an event which this caller is not told of.
        is_secret = subscription.row is not None or hides_ids(subscription.shown)
        chunks = EventChunks(client, self._heartbeat, b"" if is_secret else client.find_place())
        return Stream(chunks, media_type=_EVENTS, headers=list(_HEADERS))

    async def _open(
        self, exchange: Exchange, subscription: Subscription, renew: Renew, *, is_socket: bool
    ) -> Client:
        """A client that is there as long as the task of its request, however that ends."""
        token = find_resume_token(exchange.request, subscription)
        since = self._renewals.read_announced()
        give_back = self._places.take(exchange)
        try:
            client = await self._hub.join(subscription, token)
        except BaseException:
            give_back()
            raise
        session = Session(client, subscription, renew)
        self._renewals.add(session, since)
        transport = "websocket" if is_socket else "sse"
        emit(StreamClient(transport))

        def close(_: object) -> None:
            self._renewals.sessions.discard(session)
            client.leave()
            give_back()
            emit(StreamClient(transport, client.ending.word if client.ending else "left"))

        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - requests are answered in tasks
        task.add_done_callback(close)
        return client


def _check_transport(exchange: Exchange, *, is_socket: bool) -> None:
    request = exchange.request
    if is_socket:
        if request.page is Page.FOREIGN:  # browsers ask nobody before they open a WebSocket
            raise Forbidden("a page of another origin may not open a WebSocket")
    elif _EVENTS not in (request.headers.get("accept") or "").lower():
        raise RequestError(
            "Change Stream requires WebSocket or SSE — send either 'Upgrade: websocket' "
            "or 'Accept: text/event-stream'"
        )


class EventStreamsProvider(Provider):
    """Gives the REST API the streams that it answers with."""

    name: ClassVar[str] = "events"
    description: ClassVar[str] = "change streams over WebSocket and server-sent events"
    provides: ClassVar[str] = "event-streams"
    Config = Events

    def __init__(
        self, config: Events, *, store: Store, generations: Generations, core: Core
    ) -> None:
        self._tasks = Tasks()
        self._hub = Hub(store, config, most_cursors=ceil(config.max_cursors / core.workers))
        self._renewals = Renewals(generations, config.renewal_interval_ms / 1000, self._hub.move)
        self._streams = Streams(
            self._hub,
            Places(config, core.workers),
            self._renewals,
            config.heartbeat_interval_ms / 1000,
        )

    def get(self) -> Streams:
        """The same for everybody."""
        return self._streams

    async def provision(self) -> None:
        """Begin to look after those who are connected."""
        self._tasks.start("stream-renewals", self._renewals.patrol)

    async def close(self) -> None:
        """Close the cursors."""
        await self._tasks.close()
        await self._hub.close()
