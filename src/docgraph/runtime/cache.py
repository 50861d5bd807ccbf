"""Bounded caches: LRU, and single flight against a thundering herd (cache stampede).

`LoadingCache` belongs to one event loop and needs no lock: no other code runs between its awaits.
Changes while a loader waits need care: see `invalidate`.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from enum import Enum
from typing import Any, Generic, TypeVar

from docgraph.exchange.errors import Overloaded
from docgraph.runtime.clock import elapsed
from docgraph.runtime.tasks import cancel_until_over, is_being_cancelled

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class LruDict(Generic[K, V]):
    """At most `size` values, none of which is None.

    LRU cache: the dictionary drops the least recently used entry. Threads may share one: each
    method consists of a few operations on a dictionary, and none of them fails when another thread
    removes the entry in between.
    """

    __slots__ = ("_entries", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self._entries: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        """Return the value, which becomes the most recently used one, or None."""
        value = self._entries.get(key)
        if value is not None:
            try:
                self._entries.move_to_end(key)
            except KeyError:  # another thread dropped it
                return value
        return value

    def peek(self, key: K) -> V | None:
        """Return the value or None, without marking it as used."""
        return self._entries.get(key)

    def put(self, key: K, value: V) -> tuple[K, V] | None:
        """Store a value, and return the entry that was dropped for it."""
        self._entries.pop(key, None)
        self._entries[key] = value
        return self.pop_oldest() if len(self._entries) > self.size else None

    def pop(self, key: K) -> None:
        self._entries.pop(key, None)

    def pop_oldest(self) -> tuple[K, V]:
        return self._entries.popitem(last=False)

    def clear(self) -> None:
        self._entries.clear()

    def __len__(self) -> int:
        return len(self._entries)


class Expiry(Enum):
    """The start of an entry's `ttl`."""

    AFTER_WRITE = "after-write"
    AFTER_READ = "after-read"  # each use starts it again


AFTER_WRITE = Expiry.AFTER_WRITE
AFTER_READ = Expiry.AFTER_READ
STOPPING = "the server is stopping"


class LoadingCache(Generic[K, V]):
    """At most `size` values (LRU); `ttl` in seconds, None: entries do not expire.

    `size` 0 stores nothing, and concurrent requests still share one load. The owner closes a cache
    that loads before closing the resources of its loaders.
    """

    def __init__(
        self,
        size: int,
        ttl: float | None = None,
        policy: Expiry = AFTER_WRITE,
        *,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self._ttl = ttl
        self._renew = policy is AFTER_READ
        self._clock = clock
        self._entries: LruDict[K, tuple[V, float]] = LruDict(size)
        self._loads: dict[K, asyncio.Task[V]] = {}  # loads whose result may be stored
        self._running: set[asyncio.Task[V]] = set()  # all: the loop alone would not keep them alive
        self._is_closed = False

    async def get(self, key: K, loader: Callable[[K], Awaitable[V]]) -> V:
        """Return the value of `key`, from `loader(key)` if it is not stored.

        When the loader fails, all waiting callers get the error and nothing is stored. Cancelling
        one caller does not disturb the others: the load belongs to the cache. After `close`, a
        value that would have to be loaded raises `Overloaded`.
        """
        entry = self._find(key)
        if entry is not None:
            return entry[0]
        load = self._loads.get(key)
        if load is None:
            if self._is_closed:
                raise Overloaded(STOPPING)
            load = self._loads[key] = asyncio.create_task(self._load(key, loader))
            self._running.add(load)
            load.add_done_callback(self._forget)
        try:
            return await asyncio.shield(load)
        except asyncio.CancelledError:
            if self._is_closed and load.cancelled() and not is_being_cancelled():
                raise Overloaded(STOPPING) from None  # the load was cancelled, not its caller
            raise

    def find(self, key: K) -> V | None:
        """Return the value that `get` would return without waiting for a load, or None."""
        entry = self._entries.get(key) if self._ttl is None else self._find(key)
        return None if entry is None else entry[0]

    def peek(self, key: K) -> V | None:
        """Return the stored value or None; load and renew nothing."""
        entry = self._entries.peek(key)
        return None if entry is None or entry[1] <= self._clock() else entry[0]

    def put(self, key: K, value: V) -> None:
        """Store a value from another source; the result of a running load for it is dropped."""
        self._loads.pop(key, None)
        self._store(key, value)

    def invalidate(self, key: K) -> None:
        """Drop a value. The result of a running load is dropped, too: it may be outdated."""
        self._entries.pop(key)
        self._loads.pop(key, None)

    def clear(self) -> None:
        """Drop every value, as `invalidate` does."""
        self._entries.clear()
        self._loads.clear()

    async def close(self) -> None:
        """Cancel the running loads and wait until they end."""
        self._is_closed = True
        await cancel_until_over(self._running)

    async def _load(self, key: K, loader: Callable[[K], Awaitable[V]]) -> V:
        this = asyncio.current_task()
        try:
            value = await loader(key)
            if self._loads.get(key) is this:  # else invalidated in the meantime
                self._store(key, value)
            return value
        finally:
            if self._loads.get(key) is this:
                del self._loads[key]

    def _find(self, key: K) -> tuple[V, float] | None:
        entry = self._entries.get(key)
        if entry is not None and self._ttl is not None:
            now = self._clock()
            if entry[1] <= now:
                self._entries.pop(key)
                return None
            if self._renew:
                self._entries.put(key, (entry[0], now + self._ttl))
        return entry

    def _store(self, key: K, value: V) -> None:
        expires = float("inf") if self._ttl is None else self._clock() + self._ttl
        self._entries.put(key, (value, expires))

    def _forget(self, load: asyncio.Task[V]) -> None:
        self._running.discard(load)
        # All callers may have left by now; asyncio would log an error that was not retrieved.
        if not load.cancelled():
            load.exception()


async def close_all(*caches: LoadingCache[Any, Any]) -> None:
    await asyncio.gather(*(cache.close() for cache in caches))
