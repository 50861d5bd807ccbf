"""HTTP message bodies and their memory budgets: requests being received, responses not read yet.

A body that a request waits for does not count among the requests in flight; it counts here instead.
With too many bodies, the one that has been read for longest is paused until there is room again;
with too many bytes, the largest is rejected. Both are chosen from the address with the most, so
that slow senders are affected, and a small body that arrives quickly never is.

Buffered responses have a limit for all connections together. Each connection buffers one response,
and the time to read it grows with its length. Many clients that request long responses and read
slowly would fill the memory. Above the limit, the connection that has been reading for longest is
dropped, of the address with the most buffered bytes: a client with a normal speed is never the
oldest for long.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from typing import Final, Protocol

from docgraph.exchange import DocgraphError
from docgraph.exchange.errors import Overloaded
from docgraph.exchange.hosts import group_address
from docgraph.server.settings import Limits


class _Share:
    """The bodies of one address: those that are read and those that are paused, the oldest first.

    The values are the bytes of each that have arrived.
    """

    __slots__ = ("held", "read", "size")

    def __init__(self) -> None:
        # Ordered dicts find the oldest immediately, however many have left before it.
        self.read: OrderedDict[IncomingBody, int] = OrderedDict()
        self.held: OrderedDict[IncomingBody, int] = OrderedDict()
        self.size = 0


class UploadBudget:
    """Counts the bodies that this process waits for."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._most = limits.uploads_size
        self._shares: dict[str, _Share] = {}
        self._held = 0  # of those that are paused
        self.count = 0  # of those that are read
        self.size = 0

    def enter(self, body: IncomingBody, size: int) -> None:
        """Count a body, of which so many bytes have arrived."""
        share = self._shares.setdefault(body.address, _Share())
        share.read[body] = 0
        self.count += 1
        if len(share.read) > self._limits.uploads_per_address:
            self._hold_oldest(share)
        elif self.count > self._limits.uploads:
            self._hold_oldest(max(self._shares.values(), key=lambda share: len(share.read)))
        self.grow(body, size)

    def grow(self, body: IncomingBody, size: int) -> None:
        """Add received bytes to the count; a negative number subtracts."""
        share = self._shares[body.address]
        bodies = share.read if body in share.read else share.held
        bodies[body] += size
        share.size += size
        self.size += size
        if size > 0:
            while share.size > self._limits.uploads_size_per_address:
                _give_up_largest(share)
            while self.size > self._most:
                _give_up_largest(max(self._shares.values(), key=lambda share: share.size))

    def fit(self, room: int | None) -> None:
        """Adapt the limit to the bytes that the process may still allocate; None: no limit."""
        self._most = _fit(self._limits.uploads_size, self.size, room)

    def leave(self, body: IncomingBody) -> None:
        """Remove a body that is complete or no longer needed: others can be read."""
        share = self._shares[body.address]
        size = share.held.pop(body, None)
        was_read = size is None
        if size is None:
            size = share.read.pop(body)
            self.count -= 1
        else:
            self._held -= 1
        share.size -= size
        self.size -= size
        if not share.read and not share.held:
            del self._shares[body.address]
        if was_read and self._held:
            self._go_on()

    def _hold_oldest(self, share: _Share) -> None:
        oldest = next(iter(share.read))
        share.held[oldest] = share.read.pop(oldest)
        self.count -= 1
        self._held += 1
        oldest.hold()

    def _go_on(self) -> None:
        """Resume a paused body of the address with the fewest active ones, if there is room."""
        if self.count >= self._limits.uploads:
            return
        most = self._limits.uploads_per_address
        waiting = [one for one in self._shares.values() if one.held and len(one.read) < most]
        if waiting:
            share = min(waiting, key=lambda share: len(share.read))
            oldest = next(iter(share.held))
            share.read[oldest] = share.held.pop(oldest)
            self.count += 1
            self._held -= 1
            oldest.go_on()


def _give_up_largest(share: _Share) -> None:
    bodies = share.read | share.held
    largest = max(bodies, key=lambda body: bodies[body])
    text = "the bodies that are on their way are too large together"
    largest.fail(Overloaded(text, bound="uploads"))


_PART: Final = 3  # of the memory that is left; the answers being built have as much


