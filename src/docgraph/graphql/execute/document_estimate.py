"""Query cost estimate: how many documents a query could need, before it reads any (decision 26).

The first estimate is by the limits alone, which costs nothing: the product of all limits down the
tree. Only if that is too much, docgraph reads the sizes of the collections, every few seconds: no
list is longer than its collection, and a query by a unique key has one result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from docgraph.codec.bson_types import Regex
from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.definition.mapping import AggregationMapping, QueryMapping
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.execute.execution import Run
from docgraph.graphql.plan.plan_tree import Block, Entities, Fetch, Introspection, PlanTree
from docgraph.graphql.related import RelatedCondition, RelationSpec, find_conditions
from docgraph.runtime.tasks import concurrently
from docgraph.store.order import pinned_paths
from docgraph.variables import (
    GRAPHQL,
    Scope,
    Template,
    compile_template,
    flatten_stages,
    matches_nothing,
)

_KEPT_ESTIMATES: Final = 64
# Stages that may produce more results than their input; the others never do.
_GROWING: Final = frozenset({"$unwind", "$documents", "$densify", "$unionWith"})
_EQUAL: Final = frozenset({"$eq"})
_EQUALITIES: Final = frozenset({"$fk", "$arg", "$eq"})


async def check_estimate(tree: PlanTree, run: Run) -> None:
    """Reject a query that could need too many documents, before any command is sent."""
    most = {id(fetch): most_documents(fetch, run) for fetch in tree.fetches}
    kept = tree.estimates.get(tuple(most.values()))
    related = list_related(tree, run) if tree.listed_fetches else ()
    by_limits = _estimate(tree, most) if kept is None else kept
    by_limits += len(related) * run.limits.fetched_documents
    if by_limits <= run.limits.estimated_documents:
        return
    stored = await _estimate_stored(tree, most, run)
    if stored + await _count_keys(related, run) > run.limits.estimated_documents:
        raise OperationRefused.because(
            "the query could need more documents than estimated-documents allows:"
            " ask for less by smaller limits, or for fewer levels of lists",
            "too-many-estimated-documents",
        )


async def estimate_documents(tree: PlanTree, run: Run) -> tuple[int, int]:
    """Return how many documents could be needed: by the limits alone, and by what is stored."""
    most = {id(fetch): most_documents(fetch, run) for fetch in tree.fetches}
    related = list_related(tree, run)
    stored = await _estimate_stored(tree, most, run) + await _count_keys(related, run)
    return _estimate(tree, most) + len(related) * run.limits.fetched_documents, stored


def list_related(tree: PlanTree, run: Run) -> list[tuple[Fetch, RelatedCondition]]:
    """Return the conditions on related documents of all lists, also those inside of others."""
    conditions: list[tuple[Fetch, RelatedCondition]] = []
    for fetch, _ in tree.listed_fetches:
        where = run.prepared[id(fetch)].where
        pending = list(find_conditions(where.filter)) if where.has_relations else []
        while pending:
            condition = pending.pop()
            conditions.append((fetch, condition))
            pending += find_conditions(condition.filter)
    return conditions


async def count_stored(spec: RelationSpec, run: Run) -> int | None:
    """Return how many documents the related collection has; None: the caller must not know."""
    if spec.namespace in (run.rows or {}):
        return None
    return await run.store.stats.count(*spec.place)


async def _count_keys(related: Sequence[tuple[Fetch, RelatedCondition]], run: Run) -> int:
    """Return how many keys conditions on related documents may need; hidden rows do not count."""
    total, most = 0, run.limits.fetched_documents
    for _, condition in related:
        count = await count_stored(condition.spec, run)
        total += most if count is None else min(most, count)
    return total


async def _estimate_stored(tree: PlanTree, most: Mapping[int, int], run: Run) -> int:
    lists = [fetch for fetch in tree.fetches if most[id(fetch)] > 1]
    counts = await concurrently([_count_results(fetch, most[id(fetch)], run) for fetch in lists])
    stored = {id(fetch): count for fetch, count in zip(lists, counts, strict=True)}
    return _estimate(tree, {**most, **stored})


def _estimate(tree: PlanTree, most: Mapping[int, int]) -> int:
    # The numbers are the same for almost all requests of an operation.
    key = tuple(most.values())
    estimated = tree.estimates.get(key)
    if estimated is None:
        if len(tree.estimates) >= _KEPT_ESTIMATES:
            tree.estimates.clear()
        estimated = tree.estimates[key] = _estimate_block(tree.block, most, {})
    return estimated


def _estimate_block(block: Block, most: Mapping[int, int], estimates: dict[int, int]) -> int:
    """Return the estimate of a block; `estimates` are those of selections, by their ids."""
    total = 0
    for column in block.columns:
        if isinstance(column, Introspection):
            continue
        below, selection = 0, column.selection
        if selection is not None:
            if id(selection) not in estimates:
                blocks = selection.blocks.values()
                estimates[id(selection)] = max(
                    (_estimate_block(each, most, estimates) for each in blocks), default=0
                )
            below = estimates[id(selection)]
        if isinstance(column, Entities):
            total += sum(most[id(fetch)] for fetch in column.fetches) * (1 + below)
            continue
        total += most[id(column)] * (1 + below) if isinstance(column, Fetch) else below
    return total


def most_documents(fetch: Fetch, run: Run) -> int:
    """Return the maximum number of documents of one parent, by the limit of the field."""
    prepared = run.prepared[id(fetch)]
    if prepared.failure is not None:
        return 0
    if fetch.is_entity:
        return run.parents.get(id(fetch), 0)
    if not fetch.is_list:
        return 1
    if prepared.window is not None:
        page = prepared.window.page
        return prepared.window.limit if page is None else page.size
    limit = run.bounds.max_limit
    if isinstance(fetch.mapping, AggregationMapping):
        return _most_results(fetch.mapping.stages.source, limit, limit)
    return limit


def _most_results(stages: Any, count: int, limit: int) -> int:
    """Return the maximum of a pipeline over `count` documents: `limit`, or less by its stages."""
    most = count
    for stage in stages if isinstance(stages, list) else ():
        match stage:
            case {"$limit": int(bound)} | {"$sample": {"size": int(bound)}}:
                most = min(bound, most)
            case {"$count": _} | {"$facet": _} | {"$group": {"_id": None}}:
                most = min(1, most)
            # The names of the stage, or of those that an optional one may become.
            case _ if any(
                not _GROWING.isdisjoint(each) for each in flatten_stages([stage], GRAPHQL.optional)
            ):
                most = limit
    return min(most, limit)


async def _count_results(fetch: Fetch, most: int, run: Run) -> int:
    """Return the smaller of the limit and the number of documents in the collection."""
    mapping, stats, prepared = fetch.mapping, run.store.stats, run.prepared[id(fetch)]
    if fetch.is_entity:
        return most  # one for each representation
    # A filter that pins all keys of a unique index finds one document.
    find = first_filter(mapping)
    pinned = frozenset() if find is None else frozenset(_pinned_paths(find, prepared.scope))
    pinned = pinned.union(pinned_paths(prepared.where.filter, _EQUAL))
    is_single = "_id" in pinned
    if pinned and not is_single:
        indexes = await stats.indexes(mapping.db, mapping.collection)
        is_single = any(
            index.unique and index.complete and all(path in pinned for path, _ in index.keys)
            for index in indexes or ()
        )
    count = 1 if is_single else await stats.count(mapping.db, mapping.collection)
    if count is None:
        return most
    if isinstance(mapping, AggregationMapping):
        return _most_results(mapping.stages.source, count, most)
    return min(count, most)


def first_filter(mapping: QueryMapping | AggregationMapping) -> Template | None:
    """Return the filter of the documents that are read first; None: all are aggregated."""
    if isinstance(mapping, QueryMapping):
        return mapping.find
    match mapping.stages.source:
        case [{"$match": dict(source)}, *_]:
            return compile_template(source, context="filter")
    return None


def _pinned_paths(find: Template, scope: Scope) -> Iterator[str]:
    """Yield the fields that must equal one value."""
    for conjunct in find.decide(scope).conjuncts:
        source = conjunct.source
        if isinstance(source, dict) and len(source) == 1:
            ((path, condition),) = source.items()
            if path[:1] != "$" and _is_equality(path, condition, conjunct, scope):
                yield path


def _is_equality(path: str, condition: Any, conjunct: Template, scope: Scope) -> bool:
    if conjunct.depends_on_parent:  # a stored value is compared, never run
        return isinstance(condition, Mapping) and condition.keys() <= _EQUALITIES
    try:
        rendered = conjunct.render(scope)
    except DocgraphError:
        return False
    if matches_nothing(rendered):
        return True
    value = rendered.get(path)
    if isinstance(value, Mapping):
        return "$eq" in value or not any(key[:1] == "$" for key in value)
    return not isinstance(value, Regex)
