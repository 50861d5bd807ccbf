"""The bodies of requests that are on their way: a budget of their own, in all and per address.

A body that somebody waits for holds no place among the requests in flight; it counts here instead.
When there are too many, the one that has been on its way for longest is given up; when they hold
too many bytes, the largest. Both are looked for where most of them come from, so that whoever sends
slowly gives way, and a small body that is here in a moment never does.
"""

from __future__ import annotations

from typing import Protocol

from docgraph.exchange import DocgraphError
from docgraph.exchange.errors import Overloaded
from docgraph.server.settings import Limits

__all__ = ["Arriving", "Bodies"]


class Arriving(Protocol):
    """A body that is counted; whoever fails leaves."""

    address: str

    def fail(self, error: DocgraphError) -> None:
        """Let its reader have the error."""


class _Share:
    """The bodies of one address, the oldest first, and how many bytes of each are here."""

    __slots__ = ("bodies", "size")

    def __init__(self) -> None:
        self.bodies: dict[Arriving, int] = {}
        self.size = 0


class Bodies:
    """Counts the bodies that this process waits for."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._shares: dict[str, _Share] = {}
        self.count = 0
        self.size = 0

    def enter(self, body: Arriving, size: int) -> None:
        """One more, of which so many bytes are here already."""
        share = self._shares.setdefault(body.address, _Share())
        share.bodies[body] = 0
        self.count += 1
        if len(share.bodies) > self._limits.uploads_per_address:
            _give_up_oldest(share)
        elif self.count > self._limits.uploads:
            _give_up_oldest(max(self._shares.values(), key=lambda one: len(one.bodies)))
        self.grow(body, size)

    def grow(self, body: Arriving, size: int) -> None:
        """So many bytes more, or fewer when they are negative."""
        share = self._shares.get(body.address)
        if share is None or body not in share.bodies:
            return  # given up
        share.bodies[body] += size
        share.size += size
        self.size += size
        if size > 0:
            while share.size > self._limits.uploads_size_per_address:
                _give_up_largest(share)
            while self.size > self._limits.uploads_size:
                _give_up_largest(max(self._shares.values(), key=lambda one: one.size))

    def leave(self, body: Arriving) -> None:
        """It is complete, or nobody wants it any more."""
        share = self._shares[body.address]
        size = share.bodies.pop(body)
        share.size -= size
        self.size -= size
        self.count -= 1
        if not share.bodies:
            del self._shares[body.address]


def _give_up_oldest(share: _Share) -> None:
    next(iter(share.bodies)).fail(Overloaded("too many bodies are on their way"))


def _give_up_largest(share: _Share) -> None:
    largest = max(share.bodies, key=lambda body: share.bodies[body])
    largest.fail(Overloaded("the bodies that are on their way are too large together"))
