"""Admission queue (backpressure, load shedding): bounds work and waiting callers."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Final

from docgraph.exchange.errors import Overloaded

_WEIGHT: Final = 0.2  # weight of the newest turn in the pace of a queue for one caller inside


@dataclass(eq=False)
class AdmissionQueue:
    """Admits `capacity` callers, lets `queue` more wait in order, rejects others by `refusal`.

    Callers that have waited for `longest` seconds are rejected, too, if there is such a bound. A
    queue that `foresees` a part of it immediately rejects callers that would wait for more than
    that part at the current pace. As many as fit inside may wait in any case, so that a change of
    pace is noticed. `bound` names the limit in the metric.

    The shares of callers take turns. When the queue is full, the share that has most callers in it
    gives up the place of its last one for a share that has fewer.
    """

    capacity: int
    queue: int
    refusal: str
    longest: float | None = None
    foresees: float | None = field(default=None, kw_only=True)
    clock: Callable[[], float] = field(default=time.monotonic, kw_only=True)
    bound: str = field(default="requests", kw_only=True)
    inside: int = field(default=0, init=False)
    waiting: int = field(default=0, init=False)
    _pace: float = 0.0  # seconds between two turns; 0 before the second one
    _turns: int = 0
    _since: float = 0.0  # the last turn, or the beginning of the queue
    _has_turned: bool = False  # since the queue formed
    _waiting: OrderedDict[str, deque[asyncio.Future[None]]] = field(default_factory=OrderedDict)
    _emptied: asyncio.Event | None = None  # created by the first caller that waits for it

    @property
    def room(self) -> int:
        """How many more callers would be admitted, now or after waiting."""
        return max(0, self.capacity - self.inside) + max(0, self.queue - self.waiting)

    def try_enter(self) -> bool:
        """Enter without waiting, if there is room and no other caller waits."""
        if self.inside < self.capacity:
            self.inside += 1
            return True
        return False

    async def enter(
        self, patience: float | None = None, *, first: bool = False, share: str = ""
    ) -> None:
        """Wait for room; reject immediately if the queue is full, for a retry elsewhere.

        `patience` shortens the longest wait. A caller that is `first` waits in front of the others.
        """
        if self.try_enter():
            return
        longest = self.longest if patience is None else min(patience, self.longest or inf)
        is_hopeless = not first and self._is_hopeless(longest)
        if is_hopeless or (self.waiting >= self.queue and not self._make_room(share)):
            raise Overloaded(self.refusal, bound=self.bound)
        turn = asyncio.get_running_loop().create_future()
        if not self.waiting:
            self._since, self._has_turned = self.clock(), False
        turns = self._waiting.setdefault(share, deque())
        (turns.appendleft if first else turns.append)(turn)
        self.waiting += 1
        try:
            await asyncio.wait((turn,), timeout=None if longest == inf else longest)
        except asyncio.CancelledError:
            if not turn.done():
                self._withdraw(share, turn)
            elif turn.exception() is None:  # our turn came in the same instant: pass it on
                self.leave()
            raise
        if not turn.done():
            self._withdraw(share, turn)
            raise Overloaded(self.refusal, bound=self.bound)
        turn.result()

    def _withdraw(self, share: str, turn: asyncio.Future[None]) -> None:
        turns = self._waiting[share]
        turns.remove(turn)
        self.waiting -= 1
        if not turns:
            del self._waiting[share]

    def _make_room(self, share: str) -> bool:
        """Reject the last caller of the share that has most of them; False if that is this one."""
        count = len(self._waiting.get(share, ()))
        largest = max(self._waiting, key=lambda name: len(self._waiting[name]), default=share)
        if count + 1 >= len(self._waiting.get(largest, ())):
            return False
        turn = self._waiting[largest][-1]
        self._withdraw(largest, turn)
        turn.set_exception(Overloaded(self.refusal, bound=self.bound))
        return True

    def resize(self, capacity: int) -> None:
        """Change the capacity; waiting callers enter first, and callers inside stay."""
        self.capacity = capacity
        while self.waiting and self.inside < capacity:
            self.inside += 1
            self.leave()

    def leave(self) -> None:
        while self.waiting and self.inside <= self.capacity:
            share, turns = self._waiting.popitem(last=False)
            turn = turns.popleft()
            self.waiting -= 1
            if turns:
                self._waiting[share] = turns
            if not turn.done():
                self._record_turn()
                turn.set_result(None)
                return
        self.inside -= 1
        if self.inside == 0 and self._emptied is not None:
            self._emptied.set()

    def _is_hopeless(self, longest: float | None) -> bool:
        """Return whether one more caller would have to wait too long."""
        if not self.foresees or longest is None or self.waiting < self.capacity:
            return False
        # Callers that entered together leave together: there may be no turn for a while.
        gap = (self.clock() - self._since) / self.capacity
        pace = max(self._pace, gap) if self._turns >= self.capacity else gap / self.capacity
        return (self.waiting + 1) * pace > longest * self.foresees

    def _record_turn(self) -> None:
        now = self.clock()
        took = now - self._since
        if self._has_turned or took > self._pace:  # the first turn of a queue may come early
            self._turns += 1
            self._pace += (took - self._pace) * max(_WEIGHT / self.capacity, 1 / self._turns)
        self._since, self._has_turned = now, True

    async def drain(self) -> None:
        """Wait until no caller is inside."""
        while self.inside:
            if self._emptied is None:
                self._emptied = asyncio.Event()
            self._emptied.clear()
            await self._emptied.wait()
