"""State of one execution: prepared fetches, commands to the database, and their cost.

Every command of a request passes here: with the deadline, the row filters and the comment of the
request, a bounded number at a time, and counted.
"""

from __future__ import annotations

import time
from collections.abc import Coroutine, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from math import inf
from typing import Any, NamedTuple, TypeVar

from docgraph.exchange import Deadline, Document, Exchange
from docgraph.exchange.data import CollectionName, Keyset
from docgraph.graphql.conditions import combine
from docgraph.graphql.errors import Classification, FieldFailure, OperationRefused
from docgraph.graphql.execute.cursor_keys import KeyRing
from docgraph.graphql.execute.introspection_cache import IntrospectionCache
from docgraph.graphql.execute.result import CommandRecord, CutLists
from docgraph.graphql.execute.window import NOT_RELATED, RelatedStages, Window
from docgraph.graphql.freshness.recorder import DependencyRecorder, ReadRecord
from docgraph.graphql.plan.plan import Plan
from docgraph.graphql.plan.plan_tree import Fetch
from docgraph.graphql.sections import Graphql, GraphqlLimits
from docgraph.graphql.where import NO_CONDITION, CompiledWhere
from docgraph.runtime import AdmissionQueue, Lane
from docgraph.runtime.native import find_native
from docgraph.store import Store
from docgraph.store.collection_stats import Index
from docgraph.store.driver.portions import RawTake
from docgraph.store.guard.shield import Rows
from docgraph.store.guard.stage_checks import KeptStage
from docgraph.variables import Resolvers, Scope, matches_nothing

T = TypeVar("T")

CONCURRENT_COMMANDS = 8
_UNBOUNDED = 2**31  # commands of one request that wait for their turn


class PreparedFetch(NamedTuple):
    """A fetch with the values of this request: coerced arguments, and the window if it is fixed.

    `indexes` are those of its collection, if a sort needs them. `where` and `order` are the
    caller's conditions and order, if the mapping allows some; `related` what they need of other
    documents.
    """

    scope: Scope
    window: Window | None = None
    failure: FieldFailure | None = None
    indexes: Sequence[Index] | None = None
    where: CompiledWhere = NO_CONDITION
    order: Mapping[str, Any] | None = None
    related: RelatedStages = NOT_RELATED

    def narrow(self, *filters: Any) -> Any:
        """Return one filter that matches when these and the caller's `where` match."""
        if matches_nothing(filters[0]):
            return filters[0]
        where = self.where.filter
        if matches_nothing(where):
            return where
        return combine([*filters, where]) if where or len(filters) > 1 else filters[0]


@dataclass(slots=True)
class KeptFetch:
    """What is prepared of a fetch without the variables of a request, so that all share it.

    It depends on the plan and on the `bounds`. `window`: sort, skip and limit are constants;
    `prepared`: no argument depends on variables.
    """

    bounds: Graphql
    window: Window | None = None
    prepared: PreparedFetch | None = None
    ordered: PreparedFetch | None = None  # the same by the indexes of its collection
    lookup: tuple[PreparedFetch, KeptStage] | None = None  # the stage that includes it
    tail: tuple[Window, tuple[KeptStage, ...], list[KeptStage]] | None = None  # `fetch_folding`


