"""Metadata cache: documents of databases and collections in the collection `_properties`.

The metadata of a database has the `_id` `_properties`, that of a collection `_properties.<name>`.
It is read by nearly every request (etags, policies, aggregations), so it is cached until a change
is announced under the generation `collections`, and for `ttl` seconds at most. A cache entry
belongs to a collection by its UUID, not only by its name: a collection that was dropped and created
again, possibly before its announcement arrives, has no entry until it is read.
"""

from __future__ import annotations

from docgraph.exchange.data import Document
from docgraph.exchange.deadline import Deadline
from docgraph.runtime import Generations, LoadingCache
from docgraph.store.mounts import METADATA_STORE
from docgraph.store.store import Store

_KEPT = 10_000
_LOAD_MS = 10_000  # all callers share a load, so it has a deadline of its own

Key = tuple[str, str | None, bytes | None]


def metadata_id(collection: str | None) -> str:
    """Return the `_id` of the metadata of a collection; of its database for None."""
    return METADATA_STORE if collection is None else f"{METADATA_STORE}.{collection}"


class Metadata:
    """The cached metadata of databases and collections."""

    def __init__(self, store: Store, generations: Generations, *, ttl: float) -> None:
        self._store = store
        self._generations = generations
        self._generation = -1
        self._kept: LoadingCache[Key, Document | None] = LoadingCache(_KEPT if ttl > 0 else 0, ttl)

    async def find(
        self,
        db: str,
        collection: str | None = None,
        *,
        id: bytes | None = None,
        fresh: bool = False,
    ) -> Document | None:
        """Return the stored metadata, or None; `fresh` bypasses the cache.

        `id` is the UUID of the collection, if the caller knows which one of that name is meant.
        """
        key = (db, collection, id)
        generation = self._generations.read("collections")
        if generation != self._generation:
            self._kept.clear()
            self._generation = generation
        elif fresh:
            self._kept.invalidate(key)
        return await self._kept.get(key, self._load)

    async def close(self) -> None:
        """Cancel the loads in progress."""
        await self._kept.close()

    async def _load(self, key: Key) -> Document | None:
        db, collection, _ = key
        return await self._store.reads.find_one(
            db,
            METADATA_STORE,
            {"_id": metadata_id(collection)},
            deadline=Deadline.after_ms(_LOAD_MS),
        )
