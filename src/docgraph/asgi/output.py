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


class Gate:
    """What most requests pass without having to wait."""

    is_open = True
    _event: asyncio.Event | None = None  # made by the first who waits

    def open(self) -> None:
        self.is_open = True
        if self._event is not None:
            self._event.set()

    def close(self) -> None:
        self.is_open = False

    async def wait(self) -> None:
        """Wait until it is opened."""
        if self._event is None:
            self._event = asyncio.Event()
        self._event.clear()
        await self._event.wait()


class Output:
    """The messages of one request; `on_change` is called when the server has accepted one."""

    _task: asyncio.Task[None] | None = None
    _is_complete = False
    failure: Exception | None = None  # what ended the task too early
    size = 0  # bytes that the server has not accepted
    is_writable = True

    def __init__(self, send: AsgiSend, on_change: Callable[[], None]) -> None:
        self._send = send
        self._on_change = on_change
        self._messages: deque[tuple[AsgiMessage, int]] = deque()
        self._changed = Gate()

    def get_write_buffer_size(self) -> int:
        """Return the bytes that the server has not accepted yet."""
        return self.size

    def abort(self) -> None:
        """Give up a client that does not read."""
        self.failure = ConnectionAbortedError("the client does not read")
        self._on_change()

    def put(self, message: AsgiMessage, size: int = 0) -> None:
        """Add a message with so many bytes of content."""
        self._messages.append((message, size))
        self.size += size
        if self.size > HIGH_WATER:
            self.is_writable = False
            self.start()
        if self._task is not None:
            self._changed.open()

    def end(self, last: AsgiMessage) -> None:
        """Add the last message, unless one of its kind that waits can be the last."""
        waiting = self._messages[-1][0] if self._messages else last
        if waiting is not last and waiting["type"] == last["type"]:
            waiting["more_body"] = False
        else:
            self.put(last)

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
        self._changed.open()

    async def flush(self) -> None:
        """Send the rest; raises what the server raised."""
        self.complete()
        if self._task is not None:
            await self._task
        if self.failure is not None:
            raise self.failure
        while self._messages:
            await self._send(self._messages.popleft()[0])

    async def wait_writable(self) -> None:
        """Wait until the server has accepted most of the messages."""
        while not self.is_writable:
            await self._changed.wait()

    async def close(self) -> None:
        if self._task is not None and not self._task.done():
            self._task.cancel()
            await asyncio.wait((self._task,))
        del self._on_change  # a cycle would wait for the garbage collector

    async def _send_all(self) -> None:
        try:
            while self._messages or not self._is_complete:
                if self._messages:
                    await self._send_next()
                else:
                    await self._changed.wait()
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
            self._changed.open()
