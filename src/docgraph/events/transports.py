"""The two ways to a client: WebSocket messages, and server-sent events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Final

from docgraph.events.client import Client
from docgraph.events.ending import LEFT, TOO_MANY_MESSAGES, Ended
from docgraph.events.notice import Notice
from docgraph.exchange import Socket
from docgraph.runtime import cancel_until_over

__all__ = ["EventChunks", "serve_socket"]

_MOST_MESSAGES: Final = 100  # of a client within a minute, whatever is in them
_MINUTE: Final = 60.0
_HEARTBEAT: Final = b":\n\n"


async def serve_socket(
    client: Client, socket: Socket, *, clock: Callable[[], float] = monotonic
) -> None:
    """Send events until there are no more, or the peer is gone, or talks too much."""
    socket.count_frame = _MessageLimit(client, clock)
    listening = asyncio.create_task(_listen(client, socket), name="stream client")
    client.on_end = listening.cancel
    client.pass_to(socket.offer)
    try:
        while True:
            for notice in await client.read():
                await socket.send(notice.message)
    except Ended as ended:
        await socket.close(ended.ending.code, ended.ending.reason)
    finally:
        client.on_end = None
        await cancel_until_over({listening})


class _MessageLimit:
    """Ends a client that sends too many messages; pings cost as much, and count as well."""

    def __init__(self, client: Client, clock: Callable[[], float]) -> None:
        self._client = client
        self._clock = clock
        self._arrivals: deque[float] = deque(maxlen=_MOST_MESSAGES)

    def __call__(self) -> tuple[int, str] | None:
        now, arrivals = self._clock(), self._arrivals
        if len(arrivals) == _MOST_MESSAGES and now - arrivals[0] < _MINUTE:
            self._client.end(TOO_MANY_MESSAGES)
            return TOO_MANY_MESSAGES.code, TOO_MANY_MESSAGES.reason
        arrivals.append(now)
        return None


async def _listen(client: Client, socket: Socket) -> None:
    """Notice that the peer has gone.

    Cancelled when the client is ended: its socket is closed here, since a peer that does not read
    keeps the other task waiting.
    """
    try:
        while await socket.receive() is not None:
            pass  # what it says is nobody's concern
        client.end(LEFT)
    finally:
        if client.ending is not None:
            await socket.close(client.ending.code, client.ending.reason)


class EventChunks(AsyncIterator[bytes]):
    """Server-sent events, and a comment after so many seconds of silence.

    Something comes at once: some proxies and programs hold back the head of a response until then.
    It is the id of the `place` where the client has begun, if that may be told, so that one who
    connects again before the first event misses nothing.
    """

    def __init__(self, client: Client, heartbeat: float, place: bytes = b"") -> None:
        self._client = client
        self._heartbeat = heartbeat
        self._opening = b"id:%s\n\n" % place if place else _HEARTBEAT
        self._reading: asyncio.Task[list[Notice]] | None = None
        self._is_over = False

    async def __anext__(self) -> bytes:
        if self._is_over:
            raise StopAsyncIteration
        if self._opening:
            opening, self._opening = self._opening, b""
            return opening
        try:
            return b"".join([notice.chunk for notice in await self._read()])
        except TimeoutError:
            return _HEARTBEAT
        except Ended as ended:
            self._is_over = True
            return ended.ending.chunk

    async def _read(self) -> list[Notice]:
        """The next events; raises `TimeoutError` when there is none for so long."""
        if self._reading is None and self._client.is_up_to_date:
            async with asyncio.timeout(self._heartbeat):
                return await self._client.read()
        # A task of its own: reading the past may take longer than the silence between comments.
        reading = self._reading = self._reading or asyncio.create_task(self._client.read())
        done, _ = await asyncio.wait({reading}, timeout=self._heartbeat)
        if not done:
            raise TimeoutError
        self._reading = None
        return reading.result()

    async def aclose(self) -> None:
        """The connection is over."""
        if self._reading is not None:
            await cancel_until_over({self._reading})
