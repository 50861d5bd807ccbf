"""Budget for request bodies that are being received, in total and per address.

A body that a request waits for does not count among the requests in flight; it counts here instead.
With too many bodies, the one that has been read for longest is paused until there is room again;
with too many bytes, the largest is rejected. Both are chosen from the address with the most, so
that slow senders are affected, and a small body that arrives quickly never is.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Protocol

from docgraph.exchange import DocgraphError
from docgraph.exchange.errors import Overloaded
from docgraph.server.settings import Limits


class Arriving(Protocol):
    """A body that is counted."""

    address: str

    def hold(self) -> None:
        """Pause reading it."""

    def go_on(self) -> None:
        """Resume reading it."""

    def fail(self, error: DocgraphError) -> None:
        """Pass the error to its reader; a failed body leaves the budget."""


class _Share:
    """The bodies of one address: those that are read and those that are paused, the oldest first.

    The values are the bytes of each that have arrived.
    """

    __slots__ = ("held", "read", "size")

    def __init__(self) -> None:
        # Ordered dicts find the oldest immediately, however many have left before it.
        self.read: OrderedDict[Arriving, int] = OrderedDict()
        self.held: OrderedDict[Arriving, int] = OrderedDict()
        self.size = 0


class Bodies:
    """Counts the bodies that this process waits for."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._shares: dict[str, _Share] = {}
        self._held = 0  # of those that are paused
        self.count = 0  # of those that are read
        self.size = 0

    def enter(self, body: Arriving, size: int) -> None:
        """Count a body, of which so many bytes have arrived."""
        share = self._shares.setdefault(body.address, _Share())
        share.read[body] = 0
        self.count += 1
        if len(share.read) > self._limits.uploads_per_address:
            self._hold_oldest(share)
        elif self.count > self._limits.uploads:
            self._hold_oldest(max(self._shares.values(), key=lambda one: len(one.read)))
        self.grow(body, size)

    def grow(self, body: Arriving, size: int) -> None:
        """Count so many bytes more, or fewer when they are negative."""
        share = self._shares[body.address]
        bodies = share.read if body in share.read else share.held
        bodies[body] += size
        share.size += size
        self.size += size
        if size > 0:
            while share.size > self._limits.uploads_size_per_address:
                _give_up_largest(share)
            while self.size > self._limits.uploads_size:
                _give_up_largest(max(self._shares.values(), key=lambda one: one.size))

    def leave(self, body: Arriving) -> None:
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
        """Resume a body of the address that is read least, if one waits and has room."""
        if self.count >= self._limits.uploads:
            return
        most = self._limits.uploads_per_address
        waiting = [one for one in self._shares.values() if one.held and len(one.read) < most]
        if waiting:
            share = min(waiting, key=lambda one: len(one.read))
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
