"""A bounded cache that loads what it does not have, once, however many ask for it at a time.

For one event loop. Between its awaits nothing else runs, so it needs no lock; what needs care is
what happens while a loader waits: see `invalidate`.
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

__all__ = ["AFTER_READ", "AFTER_WRITE", "Expiry", "LoadingCache", "close_all"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Expiry(Enum):
    """From when on the `ttl` of an entry counts."""

    AFTER_WRITE = "after-write"
    AFTER_READ = "after-read"  # each use is a new beginning


AFTER_WRITE = Expiry.AFTER_WRITE
AFTER_READ = Expiry.AFTER_READ
STOPPING = "the server is stopping"


class LoadingCache(Generic[K, V]):
    """At most `size` values, the least recently used goes first; `ttl` in seconds, None: for ever.

    `size` 0 keeps nothing and still loads once for all who ask at the same time. Whoever makes one
    and lets it load closes it, before what the loaders use is gone.
    """

    def __init__(
        self,
        size: int,
        ttl: float | None = None,
        policy: Expiry = AFTER_WRITE,
        *,
        clock: Callable[[], float] = elapsed,
    ) -> None:
        self._limit = size
        self._ttl = ttl
        self._renew = policy is AFTER_READ
        self._clock = clock
        self._entries: OrderedDict[K, tuple[V, float]] = OrderedDict()
        self._loads: dict[K, asyncio.Task[V]] = {}  # those whose result may be kept
        self._running: set[asyncio.Task[V]] = set()  # all: the loop alone would not keep them alive
        self._is_closed = False

    async def get(self, key: K, loader: Callable[[K], Awaitable[V]]) -> V:
        """The value of `key`, from `loader(key)` if it is not there.

        When the loader fails, all who wait for it fail alike and nothing is kept. Cancelling one
        of them does not disturb the others: the load belongs to the cache. After `close`, what
        would have to be loaded is `Overloaded`.
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
                raise Overloaded(STOPPING) from None  # the load was cancelled, not who waits
            raise

    def find(self, key: K) -> V | None:
        """What `get` would give at once; None: it would have to be loaded, or is being loaded."""
        entry = self._find(key)
        return None if entry is None else entry[0]

    def peek(self, key: K) -> V | None:
        """The value if it is there; nothing is loaded or renewed."""
        entry = self._entries.get(key)
        return None if entry is None or entry[1] <= self._clock() else entry[0]

    def put(self, key: K, value: V) -> None:
        """Keep a value that came another way; a load under way for it is not kept."""
        self._loads.pop(key, None)
        self._store(key, value)

    def invalidate(self, key: K) -> None:
        """Forget a value. A load that began before is not kept: it may have read the old state."""
        self._entries.pop(key, None)
        self._loads.pop(key, None)

    def clear(self) -> None:
        """`invalidate` every key."""
        self._entries.clear()
        self._loads.clear()

    async def close(self) -> None:
        """Cancel the loads that are under way, and wait until they are over."""
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
        if entry is None:
            return None
        if self._ttl is not None:
            now = self._clock()
            if entry[1] <= now:
                del self._entries[key]
                return None
            if self._renew:
                self._entries[key] = (entry[0], now + self._ttl)
        self._entries.move_to_end(key)
        return entry

    def _store(self, key: K, value: V) -> None:
        if self._limit <= 0:
            return
        expires = float("inf") if self._ttl is None else self._clock() + self._ttl
        self._entries[key] = (value, expires)
        self._entries.move_to_end(key)
        if len(self._entries) > self._limit:
            self._entries.popitem(last=False)

    def _forget(self, load: asyncio.Task[V]) -> None:
        self._running.discard(load)
        # All callers may be gone by now; asyncio would complain of an error that was not retrieved.
        if not load.cancelled():
            load.exception()


async def close_all(*caches: LoadingCache[Any, Any]) -> None:
    """`close` several at once."""
    await asyncio.gather(*(cache.close() for cache in caches))
