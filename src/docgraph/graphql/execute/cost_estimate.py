"""Cost preview: the commands of a query and whether an index serves them; they are not sent.

It uses the database's `explain` and the cached collection stats, and for an index of several
properties the first documents: which of them are arrays. Below the first level, the
filter depends on parents that are not fetched: a value that no document has replaces their keys.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from docgraph.codec.bson_types import ObjectId
from docgraph.exchange import Deadline
from docgraph.exchange.data import CollectionName, Document
from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.conditions import combine
from docgraph.graphql.definition.mapping import AggregationMapping, QueryMapping
from docgraph.graphql.execute.document_estimate import (
    count_stored,
    estimate_documents,
    first_filter,
    list_related,
    most_documents,
)
from docgraph.graphql.execute.execute import prepare
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.execute.relations import render_rest
from docgraph.graphql.joins import split_joins
from docgraph.graphql.plan.plan import describe_way
from docgraph.graphql.plan.plan_tree import Fetch
from docgraph.graphql.related import RelatedCondition, replace_conditions
from docgraph.runtime.tasks import concurrently
from docgraph.store.index_selection import IndexKeys, find_wants
from docgraph.store.order import order_ties, pinned_paths
from docgraph.store.query_plan import QueryPlan
from docgraph.variables import Template, matches_nothing
from docgraph.variables.paths import get_field, put_value

_SAMPLE_ID: Final = ObjectId("000000000000000000000000")
_COUNT_MS: Final = 500
_SAMPLED: Final = 20  # documents that show which properties are arrays
_NO_PLAN: Final = QueryPlan((), ())


@dataclass(frozen=True, slots=True)
class FetchEstimate:
    """The expected command of one field.

    `limit` is the maximum number of documents per parent, `stored` the number in the collection.
    `is_scan`: documents are examined one after the other, maybe in the order of an index.
    `needs_index`: no index serves the query. `wanted_keys` are the keys of those that would, all of
    them needed, and the same as in `docgraph apps advise`.
    """

    field: str
    kind: str
    way: str
    limit: int
    namespace: str
    plan: QueryPlan
    is_scan: bool
    stored: int | None
    examined: int | None  # documents that one command examines
    needs_index: bool = False
    wanted_keys: tuple[IndexKeys, ...] = ()
    failure: str = ""  # why the field cannot be fetched, such as a limit above the maximum

    @property
    def access(self) -> str:
        """`index`, `scan`, or `unknown` where that depends on values of parents."""
        if not self.plan.is_known:
            return "unknown"
        return "scan" if self.is_scan else "index"

    @property
    def warning(self) -> str:
        """The problem that an index would fix; empty if nothing is wrong."""
        if not self.needs_index:
            return ""
        if not self.is_scan:
            return f"{self.field} sorts all that it finds in {self.namespace} in memory"
        stored = "" if self.stored is None else f", which has about {self.stored} documents"
        return f"{self.field} scans {self.namespace}{stored}: no index serves it"

    def as_dict(self, *, privileged: bool) -> dict[str, Any]:
        """Return the preview for JSON; storage names and counts only for privileged callers."""
        content: dict[str, Any] = {
            "field": self.field,
            "way": self.way,
            "limit": self.limit,
            "access": self.access,
        }
        if self.failure:
            content["error"] = self.failure
        if self.needs_index and self.is_scan:
            content["advice"] = "no index serves this: ask for less of it, or by other arguments"
        elif self.needs_index:
            content["advice"] = "all that matches is sorted in memory: ask for it in no order"
        if not privileged:
            return content
        content |= {
            "collection": self.namespace,
            "documents": self.stored,
            "examined": self.examined,
            "indexes": list(self.plan.indexes),
            "sortsInMemory": self.plan.sorts,
        }
        if self.wanted_keys:
            content["missingIndex"] = dict(self.wanted_keys[0])
            db, _, collection = self.namespace.partition(".")
            commands = [render_command((db, collection), dict(keys)) for keys in self.wanted_keys]
            content["createIndex"] = "; ".join(commands)
        return content


def render_command(place: tuple[str, str], keys: Mapping[str, Any]) -> str:
    """Return the MongoDB shell command that creates the index."""
    names = (json.dumps(part, ensure_ascii=False) for part in (*place, dict(keys)))
    return "db.getSiblingDB({}).getCollection({}).createIndex({})".format(*names)


@dataclass(frozen=True, slots=True)
class CostEstimate:
    """The expected cost of a query; the estimates are in documents."""

    fetches: tuple[FetchEstimate, ...]
    by_limits: int
    by_counts: int
    limit: int  # the query is rejected above this number of documents by counts
    budget: int | None = None  # documents that may be fetched
    certain: int = 0  # documents of the first level, counted up to the budget

    def find_refusal(self) -> str:
        """Return why the query is rejected, or a field of it is null; empty: neither is known."""
        failed = [f"{fetch.field}: {fetch.failure}" for fetch in self.fetches if fetch.failure]
        if failed:
            return failed[0]
        if self.by_counts > self.limit:
            return "it could need more documents than estimated-documents allows"
        if self.budget is not None and self.certain > self.budget:
            return f"it needs more than {self.budget} documents"
        return ""

    def as_dict(self, *, privileged: bool) -> dict[str, Any]:
        """Return the preview for JSON; storage names and counts only for privileged callers."""
        refusal = self.find_refusal()
        estimated: dict[str, Any] = {"byLimits": self.by_limits}
        if privileged:
            estimated["byCounts"] = self.by_counts
        content = {"estimatedDocuments": estimated, "wouldBeRefused": bool(refusal)}
        if refusal:
            content["because"] = refusal
        elif self.budget is not None and self.by_counts > self.budget:
            content["mayExceedBudget"] = True  # that depends on how much the lists inside find
        content["fetches"] = [fetch.as_dict(privileged=privileged) for fetch in self.fetches]
        return content


async def estimate_cost(run: Run, budget: int | None = None) -> CostEstimate:
    """Preview every command of the execution without sending it.

    `budget` is the number of documents that may be fetched; matches are counted up to it.
    """
    tree = await prepare(run)
    by_limits, by_counts = await estimate_documents(tree, run)
    fetches = await concurrently([_estimate_fetch(fetch, run) for fetch in tree.fetches])
    related = [_estimate_related(*each, run) for each in list_related(tree, run)]
    fetches += await concurrently(related) if related else []
    limit = run.limits.estimated_documents
    certain = 0
    if budget is not None and budget < by_counts <= limit:
        roots = [fetch for fetch in tree.fetches if fetch.is_root]
        certain = sum(await concurrently([_count_matches(root, budget, run) for root in roots]))
    return CostEstimate(tuple(fetches), by_limits, by_counts, limit, budget, certain)


async def _count_matches(fetch: Fetch, budget: int, run: Run) -> int:
    """Return how many documents a field of the first level fetches, at most one above the budget.

    0 if that is unknown.
    """
    window, filter_ = run.prepared[id(fetch)].window, _render_filter(fetch, run)
    if window is None or filter_ is None or not isinstance(fetch.mapping, QueryMapping):
        return 0
    deadline = Deadline.after_ms(_COUNT_MS)
    most = min(window.limit, budget + 1)
    try:
        counting = run.store.reads.count(
            fetch.mapping.db,
            fetch.mapping.collection,
            filter_,
            limit=window.skip + most,
            deadline=deadline,
            rows=run.rows,
        )
        count = await run.in_turn(counting)
    except DocgraphError:
        return 0
    return max(0, count - window.skip)


async def _estimate_fetch(fetch: Fetch, run: Run) -> FetchEstimate:
    mapping = fetch.mapping
    prepared, place = run.prepared[id(fetch)], (mapping.db, mapping.collection)
    window = prepared.window if isinstance(mapping, QueryMapping) else None
    sort = _first_sort(mapping) if window is None else dict(window.sort or {})
    if prepared.related.ordering:
        sort = {}  # no index has values of related documents
    filter_ = _render_filter(fetch, run)
    plan = _NO_PLAN if filter_ is None else await _explain(place, filter_, sort, run)
    stored = await run.store.stats.count(mapping.db, mapping.collection)
    is_bounded = not filter_ and window is not None and not plan.sorts
    is_scan = plan.is_scan or (bool(filter_) and plan.reads_whole_index)
    examined = None
    if is_scan and stored is not None:
        examined = min(window.end, stored) if is_bounded and window is not None else stored
    needs_index = (is_scan and not is_bounded) or plan.sorts
    wanted_keys: tuple[IndexKeys, ...] = ()
    if needs_index:  # as sent: with `_id` at the end
        sent, order = filter_ or {}, sort
        if window is not None:
            order = order_ties(sort, frozenset(pinned_paths(sent)), ())
        wanted_keys = await _find_wanted(place, sent, order, run, is_scan=is_scan)
    return FetchEstimate(
        field=fetch.position.coordinates,
        kind="aggregate" if isinstance(mapping, AggregationMapping) else "find",
        way=describe_way(fetch),
        limit=most_documents(fetch, run),
        namespace=f"{mapping.db}.{mapping.collection}",
        plan=plan,
        is_scan=is_scan,
        stored=stored,
        examined=examined,
        needs_index=needs_index,
        wanted_keys=wanted_keys,
        failure=prepared.failure.message if prepared.failure is not None else "",
    )


async def _estimate_related(fetch: Fetch, condition: RelatedCondition, run: Run) -> FetchEstimate:
    """Return the estimate of the command that finds the keys of related documents."""
    spec, stored = condition.spec, await count_stored(condition.spec, run)
    plan, filter_, failure = _NO_PLAN, {}, ""
    try:
        rest = render_rest(spec, run.prepared[id(fetch)].scope, run)
        if not matches_nothing(rest):
            filter_ = combine([rest, _sample_keys(condition.filter)])
            plan = await _explain(spec.place, filter_, {}, run)
    except DocgraphError as error:
        failure = error.message
    is_scan = plan.is_scan or (bool(filter_) and plan.reads_whole_index)
    needs_index = is_scan and bool(filter_)
    return FetchEstimate(
        field=f"{fetch.position.coordinates}.where.{condition.path}",
        kind="aggregate",
        way="one command for the keys of the condition; more keys than its bound are looked up",
        limit=run.limits.fetched_documents,
        namespace=spec.namespace,
        plan=plan,
        is_scan=is_scan,
        stored=stored,
        examined=stored if is_scan else None,
        needs_index=needs_index,
        wanted_keys=await _find_wanted(spec.place, filter_, {}, run, is_scan=True)
        if needs_index
        else (),
        failure=failure,
    )


async def _find_wanted(
    place: CollectionName,
    filter_: Mapping[str, Any],
    sort: Mapping[str, Any],
    run: Run,
    *,
    is_scan: bool,
) -> tuple[IndexKeys, ...]:
    """Return the keys of the missing indexes; a few documents show which properties are arrays."""
    wants = find_wants(filter_, sort, lambda path: None, is_scan=is_scan)
    paths = {path for want in wants for path, _ in next(want.arrange())}
    if any(want.length > 1 for want in wants):  # an index has the elements of one array at most
        documents = await _find_some(place, {path.partition(".")[0] for path in paths}, run)
        find_array = partial(_find_array, documents)
        wants = find_wants(filter_, sort, find_array, is_scan=is_scan)
    return tuple(next(want.arrange()) for want in wants)


async def _find_some(place: CollectionName, names: Collection[str], run: Run) -> list[Document]:
    try:
        finding = run.store.reads.find(
            *place,
            {},
            projection=dict.fromkeys(names, 1),
            limit=_SAMPLED,
            deadline=run.exchange.deadline,
            rows=run.rows,
        )
        return await run.in_turn(finding)
    except DocgraphError:
        return []  # unknown, as in an empty collection


def _find_array(documents: Sequence[Document], path: str) -> str | None:
    """Return the outermost array that a path leads into."""
    steps = tuple(path.split("."))
    for end in range(1, len(steps) + 1):
        if any(isinstance(get_field(each, steps[:end]), list) for each in documents):
            return ".".join(steps[:end])
    return None


def _sample_keys(filter_: Mapping[str, Any]) -> Any:
    """Return the filter with a sample in place of the keys of related documents."""
    return replace_conditions(filter_, lambda each: {each.spec.joins[0].key: {"$in": [_SAMPLE_ID]}})


async def _explain(
    place: CollectionName, filter_: Mapping[str, Any], sort: Mapping[str, Any], run: Run
) -> QueryPlan:
    """Return the database's plan; missing parts are unknown."""
    try:
        explaining = run.store.reads.explain(
            *place,
            filter_,
            sort=sort,
            deadline=run.exchange.deadline,
            rows=run.rows,
        )
        return await run.in_turn(explaining)
    except DocgraphError:
        return _NO_PLAN


