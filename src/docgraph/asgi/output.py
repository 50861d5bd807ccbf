"""Messages to the ASGI server, in order, with those that it has not accepted yet.

A small answer is sent when the request is over, by its own task. A task of its own sends what has
to wait: the parts of a stream, the messages of a WebSocket, and a large answer.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

from docgraph.asgi.scope import AsgiSend
from docgraph.server.http.bridge import AsgiMessage

HIGH_WATER: Final = 64 * 1024  # bytes
_LOW_WATER: Final = 16 * 1024


class Output:
    """The messages of one request; `on_change` is called when the server has accepted one."""

    def __init__(self, send: AsgiSend, on_change: Callable[[], None]) -> None:
        self._send = send
        self._on_change = on_change
        self._messages: deque[tuple[AsgiMessage, int]] = deque()
        self._changed: asyncio.Event | None = None  # made by the first who waits
        self._task: asyncio.Task[None] | None = None
        self._is_complete = False
        self.failure: Exception | None = None  # what ended the task too early
        self.size = 0  # bytes that the server has not accepted
        self.is_writable = True

    def put(self, message: AsgiMessage, size: int = 0) -> None:
        """Add a message with so many bytes of content."""
        self._messages.append((message, size))
        self.size += size
        if self.size > HIGH_WATER:
            self.is_writable = False
            self.start()
        self._notify()

    def find_last(self, kind: str) -> AsgiMessage | None:
        """Return the last message, if it is of this kind and not sent yet."""
        last = self._messages[-1][0] if self._messages else None
        return last if last is not None and last["type"] == kind else None

    def start(self) -> None:
        """Send from now on, in a task."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._send_all())

    def complete(self, *, drops: bool = False) -> None:
        """Add no more; with `drops`, the rest is not sent."""
        self._is_complete = True
        if drops:
            self._messages.clear()
            self.size = 0
            self.is_writable = True
        self._notify()

    async def flush(self) -> None:
        """Send the rest; raises what the server raised."""
        self._is_complete = True
        self._notify()
        if self._task is not None:
            await self._task
        if self.failure is not None:
            raise self.failure
        while self._messages:
            await self._send_next()

    async def wait_writable(self) -> None:
        """Wait until the server has accepted most of the messages."""
        while not self.is_writable:
            await self._wait()

    async def close(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))

    async def _send_all(self) -> None:
        try:
            while self._messages or not self._is_complete:
                if self._messages:
                    await self._send_next()
                else:
                    await self._wait()
        except Exception as error:  # the server's; `flush` raises it
            self.failure = error
            self.complete(drops=True)  # no one has to wait any longer
            self._on_change()

    async def _send_next(self) -> None:
        message, size = self._messages.popleft()
        await self._send(message)
        if size:
            self.size = max(0, self.size - size)
            self._on_change()
        if not self.is_writable and self.size <= _LOW_WATER:
            self.is_writable = True
            self._notify()

    async def _wait(self) -> None:
        if self._changed is None:
            self._changed = asyncio.Event()
        self._changed.clear()
        await self._changed.wait()

    def _notify(self) -> None:
        if self._changed is not None:
            self._changed.set()
