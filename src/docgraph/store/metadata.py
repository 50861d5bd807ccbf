"""The metadata documents of databases and collections, kept in the collection `_properties`.

The one of a database has the `_id` `_properties`, the one of a collection `_properties.<name>`.
They are read at nearly every request (etags, policies, aggregations), so they are remembered until
something is announced under the generation `collections`, and for `ttl` seconds at most. What is
remembered belongs to a collection and not to its name alone: of one that was made anew, which
others may know of earlier than the news of it come, nothing is known before it was looked at.
"""

from __future__ import annotations

from docgraph.exchange.data import Document
from docgraph.exchange.deadline import Deadline
from docgraph.runtime import Generations, LoadingCache
from docgraph.store.mounts import METADATA_STORE
from docgraph.store.store import Store

__all__ = ["Metadata", "metadata_id"]

_KEPT = 10_000
_LOAD_MS = 10_000  # a load is shared by all who ask, so it has a deadline of its own

Key = tuple[str, str | None, bytes | None]


def metadata_id(collection: str | None) -> str:
    """The `_id` of the metadata of a collection; of its database for None."""
    return METADATA_STORE if collection is None else f"{METADATA_STORE}.{collection}"


class Metadata:
    """What is known about databases and collections beside their documents."""

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
        """The metadata as it is stored, or None; `fresh` asks the database in any case.

        `id` is the one of the collection, for whoever knows which of that name is meant.
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
        """Give up what is being read."""
        await self._kept.close()

    async def _load(self, key: Key) -> Document | None:
        db, collection, _ = key
        return await self._store.find_one(
            db,
            METADATA_STORE,
            {"_id": metadata_id(collection)},
            deadline=Deadline.after_ms(_LOAD_MS),
        )