def _render_filter(fetch: Fetch, run: Run) -> Mapping[str, Any] | None:
    """Return the filter, with a placeholder for keys of parents; None: unknown."""
    template = first_filter(fetch.mapping)
    if template is None:
        return {}
    joins, others = split_joins(template)
    keys = {join.target: {"$in": [_SAMPLE_ID]} for join in joins}
    rest, where = _render(others, fetch, run), run.prepared[id(fetch)].where.filter
    if run.prepared[id(fetch)].where.has_relations:
        where = _sample_keys(where)
    if matches_nothing(where) or (rest is None and not keys):
        return None
    combined: Mapping[str, Any] = combine([keys, {} if rest is None else rest, where])
    return combined


def _render(template: Template, fetch: Fetch, run: Run) -> Mapping[str, Any] | None:
    parent: Document = {}
    for key in filter(None, template.foreign_keys):
        put_value(parent, key, _SAMPLE_ID)
    try:
        rendered = template.render(replace(run.prepared[id(fetch)].scope, parent=parent))
    except DocgraphError:
        return None
    if matches_nothing(rendered) or not isinstance(rendered, Mapping):
        return None
    return rendered


def _first_sort(mapping: QueryMapping | AggregationMapping) -> Mapping[str, Any]:
    """Return the order in which an aggregation reads its documents."""
    stages = mapping.stages.source if isinstance(mapping, AggregationMapping) else []
    for stage in stages if isinstance(stages, list) else []:
        match stage:
            case {"$sort": dict(sort)}:
                is_fixed = all(isinstance(direction, int | float) for direction in sort.values())
                return sort if is_fixed else {}
            case {"$match": _}:
                continue
        break
    return {}
