"""The two ways to a client: WebSocket messages, and server-sent events."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from time import monotonic
from typing import Final

from docgraph.events.client import Client
from docgraph.events.ending import LEFT, TOO_MANY_MESSAGES, Ended
from docgraph.exchange import Socket
from docgraph.runtime import cancel_until_over

__all__ = ["EventChunks", "serve_socket"]

_MOST_MESSAGES: Final = 100  # of a client within a minute, whatever is in them
_MINUTE: Final = 60.0
_HEARTBEAT: Final = b":\n\n"


async def serve_socket(
    client: Client, socket: Socket, *, clock: Callable[[], float] = monotonic
) -> None:
    """Send events until there are no more, or the peer is gone."""
    listening = asyncio.create_task(_listen(client, socket, clock), name="stream client")
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


async def _listen(client: Client, socket: Socket, clock: Callable[[], float]) -> None:
    """Notice that the peer has gone, or talks too much.

    Cancelled when the client is ended: its socket is closed here, since a peer that does not read
    keeps the other task waiting.
    """
    arrivals: deque[float] = deque(maxlen=_MOST_MESSAGES)
    try:
        while await socket.receive() is not None:
            now = clock()
            if len(arrivals) == _MOST_MESSAGES and now - arrivals[0] < _MINUTE:
                client.end(TOO_MANY_MESSAGES)
                return
            arrivals.append(now)
        client.end(LEFT)
    finally:
        if client.ending is not None:
            await socket.close(client.ending.code, client.ending.reason)


class EventChunks(AsyncIterator[bytes]):
    """Server-sent events, with a comment at once and after so many seconds of silence.

    Some proxies and programs hold back the head of a response until something follows it.
    """

    def __init__(self, client: Client, heartbeat: float) -> None:
        self._client = client
        self._heartbeat = heartbeat
        self._has_begun = False
        self._is_over = False

    async def __anext__(self) -> bytes:
        if self._is_over:
            raise StopAsyncIteration
        if not self._has_begun:
            self._has_begun = True
            return _HEARTBEAT
        try:
            async with asyncio.timeout(self._heartbeat):
                notices = await self._client.read()
        except TimeoutError:
            return _HEARTBEAT
        except Ended as ended:
            self._is_over = True
            return ended.ending.chunk
        return b"".join([notice.chunk for notice in notices])
