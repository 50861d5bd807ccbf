"""Transports of change streams: WebSocket messages and server-sent events (SSE)."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from random import randint
from time import monotonic
from typing import Final

from docgraph.events.encoded_event import EncodedEvent
from docgraph.events.stream_client import Client
from docgraph.exchange import Socket
from docgraph.exchange.close_reason import LEFT, STOPPED, MessageLimit, StreamClosed
from docgraph.runtime import cancel_until_over

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
