"""The queue of password checks: users and addresses take turns, and a rejection is a forecast.

A check takes a quarter of a second of a core, so a herd of logins waits. A check that waits is
never lost: when its callers give up, or get 503 with the time that is left in `Retry-After`, it is
still made, and their next request finds its result. The queue is bounded: when it is full, the
check that would come last gives up its place, so that one address or user cannot fill it.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from math import ceil
from typing import Final, TypeVar
from weakref import ref

from docgraph.exchange import Exchange
from docgraph.exchange.errors import Overloaded

T = TypeVar("T")

QUEUE: Final = 256
_WEIGHT: Final = 0.2  # of the newest check in the duration of one
_TURNS: Final = 64  # after which the older half of them counts less in the pace
_REFUSAL: Final = "too many logins are waiting"

# The request whose credentials are being checked; `Authenticator.verify` does not get it. It is a
# weak reference: connections to the database that are opened meanwhile have a copy of the context.
_login: ContextVar[ref[Exchange] | None] = ContextVar("login", default=None)


def set_login(exchange: Exchange) -> None:
    """Set the request whose credentials are checked from now on."""
    _login.set(ref(exchange))


def find_login() -> Exchange | None:
    """Return the request whose credentials are being checked, if it is one."""
    login = _login.get()
    return None if login is None else login()


def reject_login(seconds: float) -> Overloaded:
    """Return the rejection of a login whose check ends after so many seconds."""
    return Overloaded(_REFUSAL, retry_after=max(1, ceil(seconds)), bound="threads")


@dataclass(order=True, slots=True)
class _Waiting:
    """A check that waits for its turn; the lowest `tag` is next."""

    tag: int
    number: int
    key: bytes = field(compare=False)
    shares: tuple[str, ...] = field(compare=False)
    turn: asyncio.Future[None] = field(compare=False)


class PasswordQueue:
    """Runs `width` checks at a time, the others in fair order (start-time fair queueing).

    Each check gets a tag: one more than the last tag of its user and of its address, and than that
    of the check that began last. So a user or an address with many checks waits for the others, and
    none waits forever.
    """

    def __init__(
        self, width: int, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._width = width
        self._check_seconds = seconds
        self._clock = clock
        self._since, self._ended = 0.0, 0  # turns that ended since then, without a pause
        self._running = 0
        self._tag = 0  # of the check that began last
        self._last: dict[str, int] = {}  # the last tag of each user and address that waits
        self._numbers = count()
        self._heap: list[_Waiting] = []

    async def run(self, key: bytes, shares: Sequence[str], check: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `check` after its turn has come; raise `Overloaded` without one."""
        await self._enter(key, tuple(shares))
        try:
            return await check()
        finally:
            # Many turns are short, since another worker has the result.
            self._ended += 1
            if self._ended >= _TURNS:
                self._since += (self._clock() - self._since) / 2
                self._ended //= 2
            self._leave()

    def record(self, seconds: float) -> None:
        self._check_seconds += (seconds - self._check_seconds) * _WEIGHT

    def foresee(self, key: bytes, is_known: Callable[[bytes], bool]) -> float:
        """Return the seconds until this check ends; if it does not wait, it is running.

        Checks whose result is known take no time, and count for the pace: other workers have made
        them, and will make as many of the others.
        """
        waiting = next((waiter for waiter in self._heap if waiter.key == key), None)
        if waiting is None:
            return self._check_seconds
        left = [waiter for waiter in self._heap if not is_known(waiter.key)]
        return self._foresee(sum(waiter < waiting for waiter in left), len(self._heap) - len(left))

    def _foresee(self, before: int, already: int = 0) -> float:
        """Return the seconds until a check ends that waits behind so many others."""
        busy = self._clock() - self._since if self._running else 0.0
        if ended := self._ended + already:
            turn = busy / (ended + self._running / 2)  # those that are running are half done
        else:
            turn = max(busy, self._check_seconds) / self._width
        return (before + 1) * turn + self._check_seconds

    async def _enter(self, key: bytes, shares: tuple[str, ...]) -> None:
        if self._running < self._width:
            if not self._running:
                self._since, self._ended = self._clock(), 0
            self._running += 1
            return
        tag = 1 + max(self._tag, *(self._last.get(share, 0) for share in shares))
        if len(self._heap) >= QUEUE:
            self._make_room(tag)
        self._last.update(dict.fromkeys(shares, tag))
        turn = asyncio.get_running_loop().create_future()
        heapq.heappush(self._heap, _Waiting(tag, next(self._numbers), key, shares, turn))
        await turn

    def _make_room(self, tag: int) -> None:
        """Reject the check that would come last, which may be the new one."""
        last = max(self._heap)
        if last.tag <= tag:
            raise reject_login(self._foresee(len(self._heap)))
        self._heap.remove(last)
        heapq.heapify(self._heap)
        last.turn.set_exception(reject_login(self._foresee(len(self._heap))))

    def _leave(self) -> None:
        while self._heap:
            following = heapq.heappop(self._heap)
            self._tag = following.tag
            for share in following.shares:
                if self._last.get(share) == following.tag:
                    del self._last[share]
            if not following.turn.done():
                following.turn.set_result(None)
                return
        self._running -= 1
