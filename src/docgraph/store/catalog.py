"""Which databases and collections there are, without asking for it at every request.

That a collection exists is remembered until one is made or dropped on this instance (the generation
`collections`), and for `ttl` seconds at most, since others may drop it, too. That one does not
exist is never remembered: the next request asks again.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from docgraph.exchange.data import Consistency
from docgraph.exchange.deadline import Deadline
from docgraph.runtime import Generations
from docgraph.store.driver.command import Commands, Observed
from docgraph.store.driver.concerns import choose_preference
from docgraph.store.driver.pinned import FoundCollection, find_collection
from docgraph.store.mounts import is_reserved_collection, is_reserved_database
from docgraph.store.names import check_database, check_namespace
from docgraph.store.store import Store

__all__ = ["Catalog"]

T = TypeVar("T")

_KEPT = 10_000
_CEILING_MS = 60_000


class Catalog:
    """The names of databases and collections, as this process knows them."""

    def __init__(self, store: Store, generations: Generations, *, ttl: float) -> None:
        self._client = store.client
        self._commands = Commands(store.client, ceiling_ms=_CEILING_MS, waits=store.waits)
        self._generations = generations
        self._generation = -1
        self._ttl = ttl
        self._known: dict[tuple[str, str], tuple[float, FoundCollection]] = {}

    async def find_collection(
        self, db: str, collection: str, deadline: Deadline, *, fresh: bool = False
    ) -> FoundCollection | None:
        """The collection, or the view of that name; None when there is none.

        `fresh` asks the database in any case.
        """
        generation = self._generations.read("collections")
        if generation != self._generation:
            self._known.clear()
            self._generation = generation
        key = (db, collection)
        known = self._known.get(key)
        if known is not None and known[0] > time.monotonic() and not fresh:
            return known[1]
        check_namespace(db, collection)
        found = await self._run(
            db, "listCollections", lambda: find_collection(self._client, *key), deadline
        )
        if found is None:
            self._known.pop(key, None)
            return None
        if len(self._known) >= _KEPT:
            self._known.clear()
        self._known[key] = (time.monotonic() + self._ttl, found)
        return found

    def forget(self, db: str, collection: str, id: bytes | None) -> None:
        """Ask again, in all workers, where this one still believes in a collection that is gone."""
        known = self._known.get((db, collection))
        if known is None or known[1].id == id:
            self.announce()

    async def has_database(self, db: str, deadline: Deadline) -> bool:
        """Whether the database exists: it does when it has a collection, if only ours."""
        check_database(db)
        return bool(await self._list(db, deadline))

    async def list_collections(self, db: str, deadline: Deadline) -> list[str]:
        """The collections that people may see, sorted."""
        check_database(db)
        names = await self._list(db, deadline)
        return sorted(name for name in names if not is_reserved_collection(name))

    async def list_databases(self, deadline: Deadline) -> list[str]:
        """The databases that people may see, sorted."""
        names = await self._run(
            "admin", "listDatabases", self._client.list_database_names, deadline
        )
        return sorted(name for name in names if not is_reserved_database(name))

    async def estimate(
        self, db: str, collection: str, deadline: Deadline, consistency: Consistency | None = None
    ) -> int:
        """About how many documents there are, from what the database keeps of itself anyway.

        Of the consistency only the servers matter: there is nothing settled about an estimate.
        """
        check_namespace(db, collection)
        client, preference = self._client, None
        if consistency is not None:
            known = client.topology_description
            preference = choose_preference(consistency, client.read_preference, known)
        target = client.get_database(db).get_collection(collection, read_preference=preference)
        return await self._run(db, "count", target.estimated_document_count, deadline)

    def announce(self) -> None:
        """Make known to every worker that collections were made, dropped or described anew."""
        self._generations.bump("collections")

    async def _list(self, db: str, deadline: Deadline) -> list[str]:
        database = self._client.get_database(db)
        return await self._run(db, "listCollections", database.list_collection_names, deadline)

    async def _run(
        self, db: str, command: str, work: Callable[[], Awaitable[T]], deadline: Deadline
    ) -> T:
        seconds = self._commands.budget(deadline)
        with Observed(db, {command: ""}):
            return await self._commands.within(seconds, work, deadline)