@dataclass(slots=True, eq=False, repr=False)
class Run:
    """The state of one execution; built once, with all that the execution depends on.

    Work that would block the event loop runs in the `lane`. `answers` caches introspection,
    `key_ring` has the key of cursors. Executions of `slow_after` seconds or more are logged.
    `report_limits`: the result names the lists that their limit cut. `dependencies` records what
    the result depends on. `is_raw`: values in the result may be JSON (bytes), where the native
    extension renders it: documents are not decoded then.
    """

    plan: Plan
    exchange: Exchange
    variable_values: Mapping[str, Any]  # the raw JSON values of the request
    _: KW_ONLY
    store: Store
    resolvers: Resolvers
    bounds: Graphql
    limits: GraphqlLimits
    lane: Lane | None = None
    answers: IntrospectionCache | None = None
    key_ring: KeyRing | None = None
    slow_after: float = inf
    report_limits: bool = False
    dependencies: DependencyRecorder | None = None
    is_raw: bool = False
    cuts: CutLists | None = field(init=False)
    extra: int = field(init=False)  # documents beyond a limit, to see if it cut a list
    rows: Rows | None = field(init=False)  # row filters
    rendered_bytes: int = field(default=0, init=False)  # JSON that output programs have rendered
    prepared: dict[int, PreparedFetch] = field(default_factory=dict, init=False)
    folded: set[int] = field(default_factory=set, init=False)
    parents: dict[int, int] = field(default_factory=dict, init=False)  # of a fetch: their number
    entities: dict[int, Any] = field(default_factory=dict, init=False)  # `PreparedEntities`
    representations: int = field(default=0, init=False)
    commands: list[CommandRecord] = field(default_factory=list, init=False)
    documents: int = field(default=0, init=False)
    gate: AdmissionQueue = field(init=False)
    started: float = field(default_factory=time.perf_counter, init=False)

    def __post_init__(self) -> None:
        self.cuts = CutLists() if self.report_limits else None
        self.extra = 1 if self.report_limits else 0
        self.is_raw = self.is_raw and not self.report_limits and find_native() is not None
        permission = self.exchange.permission
        self.rows = (permission.read_filters or None) if permission else None
        self.gate = AdmissionQueue(CONCURRENT_COMMANDS, _UNBOUNDED, "")

    async def find(
        self, fetch: Fetch, filter_: Mapping[str, Any], window: Window
    ) -> list[Document]:
        """Return the documents of a window of a query, in one command; some may not be decoded."""
        documents: list[Any] = []
        page = window.page
        projection = fetch.projection if page is None else page.projection
        read = None if self.dependencies is None else self.record(fetch, filter_)
        if read is not None:
            projection = read.project(projection)

        async def add(portion: list[Any]) -> None:
            documents.extend(portion)

        is_raw = self.is_raw and page is None and fetch.is_renderable
        work = self.store.reads.find(
            fetch.mapping.db,
            fetch.mapping.collection,
            filter_,
            limit=window.limit + window.extra,
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
        await self._send(fetch, "find", work, documents)
        if read is not None and not window.skip and len(documents) < window.size:
            self._close(read, documents)
        return documents

    def _close(self, read: ReadRecord, documents: Sequence[Any]) -> None:
        """Record the ids of all documents of a complete result, of which some are not decoded."""
        if bytes not in map(type, documents):
            read.close(documents)
        elif all(type(document) is bytes for document in documents):
            decoded = self.store.reads.decode_fields(documents, ["_id"])
            if decoded is not None:
                read.close(decoded)

    async def find_positions(
        self, fetch: Fetch, ids: Sequence[Any], sort: Mapping[str, Any], keyset: Keyset
    ) -> list[Document]:
        """Return the sort keys of the documents with these ids."""
        documents: list[Document] = []
        ordering = self.prepared[id(fetch)].related.ordering
        if ordering:
            stages: list[Document] = [{"$match": {"_id": {"$in": list(ids)}}}, *ordering]
            stages += [{"$match": keyset.filter}] if keyset.filter else []
            stages.append({"$project": {"_id": 1, **keyset.projection}})
            return await self.aggregate(fetch, stages, len(ids) or 1)
        self.record(fetch, filter_ := {"_id": {"$in": list(ids)}})
        work = self.store.reads.find(
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
        await self._send(fetch, "find", work, documents)
        return documents

    async def aggregate(
        self,
        fetch: Fetch,
        pipeline: Sequence[Document],
        limit: int,
        deadline: Deadline | None = None,
        *,
        is_recorded: bool = False,
        place: CollectionName | None = None,
    ) -> list[Document]:
        """Return the results of a pipeline, in one command, on another collection if it is given.

        `is_recorded`: the caller records what it reads.
        """
        mapping = fetch.mapping
        documents: list[Document] = []
        place = place or (mapping.db, mapping.collection)
        if self.dependencies is not None and not is_recorded:
            self.dependencies.record_pipeline(".".join(place), pipeline, self.rows)
        work = self.store.reads.aggregate(
            *place,
            pipeline,
            limit=limit,
            deadline=deadline or self.exchange.deadline,
            allow_disk_use=getattr(mapping, "allow_disk_use", False),
            comment=self._comment(fetch),
            rows=self.rows,
        )
        await self._send(fetch, "aggregate", work, documents, ".".join(place))
        return documents

    async def _send(
        self,
        fetch: Fetch,
        kind: str,
        work: Coroutine[Any, Any, list[Document]],
        documents: list[Document],
        namespace: str = "",
    ) -> None:
        """Add the result of one command, sent in its turn, and record what it cost."""
        if not self.gate.try_enter():
            await self._wait_turn(work)
        started = time.perf_counter()
        try:
            documents += await work
        finally:
            self.gate.leave()
            self.commands.append(
                CommandRecord(
                    fetch.position.coordinates,
                    kind,
                    namespace or fetch.namespace,
                    (time.perf_counter() - started) * 1000,
                    len(documents),
                    (started - self.started) * 1000,
                    self.parents.get(id(fetch), 1),
                )
            )

    async def in_turn(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a command that is no part of the result, in its turn."""
        if not self.gate.try_enter():
            await self._wait_turn(work)
        try:
            return await work
        finally:
            self.gate.leave()

    async def _wait_turn(self, work: Coroutine[Any, Any, Any]) -> None:
        try:
            await self.gate.enter()
        except BaseException:
            work.close()
            raise

    def record(
        self, fetch: Fetch, filter_: Mapping[str, Any], command: Fetch | None = None
    ) -> ReadRecord | None:
        """Record that the answer depends on the documents of a filter, if that is needed.

        `command` is the fetch whose command reads them, if it is another one.
        """
        if self.dependencies is None:
            return None
        sent = (command or fetch).namespace
        return self.dependencies.record_find(fetch.namespace, filter_, self.rows, sent)

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
    def remaining(self) -> int:
        """How many documents may still be counted."""
        return self.limits.fetched_documents - self.documents

    def _comment(self, fetch: Fetch) -> dict[str, str]:
        return {
            **self.plan.comment,
            "field": fetch.position.coordinates,
            "request": self.exchange.id,
        }
