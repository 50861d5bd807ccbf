"""Provider `events`: answers change stream requests over WebSocket or server-sent events."""

from __future__ import annotations

import asyncio
from functools import partial
from math import ceil
from typing import ClassVar, Final

from docgraph.events.hub import Hub
from docgraph.events.sections import Events
from docgraph.events.stream_client import Client
from docgraph.events.subscription_key import StreamSession, find_resume_token
from docgraph.events.transports import EventChunks, serve_socket
from docgraph.exchange import (
    Answer,
    Exchange,
    Renew,
    Snapshot,
    Stream,
    Subscription,
    Upgrade,
)
from docgraph.exchange.errors import RequestError
from docgraph.exchange.origin import check_socket_origin
from docgraph.exchange.response import EVENT_HEADERS
from docgraph.observe import emit
from docgraph.observe.event import StreamClient
from docgraph.plugins.kinds import Provider
from docgraph.runtime import Generations, Tasks
from docgraph.runtime.open_streams import Reauthorizer, StreamLimits
from docgraph.runtime.sections import Core
from docgraph.store import Store
from docgraph.store.guard.event_stages import hides_ids

_EVENTS: Final = "text/event-stream"


class Streams:
    """The open streams of this process."""

    def __init__(
        self, hub: Hub, places: StreamLimits, renewals: Reauthorizer, heartbeat: float
    ) -> None:
        self._hub = hub
        self._places = places
        self._renewals = renewals
        self._heartbeat = heartbeat

    async def answer(
        self,
        exchange: Exchange,
        subscription: Subscription,
        renew: Renew,
        snapshot: Snapshot | None = None,
    ) -> Answer:
        """Open a WebSocket or server-sent events; raise the error that rejects the request."""
        is_socket = exchange.request.connection.is_websocket
        _check_transport(exchange, is_socket=is_socket)
        client = await self._open(exchange, subscription, renew, snapshot, is_socket=is_socket)
        if is_socket:
            return Upgrade(partial(serve_socket, client))
        place = b"" if hides_ids(subscription.shown) else client.place
        chunks = EventChunks(client, self._heartbeat, place)
        return Stream(chunks, media_type=_EVENTS, headers=list(EVENT_HEADERS), stop=chunks.stop)

    async def _open(
        self,
        exchange: Exchange,
        subscription: Subscription,
        renew: Renew,
        snapshot: Snapshot | None,
        *,
        is_socket: bool,
    ) -> Client:
        """Return a client that lives until the task of its request ends, in whatever way."""
        token = find_resume_token(exchange.request, subscription)
        since = self._renewals.read_announced()
        give_back = self._places.acquire(exchange.account, exchange.request.connection.client)
        try:
            client = await self._hub.join(subscription, token, snapshot)
        except BaseException:
            give_back()
            raise
        account = exchange.account
        ends = None if account is None else account.expires_at
        session = StreamSession(client, subscription, renew, expires_at=ends)
        self._renewals.add(session, since)
        transport = "websocket" if is_socket else "sse"
        emit(StreamClient(transport))

        def close(_: object) -> None:
            self._renewals.remove(session)
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
        check_socket_origin(request.page)
    elif _EVENTS not in (request.headers.get("accept") or "").lower():
        raise RequestError(
            "Change Stream requires WebSocket or SSE — send either 'Upgrade: websocket' "
            "or 'Accept: text/event-stream'"
        )


class EventStreamsProvider(Provider):
    """Provides the streams that the REST API answers with."""

    name: ClassVar[str] = "events"
    description: ClassVar[str] = "change streams over WebSocket and server-sent events"
    provides: ClassVar[str] = "event-streams"
    Config = Events

    def __init__(
        self, config: Events, *, store: Store, generations: Generations, core: Core
    ) -> None:
        self._tasks = Tasks()
        self._hub = Hub(
            store,
            config,
            most_cursors=config.count_cursors(core.workers),
            most_filters=ceil(config.max_filters / core.workers),
        )
        self._renewals = Reauthorizer(generations, config.renewal_interval_ms / 1000)
        self._streams = Streams(
            self._hub,
            StreamLimits(
                "change streams",
                per_user=ceil(config.max_connections_per_user / core.workers),
                per_address=ceil(config.max_connections_per_address / core.workers),
            ),
            self._renewals,
            config.heartbeat_interval_ms / 1000,
        )

    def get(self) -> Streams:
        """Return the instance that all plugins share."""
        return self._streams

    async def provision(self) -> None:
        """Start the reauthorization of connected clients."""
        self._tasks.start("stream-renewals", self._renewals.patrol)
        self._tasks.start("stream-expiries", self._renewals.patrol_expiries)

    async def close(self) -> None:
        """Close the cursors."""
        await self._tasks.close()
        await self._hub.close()