def _fit(limit: int, used: int, room: int | None) -> int:
    return limit if room is None else min(limit, (room + used) // _PART)


class _Reading(Protocol):
    """A connection with a response that is being read."""

    transport: asyncio.Transport

    @property
    def address(self) -> str:
        """The address of its client."""


class UnreadResponses:
    """Counts the buffered bytes of the clients of this process."""

    def __init__(self, most: int) -> None:
        self._limit = self._most = most
        self._networks: dict[_Reading, str] = {}
        self._sizes: dict[str, dict[_Reading, int]] = {}  # at the last check, the oldest first
        self.size = 0

    def enter(self, connection: _Reading) -> None:
        """Add a connection whose client reads more slowly than we write."""
        self.leave(connection)
        network = self._networks[connection] = group_address(connection.address)
        self._sizes.setdefault(network, {})[connection] = 0
        self.update(connection)

    def update(self, connection: _Reading) -> None:
        """Update the count of buffered bytes of a slow connection."""
        network = self._networks.get(connection)
        if network is None:
            return
        sizes, size = self._sizes[network], connection.transport.get_write_buffer_size()
        self.size += size - sizes[connection]
        sizes[connection] = size
        if self.size > self._most:
            self._give_up_slow_ones()

    def leave(self, connection: _Reading) -> None:
        """Remove a connection whose client has read most of it, or disconnected."""
        network = self._networks.pop(connection, None)
        if network is not None:
            sizes = self._sizes[network]
            self.size -= sizes.pop(connection)
            if not sizes:
                del self._sizes[network]

    def fit(self, room: int | None) -> None:
        """Adapt the limit to the bytes that the process may still allocate; None: no limit."""
        self._most = _fit(self._limit, self.size, room)
        if self.size > self._most:
            self._give_up_slow_ones()

    def _give_up_slow_ones(self) -> None:
        for sizes in self._sizes.values():  # much may have been read since
            for connection in sizes:
                sizes[connection] = connection.transport.get_write_buffer_size()
        shares = {network: sum(sizes.values()) for network, sizes in self._sizes.items()}
        self.size = sum(shares.values())
        while self.size > self._most and len(self._networks) > 1:  # a single one may be longer
            largest = max(shares, key=lambda network: shares[network])
            slow, size = next(iter(self._sizes[largest].items()))
            shares[largest] -= size
            self.leave(slow)
            slow.transport.abort()


# This much of an unread body is read and discarded to keep the connection, or to let the client see
# the response before it is closed.
DRAINABLE = 64 * 1024
_HIGH_WATER = 64 * 1024  # bytes that are buffered for a reader who has not asked yet


class BodySource(Protocol):
    """The connection that receives a body."""

    def await_body(self, incoming: IncomingBody) -> None:
        """Start the timeout of this body: its reader waits for it."""

    def hold_body(self, incoming: IncomingBody) -> None:
        """Pause this body, and its timeout: too many bodies are being received."""

    def go_on_with_body(self, incoming: IncomingBody) -> None:
        """Resume reading it."""


class IncomingBody:
    """Request body that the connection receives and the service reads.

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
    is_counted = False
    _is_dropped = False

    def __init__(
        self,
        source: BodySource,
        bodies: UploadBudget,
        length: int | None,
        *,
        expects_continue: bool,
    ) -> None:
        self._source = source
        self._bodies = bodies
        self.length = length
        self.expects_continue = expects_continue  # and "100 Continue" was not sent yet

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
        if self.is_counted:
            self._bodies.grow(self, len(data))
        if self._waiter is None:
            return len(self._data) > _HIGH_WATER
        if self.received > self._enough:
            self._wake()
        return False

    def uncount(self) -> None:
        """Tell the reader who waits for the body that it is complete."""
        self._forget()
        self._wake()

    def fail(self, error: DocgraphError) -> None:
        """End the body with an error, which its reader raises; the first one counts."""
        if self.failure is None and not self.is_complete:
            self.failure = error
            self._data = b""
            self._forget()
            self._wake()

    def hold(self) -> None:
        self._source.hold_body(self)

    def go_on(self) -> None:
        self._source.go_on_with_body(self)

    def drop(self) -> None:
        """Discard the body: it will not be read."""
        self._is_dropped = True
        self._data = b""
        self._forget()

    @property
    def is_drainable(self) -> bool:
        """Whether the rest of the body is short, of known length, and being sent."""
        return (
            self.length is not None
            and self.length - self.received <= DRAINABLE
            and not self.expects_continue
            and self.failure is None
        )

    async def read(self, limit: int) -> bytes:
        """Return the whole body, or the received part when that exceeds `limit`."""
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
        if self.is_counted:
            self._bodies.grow(self, -len(data))
        return data

    async def _wait(self, enough: int) -> None:
        self._source.await_body(self)
        if not self.is_counted:
            self.is_counted = True
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

    def _forget(self) -> None:
        if self.is_counted:
            self.is_counted = False
            self._bodies.leave(self)
