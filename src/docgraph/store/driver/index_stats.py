"""Index statistics: which indexes exist, how often they are used, what they serve.

For tools that give advice on a database as a whole. No row filters are added: users who get the
results must be allowed to read all of the data.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from docgraph.exchange.data import CollectionName, Consistency, Document, Filter
from docgraph.exchange.deadline import Deadline
from docgraph.exchange.errors import DocgraphError, StoreUnavailable
from docgraph.store.collection_stats import SPECIAL_OPTIONS, Index
from docgraph.store.driver.command import Commands
from docgraph.store.driver.malformed import reading_reply
from docgraph.store.find import build_find
from docgraph.store.guard.stage_checks import check_filter
from docgraph.store.names import check_namespace
from docgraph.store.query_plan import Execution, QueryPlan, read_execution, read_plan
from docgraph.store.store import Store

_CEILING_MS: Final = 60_000
_MAX_INDEXES: Final = 1_000
_LOCAL: Final = Consistency(concern="local")


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
        index = Index.read(document)
        is_constraint = index.unique or "expireAfterSeconds" in document
        special = next((option for option in SPECIAL_OPTIONS if document.get(option)), "")
        return cls(str(document["name"]), index, is_constraint, special)


@dataclass(frozen=True, slots=True)
class IndexUse:
    """How often an index was used since the start of the servers that count it."""

    accesses: int
    since: datetime | None


class IndexStats:
    """Queries indexes and plans of a database, without changing anything."""

    def __init__(self, store: Store) -> None:
        self._policy = store.policy
        self._commands = Commands(store.client, ceiling_ms=_CEILING_MS, waits=store.waits)

    async def list_indexes(
        self, place: CollectionName, deadline: Deadline
    ) -> tuple[NamedIndex, ...]:
        db, collection = place
        check_namespace(db, collection)
        command: Document = {"listIndexes": collection, "cursor": {"batchSize": _MAX_INDEXES}}
        indexes = await self._commands.fetch(db, command, deadline)
        with reading_reply():
            return tuple(map(NamedIndex.read, indexes))

    async def read_uses(
        self, place: CollectionName, deadline: Deadline
    ) -> dict[str, IndexUse] | None:
        """Return the use of each index, summed over all servers; None if it is not available."""
        db, collection = place
        check_namespace(db, collection)
        stages: list[Document] = [{"$indexStats": {}}]
        command: Document = {"aggregate": collection, "pipeline": stages, "cursor": {}}
        try:
            replies = await self._commands.fetch(db, command, deadline, _LOCAL)
        except StoreUnavailable:
            raise
        except DocgraphError:
            return None  # a missing privilege
        uses: dict[str, IndexUse] = {}
        with reading_reply():
            for server in replies:
                name, counted = str(server.get("name")), server.get("accesses") or {}
                before = uses.get(name, IndexUse(0, None))
                starts = filter(None, (before.since, counted.get("since")))
                count = before.accesses + int(counted.get("ops", 0))
                uses[name] = IndexUse(count, min(starts, default=None))
        return uses

    async def plan(
        self, place: CollectionName, filter: Filter, sort: Mapping[str, Any], deadline: Deadline
    ) -> QueryPlan:
        """Return how the database would find these documents; nothing is executed."""
        command = self._build(place, filter, sort, 1)
        return read_plan(await self._commands.explain(place[0], command, deadline))

    async def try_out(
        self,
        place: CollectionName,
        filter: Filter,
        sort: Mapping[str, Any],
        *,
        limit: int,
        deadline: Deadline,
    ) -> Execution:
        """Execute a query for the first `limit` documents; return its statistics."""
        command = self._build(place, filter, sort, limit)
        reply = await self._commands.explain(place[0], command, deadline, "executionStats")
        return read_execution(reply)

    def _build(
        self, place: CollectionName, filter: Filter, sort: Mapping[str, Any], limit: int
    ) -> Document:
        check_namespace(*place)
        check_filter(filter, policy=self._policy, trusted=True)
        return build_find(place[1], filter, limit=limit, options={"sort": dict(sort)})
