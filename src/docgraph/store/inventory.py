"""Which collections a database has, of which kind they are, and a fair sample of their documents.

For those who look at data as a whole. What is read passes the guards of the store; every question
has a bound in time, documents and bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from docgraph.exchange.data import Consistency, Document
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import (
    AnswerTooLarge,
    DocgraphError,
    StoreForbidden,
    TimeLimitExceeded,
)
from docgraph.store.driver.command import Commands
from docgraph.store.driver.portions import Take
from docgraph.store.names import check_database, check_namespace
from docgraph.store.store import Store

__all__ = ["Inventory", "Listed", "Measure"]

_CEILING_MS: Final = 60_000
_MOST_COLLECTIONS: Final = 100_000
_MOST_BYTES: Final = 16 << 20  # of a sample
_PATIENCE_MS: Final = 3_000  # for the beginning of a collection that cannot be sampled in time
_LOCAL: Final = Consistency(concern="local")


@dataclass(frozen=True, slots=True)
class Listed:
    """A collection; `kind` is `collection`, `view` or `timeseries`.

    `required` are the properties that its validator demands of every document.
    """

    name: str
    kind: str = "collection"
    required: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Measure:
    """About how many documents there are, and how many bytes one has; None: nobody knows."""

    documents: int | None = None
    bytes_each: int | None = None


class Inventory:
    """Looks at the collections of a database."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._commands = Commands(store.client, ceiling_ms=_CEILING_MS, waits=store.waits)

    async def list_collections(self, db: str, deadline: Deadline) -> list[Listed]:
        """All collections and views that the connection may see, by name."""
        check_database(db)
        command: Document = {
            "listCollections": 1,
            "authorizedCollections": True,
            "cursor": {"batchSize": _MOST_COLLECTIONS},
        }
        try:
            found = await self._commands.fetch(db, {**command}, deadline)
        except StoreForbidden:
            found = await self._commands.fetch(db, {**command, "nameOnly": True}, deadline)
        return sorted(map(_read_listed, found), key=lambda one: one.name)

    async def measure(self, db: str, collection: str, deadline: Deadline) -> Measure:
        """The size of a collection, from what the database keeps of itself."""
        check_namespace(db, collection)
        stages: list[Document] = [{"$collStats": {"storageStats": {}}}]
        command: Document = {"aggregate": collection, "pipeline": stages, "cursor": {}}
        try:
            found = await self._commands.fetch(db, command, deadline, _LOCAL)
        except DocgraphError:
            return Measure()  # a view, or a missing right
        stats = [one.get("storageStats", {}) for one in found]
        documents = sum(int(one.get("count", 0)) for one in stats)
        size = sum(int(one.get("size", 0)) for one in stats)
        if any("timeseries" in one for one in stats):
            return Measure()  # it counts buckets
        return Measure(documents, size // documents if documents else 0)

    async def sample(
        self,
        db: str,
        collection: str,
        size: int,
        measure: Measure,
        *,
        deadline: Deadline,
        take: Take,
    ) -> bool:
        """Hand over documents at random; whether it was a fair sample and no mere beginning.

        Fewer than `size`, where they are large: 16 MiB together, about. All of them in their
        order, where there are no more.
        """
        most = min(size, max(1, _MOST_BYTES // max(1, measure.bytes_each or 1)))
        if measure.documents is not None and measure.documents <= most:
            await self._take_first(db, collection, most, deadline, take)
            return True
        began = False

        async def note(documents: list[Document]) -> None:
            nonlocal began
            began = True
            await take(documents)

        stages = [{"$sample": {"size": most}}]
        try:
            await self._store.aggregate(
                db, collection, stages, limit=most, deadline=deadline, take=note
            )
        except AnswerTooLarge:
            return True  # what has come by then is as random as the rest
        except TimeLimitExceeded:
            if not began:
                patience = Deadline.after_ms(_PATIENCE_MS)
                await self._take_first(db, collection, most, patience, take)
            return began
        return True

    async def _take_first(
        self, db: str, collection: str, most: int, deadline: Deadline, take: Take
    ) -> None:
        try:
            await self._store.find(db, collection, {}, limit=most, deadline=deadline, take=take)
        except (AnswerTooLarge, TimeLimitExceeded):
            return


def _read_listed(document: Mapping[str, Any]) -> Listed:
    options = document.get("options") or {}
    schema = (options.get("validator") or {}).get("$jsonSchema") or {}
    required = schema.get("required") if isinstance(schema, Mapping) else None
    names = required if isinstance(required, list) else ()
    return Listed(
        str(document["name"]),
        str(document.get("type", "collection")),
        frozenset(name for name in names if isinstance(name, str)),
    )
