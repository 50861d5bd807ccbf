"""Provider `events`: answers change stream requests over WebSocket or server-sent events (SSE)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from math import ceil
from random import randint
from time import monotonic
from typing import ClassVar, Final

from docgraph.events.encoded_event import EncodedEvent
from docgraph.events.hub import Hub
from docgraph.events.sections import Events
from docgraph.events.stream_client import Client
from docgraph.events.subscription_key import StreamSession, find_resume_token
from docgraph.exchange import (
    Answer,
    Exchange,
    Renew,
    Snapshot,
    Socket,
    Stream,
    Subscription,
    Upgrade,
)
from docgraph.exchange.close_reason import LEFT, STOPPED, MessageLimit, StreamClosed
from docgraph.exchange.errors import RequestError
from docgraph.exchange.origin import check_socket_origin
from docgraph.exchange.response import EVENT_HEADERS
from docgraph.observe import emit
from docgraph.observe.engine_events import StreamClient
from docgraph.plugins.kinds import Provider
from docgraph.runtime import Generations, Tasks, cancel_until_over
from docgraph.runtime.open_streams import Reauthorizer, StreamLimits
from docgraph.runtime.sections import Core
from docgraph.runtime.shared_slots import SharedSlots
from docgraph.store import Store
from docgraph.store.guard.event_stages import hides_ids

_MAX_MESSAGES: Final = 100  # per client and minute, of any content
_HEARTBEAT: Final = b":\n\n"
_RETRY_MS: Final = (1000, 5000)
_LARGE: Final = 64 * 1024  # bytes of an event that is not joined with others


async def serve_socket(
    client: Client, socket: Socket, *, clock: Callable[[], float] = monotonic
) -> None:
    """Send events until the stream ends, the peer disconnects or it sends too much."""
    socket.count_frame = MessageLimit(_MAX_MESSAGES, client.end, clock)
    listening = asyncio.create_task(_listen(client, socket), name="stream client")
    client.on_end = listening.cancel
    client.pass_to(socket.offer)
    try:
        while True:
            for notice in await client.read():
                await socket.send(notice.message)
    except StreamClosed as ended:
        await socket.close(ended.ending.code, ended.ending.reason)
    finally:
        client.on_end = None
        await cancel_until_over({listening})


async def _listen(client: Client, socket: Socket) -> None:
    """Detect that the peer has disconnected.

    It is cancelled when the client is ended. It then closes the socket, because a peer that does
    not read blocks the other task.
    """
    try:
        while await socket.receive() is not None:
            pass  # its content has no effect
        client.end(LEFT)
    finally:
        if client.ending is not None:
            await socket.close(client.ending.code, client.ending.reason)


class EventChunks(AsyncIterator[bytes]):
    """Server-sent events, with a comment after each heartbeat interval without events.

    The first chunk is sent immediately: some proxies and clients hold back the response headers
    until then. It has the time after which a client connects again (`retry`), different for each so
    that not all of them come at the same moment, and the id of the `place` where the client begins,
    if the client may see it. A client that reconnects before its first event therefore misses
    nothing.
    """

    def __init__(self, client: Client, heartbeat: float, place: bytes = b"") -> None:
        self._client = client
        self._heartbeat = heartbeat
        self._opening = b"retry:%d\n%s\n" % (
            randint(*_RETRY_MS),  # noqa: S311 - no secret
            b"id:%s\n" % place if place else b"",
        )
        self._unsent: deque[EncodedEvent] = deque()
        self._reading: asyncio.Task[list[EncodedEvent]] | None = None
        self._is_over = False

    async def __anext__(self) -> bytes:
        if self._is_over:
            raise StopAsyncIteration
        if self._opening:
            opening, self._opening = self._opening, b""
            return opening
        try:
            if not self._unsent or self._client.ending is not None:
                self._unsent = deque(await self._read())
            return self._join_small()
        except TimeoutError:
            return _HEARTBEAT
        except StreamClosed as ended:
            self._is_over = True
            return ended.ending.chunk

    def stop(self) -> None:
        """End the stream with the reason that the server stops."""
        self._client.end(STOPPED)
        if self._reading is not None:
            self._reading.cancel()

    def _join_small(self) -> bytes:
        """Return the next events in one chunk; a large one alone, since its bytes are shared."""
        chunks = [self._unsent.popleft().chunk]
        size = len(chunks[0])
        while self._unsent and (size := size + len(self._unsent[0].chunk)) <= _LARGE:
            chunks.append(self._unsent.popleft().chunk)
        return b"".join(chunks)  # of one, this is no copy

    async def _read(self) -> list[EncodedEvent]:
        """Return the next events; raise `TimeoutError` after a heartbeat without any."""
        if self._reading is None and self._client.is_up_to_date:
            async with asyncio.timeout(self._heartbeat):
                return await self._client.read()
        # Runs in its own task: reading the past may take longer than the heartbeat interval.
        reading = self._reading = self._reading or asyncio.create_task(self._client.read())
        done, _ = await asyncio.wait({reading}, timeout=self._heartbeat)
        if not done:
            raise TimeoutError
        self._reading = None
        if self._client.ending is not None:
            raise StreamClosed(self._client.ending)
        return reading.result()

    async def aclose(self) -> None:
        """End the client after its connection is closed."""
        if self._reading is not None:
            await cancel_until_over({self._reading})


_EVENTS: Final = "text/event-stream"


@dataclass(frozen=True, slots=True)
class Streams:
    """The open streams of this process."""

    _hub: Hub
    _places: StreamLimits
    _renewals: Reauthorizer
    _heartbeat: float

    async def answer(
        self,
        exchange: Exchange,
        subscription: Subscription,
        renew: Renew,
        snapshot: Snapshot | None = None,
    ) -> Answer:
        """Open a WebSocket or server-sent events; raise the error that rejects the request."""
        request = exchange.request
        is_socket = request.connection.is_websocket
        if is_socket:
            check_socket_origin(request.page)
        elif _EVENTS not in (request.headers.get("accept") or "").lower():
            raise RequestError(
                "Change Stream requires WebSocket or SSE — send either 'Upgrade: websocket' "
                "or 'Accept: text/event-stream'"
            )
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
        self._slots = SharedSlots(generations.directory / "stream-cursors", config.max_cursors)
        self._hub = Hub(
            store,
            config,
            most_cursors=config.count_cursors(),
            slots=self._slots,
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
        return self._streams

    async def provision(self) -> None:
        """Start the reauthorization of connected clients."""
        self._tasks.start("stream-renewals", self._renewals.run)
        self._tasks.start("stream-expiries", self._renewals.close_expired)

    async def close(self) -> None:
        await self._tasks.close()
        await self._hub.close()
        self._slots.close()
