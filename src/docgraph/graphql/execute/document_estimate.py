"""Query cost estimate: how many documents a query could need, before it reads any (decision 26).

The first estimate is by the limits alone, which costs nothing: the product of all limits down the
tree. Only if that is too much, docgraph reads the sizes of the collections, every few seconds: no
list is longer than its collection, and a query by a unique key has one result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from docgraph.codec.bson_types import Regex
from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.definition.mapping import AggregationMapping, QueryMapping
from docgraph.graphql.errors import OperationRefused
from docgraph.graphql.execute.execution import PreparedFetch, Run
from docgraph.graphql.plan.plan_tree import Block, Embedded, Fetch, PlanTree, Selection
from docgraph.runtime.tasks import concurrently
from docgraph.store.collection_stats import Index
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
    known = tree.estimates.get(tuple(most.values()))
    if (_estimate(tree, most) if known is None else known) <= run.limits.estimated_documents:
        return
    if await _estimate_stored(tree, most, run) > run.limits.estimated_documents:
        raise OperationRefused.because(
            "the query could need more documents than estimated-documents allows:"
            " ask for less by smaller limits, or for fewer levels of lists",
            "too-many-estimated-documents",
        )


async def estimate_documents(tree: PlanTree, run: Run) -> tuple[int, int]:
    """Return how many documents could be needed: by the limits alone, and by what is stored."""
    most = {id(fetch): most_documents(fetch, run) for fetch in tree.fetches}
    return _estimate(tree, most), await _estimate_stored(tree, most, run)


async def _estimate_stored(tree: PlanTree, most: Mapping[int, int], run: Run) -> int:
    lists = [fetch for fetch in tree.fetches if most[id(fetch)] > 1]
    found = await concurrently([_count_results(fetch, most[id(fetch)], run) for fetch in lists])
    known = {id(fetch): count for fetch, count in zip(lists, found, strict=True)}
    return _estimate(tree, {**most, **known})


def _estimate(tree: PlanTree, most: Mapping[int, int]) -> int:
    # The numbers are the same for almost all requests of an operation.
    key = tuple(most.values())
    estimated = tree.estimates.get(key)
    if estimated is None:
        if len(tree.estimates) >= _KEPT_ESTIMATES:
            tree.estimates.clear()
        estimated = tree.estimates[key] = _estimate_block(tree.block, most, {})
    return estimated


def _estimate_block(block: Block, most: Mapping[int, int], known: dict[int, int]) -> int:
    total = 0
    for column in block.columns:
        if isinstance(column, Fetch):
            below = _estimate_selection(column.selection, most, known)
            total += most[id(column)] * (1 + below)
        elif isinstance(column, Embedded):
            total += _estimate_selection(column.selection, most, known)
    return total


def _estimate_selection(
    selection: Selection | None, most: Mapping[int, int], known: dict[int, int]
) -> int:
    if selection is None:
        return 0
    estimate = known.get(id(selection))
    if estimate is None:
        blocks = selection.blocks.values()
        estimate = max((_estimate_block(block, most, known) for block in blocks), default=0)
        known[id(selection)] = estimate
    return estimate


def most_documents(fetch: Fetch, run: Run) -> int:
    """Return the maximum number of documents of one parent, by the limit of the field."""
    prepared = run.prepared[id(fetch)]
    if prepared.failure is not None:
        return 0
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
            case {"$limit": int(own)} | {"$sample": {"size": int(own)}}:
                most = min(own, most)
            case {"$count": _} | {"$facet": _} | {"$group": {"_id": None}}:
                most = min(1, most)
            case _ if any(name in _GROWING for name in _names(stage)):
                most = limit
    return min(most, limit)


def _names(stage: Any) -> Iterator[str]:
    """Yield the names of a stage, or of those that an optional one may become."""
    return (name for one in flatten_stages([stage], GRAPHQL.optional) for name in one)


async def _count_results(fetch: Fetch, most: int, run: Run) -> int:
    """Return the smaller of the limit and the number of documents in the collection."""
    mapping = fetch.mapping
    prepared = run.prepared[id(fetch)]
    if await _finds_one(mapping, prepared, run):
        count: int | None = 1
    else:
        count = await run.store.stats.count(mapping.db, mapping.collection)
    if count is None:
        return most
    if isinstance(mapping, AggregationMapping):
        return _most_results(mapping.stages.source, count, most)
    return min(count, most)


async def _finds_one(
    mapping: QueryMapping | AggregationMapping, prepared: PreparedFetch, run: Run
) -> bool:
    """Return whether the filter pins all keys of a unique index."""
    find = first_filter(mapping)
    pinned = frozenset() if find is None else frozenset(_pinned_paths(find, prepared.scope))
    pinned = pinned.union(pinned_paths(prepared.where.filter, _EQUAL))
    if not pinned or "_id" in pinned:
        return bool(pinned)
    indexes = await run.store.stats.indexes(mapping.db, mapping.collection)
    return any(_is_pinned(index, pinned) for index in indexes or ())


def first_filter(mapping: QueryMapping | AggregationMapping) -> Template | None:
    """Return the filter of the documents that are read first; None: all are aggregated."""
    if isinstance(mapping, QueryMapping):
        return mapping.find
    match mapping.stages.source:
        case [{"$match": dict(source)}, *_]:
            return compile_template(source, context="filter")
    return None


def _is_pinned(index: Index, pinned: frozenset[str]) -> bool:
    return index.unique and index.complete and all(path in pinned for path, _ in index.keys)


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
