"""State of one execution: prepared fetches, commands to the database, and their cost.

Every command of a request passes here: with the deadline, the row filters and the comment of the
request, a bounded number at a time, and counted.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from docgraph.exchange import Deadline, Document, Exchange
from docgraph.exchange.data import Keyset
from docgraph.graphql.conditions import combine
from docgraph.graphql.errors import Classification, FieldFailure, OperationRefused
from docgraph.graphql.execute.cursor_keys import KeyRing
from docgraph.graphql.execute.introspection_cache import IntrospectionCache
from docgraph.graphql.execute.result import CommandRecord, CutLists
from docgraph.graphql.execute.window import PageLimits, Window
from docgraph.graphql.freshness.recorder import DependencyRecorder, ReadRecord
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.plan.plan_tree import Fetch
from docgraph.graphql.sections import GraphqlLimits
from docgraph.graphql.where import NO_CONDITION, CompiledWhere
from docgraph.runtime import Lane
from docgraph.store import Store
from docgraph.store.collection_stats import Index
from docgraph.store.driver.portions import RawTake
from docgraph.variables import Scope, matches_nothing

CONCURRENT_COMMANDS = 8


class PreparedFetch(NamedTuple):
    """A fetch with the values of this request: coerced arguments, and the window if it is fixed.

    `indexes` are those of its collection, if a sort needs them. `where` and `order` are the
    caller's conditions and order, if the mapping allows some.
    """

    scope: Scope
    window: Window | None = None
    failure: FieldFailure | None = None
    indexes: Sequence[Index] | None = None
    where: CompiledWhere = NO_CONDITION
    order: Mapping[str, Any] | None = None

    def narrow(self, *filters: Any) -> Any:
        """Return one filter that matches when these and the caller's `where` match."""
        if matches_nothing(filters[0]):
            return filters[0]
        where = self.where.filter
        if matches_nothing(where):
            return where
        return combine([*filters, where]) if where or len(filters) > 1 else filters[0]


