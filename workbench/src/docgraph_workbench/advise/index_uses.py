"""Indexes of a collection: their names, what they are for, and how often the database used them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from docgraph import Deadline
from docgraph.tools.data import (
    SPECIAL_OPTIONS,
    CollectionName,
    Index,
    Store,
    read_index_stats,
    reading_reply,
)


@dataclass(frozen=True, slots=True)
class NamedIndex:
    """An index with its name; `constrains`: it also rejects, or deletes, documents."""

    name: str
    index: Index
    constrains: bool = False
    special: str = ""  # the option for which the database may not use it

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> NamedIndex:
        """Parse an index as the database describes it."""
        with reading_reply():
            index = Index.read(document)
            is_constraint = index.unique or "expireAfterSeconds" in document
            special = next((option for option in SPECIAL_OPTIONS if document.get(option)), "")
            return cls(str(document["name"]), index, is_constraint, special)


@dataclass(frozen=True, slots=True)
class IndexUse:
    """How often an index was used since the start of the servers that count it."""

    accesses: int
    since: datetime | None


async def find_uses(
    store: Store, place: CollectionName, deadline: Deadline
) -> dict[str, IndexUse] | None:
    """Return the use of each index, summed over all servers; None if it is not available."""
    replies = await read_index_stats(store, place, deadline)
    if replies is None:
        return None
    uses: dict[str, IndexUse] = {}
    with reading_reply():
        for server in replies:
            name, counted = str(server.get("name")), server.get("accesses") or {}
            before = uses.get(name, IndexUse(0, None))
            starts = filter(None, (before.since, counted.get("since")))
            count = before.accesses + int(counted.get("ops", 0))
            uses[name] = IndexUse(count, min(starts, default=None))
    return uses
