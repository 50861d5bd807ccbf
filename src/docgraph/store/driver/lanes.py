"""Two lanes to the connection pool: heavy reads wait without blocking light ones.

Heavy reads have at most three quarters of the connections for reads, and fewer if that makes each
of them slower. The others wait in a queue that is bounded in proportion to the pool. A request
whose read waits there releases its place among the requests in flight. So a crowd of heavy reads
occupies neither the whole pool nor the admission queue.

Whether a read is heavy is measured: how long earlier reads of the same shape took. The first read
of a shape is a trial in the light lane; others of this shape wait a moment for its result. The
database ends a trial that takes long, and the read is repeated among the heavy ones: a crowd of
unknown heavy reads does not delay an unknown light one for long. A read that shares the database
with others takes longer; the square root of their number is between a database with one processor
and one with many.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, sqrt
from typing import Any, Final, NamedTuple

from docgraph.exchange.data import Document, Filter
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import Overloaded, PoolExhausted
from docgraph.runtime import AdmissionQueue, LruDict

_HEAVY_SECONDS: Final = 0.025
_MAX_SHAPES: Final = 2_000
_RISE, _FALL = 0.2, 0.5  # weights of the newest measure: noise makes reads slower, never faster
_FIRST_LIMIT: Final = 8  # heavy reads at a time, at first and at least
_MAX_SLOWNESS: Final = 4.0
_MAX_TRIALS: Final = 4  # reads of unknown cost in the light lane
_TRIAL_MS: Final = 100  # of a trial, then the database ends it
_WEIGHT: Final = 0.25  # of the newest read in that number
_QUEUE: Final = 4  # heavy reads that wait, for each connection of the pool …
_MIN_QUEUE: Final = 64  # … and at least
_UNBOUNDED: Final = 2**31  # waiting reads belong to requests in flight, which are bounded
_BATCH: Final = 16 << 20  # bytes of the largest response
_DOCUMENT: Final = 16 << 10  # bytes of a document whose size is not known
_POINTS: Final = frozenset(("$eq", "$in"))
_READS: Final = frozenset(("find", "aggregate"))

CommandShape = tuple[Any, ...]


class Wait(NamedTuple):
    """How long a command waits, and what to `begin` then; `is_raw`: documents stay encoded."""

    deadline: Deadline = Deadline()
    begin: Callable[[], None] | None = None
    is_raw: bool = False

    def start(self, command: Document) -> None:
        """End the wait: the command has the time that is left."""
        left = self.deadline.remaining()
        if left is not None and "maxTimeMS" in command:
            command["maxTimeMS"] = max(1, min(command["maxTimeMS"], int(left * 1000)))
        if self.begin is not None:
            self.begin()


NO_WAIT: Final = Wait()


def build_trial(command: Document) -> Document:
    """Return the command with the time limit of a trial, or its own."""
    return {**command, "maxTimeMS": min(_TRIAL_MS, command.get("maxTimeMS", _TRIAL_MS))}


def find_shape(db: str, command: Document) -> CommandShape | None:
    """Return the shape of a read: equal for reads of similar cost; None if it is no query.

    The first member is whether documents are read by their `_id`, which is always light.
    """
    name, collection = next(iter(command.items()))
    if name not in _READS:
        return None
    if name == "aggregate":
        stages = command["pipeline"]
        first = stages[0].get("$match") if stages else None
        names = _find_names(first) if isinstance(first, Mapping) else ()
        return (False, db, collection, *names, *[next(iter(stage)) for stage in stages])
    filter = command.get("filter") or {}
    is_point = "_id" in filter and _is_point(filter["_id"])
    size = (_count(command) if is_point else command.get("limit") or 0).bit_length()
    return (is_point, db, collection, *_find_names(filter), size, *command.get("sort", ()))


def _is_point(value: Any) -> bool:
    return value is not None and (not isinstance(value, Mapping) or value.keys() <= _POINTS)


def _count(command: Document) -> int:
    """Return how many documents a `find` returns at most; 0: any number."""
    value, limit = (command.get("filter") or {}).get("_id"), command.get("limit") or 0
    if not _is_point(value):
        return limit
    ids = value.get("$in", ()) if isinstance(value, Mapping) else ()
    return min(limit or len(ids), len(ids)) or 1


def _find_names(filter: Filter) -> tuple[str, ...]:
    """Return the names that a filter compares, also those in `$and`."""
    parts = filter.get("$and")
    if not isinstance(parts, list):  # the database rejects anything else
        return tuple(filter)
    return (*filter, *(name for part in parts if isinstance(part, Mapping) for name in part))


@dataclass(slots=True)
class ReadCost:
    """The measured cost of the reads of one shape."""

    is_point: bool
    average: float = _HEAVY_SECONDS  # seconds; one that is not known counts as heavy
    least: float = inf  # seconds of the shortest
    size: int | None = None  # bytes of a large response
    trial: asyncio.Future[None] | None = None  # of the read that is measured first
    has_failed: bool = False  # the database ended the trial

    @property
    def is_known(self) -> bool:
        """Whether a read of this shape was measured, or needs no measure."""
        return self.size is not None or self.is_point or self.has_failed

    @property
    def is_heavy(self) -> bool:
        return self.average >= _HEAVY_SECONDS and not self.is_point

    def end_trial(self) -> None:
        """Notify the reads that wait for the result."""
        trial, self.trial = self.trial, None
        if trial is not None and not trial.done():
            trial.set_result(None)

    def expect_size(self, command: Document) -> int:
        if self.size is not None:
            return self.size
        count = _count(command) if "find" in command else 0
        return min(count * _DOCUMENT, _BATCH) if count else _BATCH

    def record(self, seconds: float, beside: int, size: int) -> float:
        """Record a read and its concurrency; return its slowness relative to its shape, from 1."""
        measured = seconds / sqrt(max(1, beside))
        if self.size is None:
            self.average, self.size = measured, size
        else:
            self.average += (measured - self.average) * (
                _RISE if measured > self.average else _FALL
            )
            self.size = size if size > self.size else self.size - (self.size - size) // 8
        self.least = seconds if beside <= 1 else min(self.least, seconds)
        return max(1.0, seconds / self.least) if self.least > 0 else 1.0


class ReadCosts:
    """The costs by shape."""

    def __init__(self) -> None:
        self._costs: LruDict[CommandShape, ReadCost] = LruDict(_MAX_SHAPES)

    def find(self, db: str, command: Document) -> ReadCost | None:
        """Return the cost of a read; None for commands that are no query."""
        shape = find_shape(db, command)
        if shape is None:
            return None
        cost = self._costs.get(shape)
        if cost is None:
            cost = ReadCost(shape[0])
            self._costs.put(shape, cost)
        return cost


class PoolLanes:
    """The reads that have a connection to one server, and those that wait for one.

    So many heavy reads run at a time that each is little slower than alone: more would not be
    finished earlier, and slow down the light ones.
    """

    def __init__(self, readers: int, longest: float | None) -> None:
        self._longest = longest
        self._waited_at = -inf  # when a read stopped to wait for its turn
        self._most = max(1, readers * 3 // 4)
        self._limit = float(min(_FIRST_LIMIT, self._most))
        self._all = AdmissionQueue(1, _UNBOUNDED, "", longest)
        trials = min(_MAX_TRIALS, (readers - self._most) // 2)
        self._trials = AdmissionQueue(trials, _UNBOUNDED, "", longest) if trials > 0 else None
        queue = max(_MIN_QUEUE, _QUEUE * readers)
        self._heavy = AdmissionQueue(int(self._limit), queue, "", longest, foresees=1.0)

    def adapt(self, slowness: float) -> None:
        """Adapt the limit of heavy reads to the slowness of one, if the limit is reached."""
        if 2 * self._heavy.inside < self._limit:
            return
        wanted = self._limit / min(slowness, _MAX_SLOWNESS) + _FIRST_LIMIT / 2
        self._limit += (wanted - self._limit) * _WEIGHT
        self._limit = min(max(self._limit, _FIRST_LIMIT), self._most)
        self._heavy.resize(int(self._limit))

    @property
    def has_waiting(self) -> bool:
        return self._all.waiting > 0

    def has_waited(self, since: float) -> bool:
        """Return whether a read waits for its turn, or has since that time of `time.monotonic`."""
        queues = (self._all, self._heavy, self._trials)
        return self._waited_at >= since or any(
            queue is not None and queue.waiting for queue in queues
        )

    @property
    def running(self) -> int:
        """The number of reads that have a connection."""
        return self._all.inside

    @property
    def has_other_trials(self) -> bool:
        return self._trials is not None and self._trials.inside + self._trials.waiting > 1

    def resize(self, connections: int) -> None:
        """Set the number of reads that may have a connection."""
        self._all.resize(connections)

    async def begin_trial(self, cost: ReadCost, wait: Wait, *, is_first: bool) -> bool:
        """Return whether the read measures its shape; call `end_trial` after it.

        A trial that is still running after the time of a light read is one of a heavy shape. Reads
        that are probably light are tried first.
        """
        if cost.is_known or self._trials is None:
            return False
        if cost.trial is not None:
            with wait.deadline.waiting():
                await asyncio.wait((cost.trial,), timeout=_HEAVY_SECONDS)
            return False
        cost.trial = asyncio.get_running_loop().create_future()
        try:
            if not self._trials.try_enter():
                await self._await_turn(self._trials, wait, is_first=is_first)
        except BaseException:
            cost.end_trial()
            raise
        return True

    def end_trial(self, cost: ReadCost) -> None:
        """Let the reads that waited for the result choose their lanes."""
        if self._trials is not None:
            self._trials.leave()
        cost.end_trial()

    async def enter(self, wait: Wait, *, is_heavy: bool) -> bool:
        """Wait for a turn in the order of arrival; return whether the read had to wait."""
        has_waited = is_heavy and not self._heavy.try_enter()
        if has_waited:
            if wait.deadline.patience is not None:
                wait.deadline.patience.leave_queue()
            # Heavy reads of a request that has begun are finished first.
            has_begun = wait.deadline.patience is not None and wait.deadline.patience.has_begun
            await self._await_turn(self._heavy, wait, is_first=has_begun)
        if self._all.try_enter():
            return has_waited
        try:
            await self._await_turn(self._all, wait, is_first=False)
        except BaseException:
            if is_heavy:
                self._heavy.leave()
            raise
        return True

    async def _await_turn(self, queue: AdmissionQueue, wait: Wait, *, is_first: bool) -> None:
        try:
            with wait.deadline.waiting():
                await queue.enter(wait.deadline.find_patience(self._longest), first=is_first)
        except Overloaded:
            raise PoolExhausted from None
        finally:
            self._waited_at = time.monotonic()

    def leave(self, *, is_heavy: bool) -> None:
        self._all.leave()
        if is_heavy:
            self._heavy.leave()
