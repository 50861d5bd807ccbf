"""The body of one request, as far as it has arrived."""

from __future__ import annotations

import asyncio
from typing import Protocol

from docgraph.exchange import DocgraphError
from docgraph.server.http.body_budget import Bodies

# This much of an unread body is read and discarded to keep the connection, or to let the client see
# the response before it is closed.
DRAINABLE = 64 * 1024
_HIGH_WATER = 64 * 1024  # bytes that are buffered for a reader who has not asked yet


class BodySource(Protocol):
    """The connection that receives a body."""

    def await_body(self, incoming: Incoming) -> None:
        """Start the timeout of this body: its reader waits for it."""

    def hold_body(self, incoming: Incoming) -> None:
        """Pause this body, and its timeout: too many bodies are being received."""

    def go_on_with_body(self, incoming: Incoming) -> None:
        """Resume reading it."""


class Incoming:
    """Filled by the connection, read by the service; nothing is awaited before a read.

    `length` is the announced size, None when the body is chunked. `address` is the caller's, for
    the budget of bodies, where it is counted while a reader waits for it.
    """

    address = ""
    received = 0
    is_complete = False
    failure: DocgraphError | None = None
    _data: bytes | bytearray = b""  # not read yet
    _waiter: asyncio.Future[None] | None = None
    _enough = 0  # the reader is woken when more than so many bytes are received
    _is_counted = False
    _is_dropped = False

    def __init__(
        self, source: BodySource, bodies: Bodies, length: int | None, *, expects_continue: bool
    ) -> None:
        self._source = source
        self._bodies = bodies
        self.length = length
        self.expects_continue = expects_continue  # and "100 Continue" was not sent yet

    # --- the connection's side --------------------------------------------------------------------

    def feed(self, data: bytes) -> bool:
        """Add the next part; returns whether to pause until the reader asks for more."""
        self.received += len(data)
        if self._is_dropped or self.failure is not None:
            return False
        if not self._data:
            self._data = data
        elif isinstance(self._data, bytearray):
            self._data += data
        else:
            self._data = bytearray(self._data + data)
        if self._is_counted:
            self._bodies.grow(self, len(data))
        if self._waiter is None:
            return len(self._data) > _HIGH_WATER
        if self.received > self._enough:
            self._wake()
        return False

    def finish(self) -> None:
        """Mark the body as complete."""
        self.is_complete = True
        if self._is_counted:
            self._uncount()
            self._wake()

    def fail(self, error: DocgraphError) -> None:
        """End it with an error, which its reader will raise; the first one counts."""
        if self.failure is None and not self.is_complete:
            self.failure = error
            self._data = b""
            self._uncount()
            self._wake()

    def hold(self) -> None:
        """Pause reading it."""
        self._source.hold_body(self)

    def go_on(self) -> None:
        """Resume reading it."""
        self._source.go_on_with_body(self)

    def drop(self) -> None:
        """Discard it: it will not be read."""
        self._is_dropped = True
        self._data = b""
        self._uncount()

    @property
    def is_drainable(self) -> bool:
        """Whether the rest of it is known, short, and being sent."""
        return (
            self.length is not None
            and self.length - self.received <= DRAINABLE
            and not self.expects_continue
            and self.failure is None
        )

    # --- the reader's side ------------------------------------------------------------------------

    async def read(self, limit: int) -> bytes:
        """Return all of it, or the arrived part when that exceeds `limit`."""
        while not self.is_complete and self.failure is None and self.received <= limit:
            await self._wait(limit)
        return self.drain()

    async def read_part(self) -> bytes:
        """Return the part that has arrived since the last call; empty at the end only."""
        while not self._data and not self.is_complete and self.failure is None:
            await self._wait(self.received)
        return self.drain()

    def drain(self) -> bytes:
        """Return the part that has arrived, without waiting for more."""
        if self.failure is not None:
            raise self.failure
        data, self._data = bytes(self._data), b""
        if self._is_counted:
            self._bodies.grow(self, -len(data))
        return data

    async def _wait(self, enough: int) -> None:
        self._source.await_body(self)
        if not self._is_counted:
            self._is_counted = True
            self._bodies.enter(self, len(self._data))
            if self.failure is not None:  # the budget has no room for it at all
                return
        self._enough = enough
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _uncount(self) -> None:
        if self._is_counted:
            self._is_counted = False
            self._bodies.leave(self)
