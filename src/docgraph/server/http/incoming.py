"""The body of one request, as far as it has arrived."""

from __future__ import annotations

import asyncio
from typing import Protocol

from docgraph.exchange import DocgraphError
from docgraph.server.http.bodies import Bodies

__all__ = ["DRAINABLE", "Incoming", "Source"]

# So much of an unread body is read and thrown away to keep the connection, or to let the client
# see the answer before it is closed.
DRAINABLE = 64 * 1024
_HIGH_WATER = 64 * 1024  # bytes that are kept for a reader who has not asked yet


class Source(Protocol):
    """The connection that a body comes by."""

    def await_body(self, incoming: Incoming) -> None:
        """Somebody waits for this body: its time runs from now on."""

    def hold_body(self, incoming: Incoming) -> None:
        """There are too many bodies on their way: read it later, without its time running."""

    def go_on_with_body(self, incoming: Incoming) -> None:
        """Read it again."""


class Incoming:
    """Filled by the connection, read by the service; nothing is awaited until somebody asks.

    `length` is the announced size, None when the body comes in chunks. `address` is the caller's,
    for the count of bodies on their way, which it enters when somebody waits for it.
    """

    address = ""
    received = 0
    is_complete = False
    failure: DocgraphError | None = None
    _data: bytes | bytearray = b""  # what no reader has taken yet
    _waiter: asyncio.Future[None] | None = None
    _enough = 0  # the reader is woken when more than so many bytes are received
    _is_counted = False
    _is_dropped = False

    def __init__(
        self, source: Source, bodies: Bodies, length: int | None, *, expects_continue: bool
    ) -> None:
        self._source = source
        self._bodies = bodies
        self.length = length
        self.expects_continue = expects_continue  # and has not been told to go on

    # --- the connection's side --------------------------------------------------------------------

    def feed(self, data: bytes) -> bool:
        """The next part has arrived; whether it is enough for a reader who has not asked yet."""
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
        """All of it has arrived."""
        self.is_complete = True
        if self._is_counted:
            self._uncount()
            self._wake()

    def fail(self, error: DocgraphError) -> None:
        """It ends with an error, which its reader will raise; the first one counts."""
        if self.failure is None and not self.is_complete:
            self.failure = error
            self._data = b""
            self._uncount()
            self._wake()

    def hold(self) -> None:
        """Do not read it for the time being."""
        self._source.hold_body(self)

    def go_on(self) -> None:
        """Read it again."""
        self._source.go_on_with_body(self)

    def drop(self) -> None:
        """Nobody will read it any more."""
        self._is_dropped = True
        self._data = b""
        self._uncount()

    @property
    def is_drainable(self) -> bool:
        """Whether the rest of it is known, short, and on its way."""
        return (
            self.length is not None
            and self.length - self.received <= DRAINABLE
            and not self.expects_continue
            and self.failure is None
        )

    # --- the reader's side ------------------------------------------------------------------------

    async def read(self, limit: int) -> bytes:
        """All of it, or as much as has arrived when that is more than `limit`."""
        while not self.is_complete and self.failure is None and self.received <= limit:
            await self._wait(limit)
        return self.take()

    async def read_part(self) -> bytes:
        """What has arrived since the last call; empty at the end only."""
        while not self._data and not self.is_complete and self.failure is None:
            await self._wait(self.received)
        return self.take()

    def take(self) -> bytes:
        """What has arrived, without waiting for more."""
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
            if self.failure is not None:  # there is no room for it at all
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