@dataclass(slots=True)
class Run:
    """The state of one execution."""

    plan: Plan
    store: Store
    exchange: Exchange
    bounds: PageLimits
    limits: GraphqlLimits
    variable_values: Mapping[str, Any]
    lane: Lane | None = None  # for work that would block the event loop
    answers: IntrospectionCache | None = None
    key_ring: KeyRing | None = None
    cuts: CutLists | None = None  # only if the caller wants to know
    dependencies: DependencyRecorder | None = None  # only if they are needed
    is_raw: bool = False  # documents are not decoded where an output program renders them
    rendered_bytes: int = 0  # JSON that output programs have rendered
    prepared: dict[int, PreparedFetch] = field(default_factory=dict)
    folded: set[int] = field(default_factory=set)
    parents: dict[int, int] = field(default_factory=dict)  # number of parents of a fetch
    started: float = field(default_factory=time.perf_counter)
    commands: list[CommandRecord] = field(default_factory=list)
    documents: int = 0
    _gate: asyncio.Semaphore | None = None  # created by the first command

    async def find(
        self, fetch: Fetch, filter_: Mapping[str, Any], window: Window
    ) -> list[Document]:
        """Return the documents of a window of a query, in one command; some may not be decoded."""
        documents: list[Any] = []
        page = window.page
        projection = fetch.projection if page is None else page.projection
        read = self.record(fetch, filter_)
        if read is not None:
            projection = read.project(projection)

        async def add(portion: list[Any]) -> None:
            documents.extend(portion)

        is_raw = self.is_raw and page is None and fetch.is_renderable
        async with self.gate:
            started = time.perf_counter()
            try:
                documents += await self.store.reads.find(
                    fetch.mapping.db,
                    fetch.mapping.collection,
                    filter_,
                    limit=window.size,
                    deadline=self.exchange.deadline,
                    projection=projection,
                    keyset=None if page is None else page.keyset,
                    sort=window.sort,
                    skip=window.skip,
                    comment=self._comment(fetch),
                    rows=self.rows,
                    complete=fetch.is_root,
                    trusted=True,
                    take=RawTake(add) if is_raw else None,
                )
            finally:
                self._record(fetch, "find", started, documents)
        if read is not None and not window.skip and len(documents) < window.size:
            self._close(read, documents)
        return documents

    def _close(self, read: ReadRecord, documents: Sequence[Any]) -> None:
        """Record the ids of all documents of a complete result, of which some are not decoded."""
        if bytes not in map(type, documents):
            read.close(documents)
        elif all(type(one) is bytes for one in documents):
            found = self.store.reads.decode_fields(documents, ["_id"])
            if found is not None:
                read.close(found)

    async def find_positions(
        self, fetch: Fetch, ids: Sequence[Any], sort: Mapping[str, Any], keyset: Keyset
    ) -> list[Document]:
        """Return the sort keys of the documents with these ids."""
        documents: list[Document] = []
        self.record(fetch, filter_ := {"_id": {"$in": list(ids)}})
        async with self.gate:
            started = time.perf_counter()
            try:
                documents = await self.store.reads.find(
                    fetch.mapping.db,
                    fetch.mapping.collection,
                    filter_,
                    limit=len(ids) or 1,
                    deadline=self.exchange.deadline,
                    projection={"_id": 1},
                    sort=sort,
                    comment=self._comment(fetch),
                    rows=self.rows,
                    keyset=keyset,
                )
            finally:
                self._record(fetch, "find", started, documents)
        return documents

    async def aggregate(
        self,
        fetch: Fetch,
        pipeline: Sequence[Document],
        limit: int,
        deadline: Deadline | None = None,
        *,
        is_recorded: bool = False,
    ) -> list[Document]:
        """Return the results of a pipeline, in one command.

        `is_recorded`: the caller records what it reads.
        """
        mapping = fetch.mapping
        documents: list[Document] = []
        if self.dependencies is not None and not is_recorded:
            namespace = f"{mapping.db}.{mapping.collection}"
            self.dependencies.record_pipeline(namespace, pipeline, self.rows)
        async with self.gate:
            started = time.perf_counter()
            try:
                documents = await self.store.reads.aggregate(
                    mapping.db,
                    mapping.collection,
                    pipeline,
                    limit=limit,
                    deadline=deadline or self.exchange.deadline,
                    allow_disk_use=getattr(mapping, "allow_disk_use", False),
                    comment=self._comment(fetch),
                    rows=self.rows,
                )
            finally:
                self._record(fetch, "aggregate", started, documents)
        return list(documents)

    def record(
        self, fetch: Fetch, filter_: Mapping[str, Any], command: Fetch | None = None
    ) -> ReadRecord | None:
        """Record that the answer depends on the documents of a filter, if that is needed.

        `command` is the fetch whose command reads them, if it is another one.
        """
        if self.dependencies is None:
            return None
        read, sent = fetch.mapping, (command or fetch).mapping
        return self.dependencies.record_find(
            f"{read.db}.{read.collection}", filter_, self.rows, f"{sent.db}.{sent.collection}"
        )

    @property
    def gate(self) -> asyncio.Semaphore:
        """The semaphore that bounds the concurrent commands of this request."""
        if self._gate is None:
            self._gate = asyncio.Semaphore(CONCURRENT_COMMANDS)
        return self._gate

    def count(self, documents: int) -> None:
        """Count documents of the response; more than allowed ends the request."""
        self.documents += documents
        if self.documents > self.limits.fetched_documents:
            raise OperationRefused.because(
                f"the query needs more than {self.limits.fetched_documents} documents",
                "too-many-documents",
                Classification.ABORTED,
            )

    def trim(self, documents: list[Document], limit: int) -> list[Document]:
        """Return as many documents as the limit allows; record a list that has more."""
        if len(documents) <= limit:
            return documents
        kept = documents[:limit]
        if self.cuts is not None:
            self.cuts.add(kept, limit)
        return kept

    @property
    def extra(self) -> int:
        """How many documents beyond its limit a list needs, to find out whether it was cut."""
        return 0 if self.cuts is None else 1

    @property
    def remaining(self) -> int:
        """How many documents may still be counted."""
        return self.limits.fetched_documents - self.documents

    @property
    def rows(self) -> Mapping[str, Mapping[str, Any]] | None:
        """The row filters of the caller's permission."""
        permission = self.exchange.permission
        return (permission.read_filters or None) if permission else None

    def _comment(self, fetch: Fetch) -> dict[str, str]:
        return {
            **self.plan.comment,
            "field": fetch.position.coordinates,
            "request": self.exchange.id,
        }

    def _record(
        self, fetch: Fetch, kind: str, started: float, documents: Sequence[Document]
    ) -> None:
        record = CommandRecord(
            fetch.position.coordinates,
            kind,
            f"{fetch.mapping.db}.{fetch.mapping.collection}",
            (time.perf_counter() - started) * 1000,
            len(documents),
            (started - self.started) * 1000,
            self.parents.get(id(fetch), 1),
        )
        self.commands.append(record)
