"""Joins with one query per parent; equal queries are deduplicated and sent once.

This is for everything that is not a plain join: `$fk` under `$gt`, `$or` or `$elemMatch`,
`rootDoc`, aggregations, and joins for a single parent or with too many documents.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any

from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.conditions import is_comparable, match_any
from docgraph.graphql.definition.mapping import AggregationMapping, GroupMapping, QueryMapping
from docgraph.graphql.errors import FieldFailure, describe_failure
from docgraph.graphql.execute.batched_queries import (
    AggregateQuery,
    BatchAnswer,
    BatchedQuery,
    Find,
    send_all,
    send_alone,
)
from docgraph.graphql.execute.execution import PreparedFetch, Run
from docgraph.graphql.execute.window import Window, order_window, read_window
from docgraph.graphql.plan.plan_tree import Fetch
from docgraph.variables import MATCH_NOTHING, Scope, matches_nothing

Adapt = Callable[[Find], BatchedQuery]

MAX_KEYS = 10_000  # foreign keys of one parent, and of one command


async def fetch_per_parent(
    fetch: Fetch,
    parents: Sequence[Any],
    roots: Sequence[Any] | None,
    run: Run,
    adapt: Adapt | None = None,
) -> list[Any]:
    """Return the answer for each parent: documents, or why there are none.

    `adapt` builds another query from each one, about the same documents.
    """
    prepared = run.prepared[id(fetch)]
    queries: list[BatchedQuery] = []
    if len(parents) == 1:  # for example of a root field
        root = None if roots is None else roots[0]
        slot = _add_query(fetch, prepared, parents[0], root, queries, run, adapt)
        return [await send_alone(fetch, queries[0], run) if queries else slot]
    loader = fetch.mapping.loader
    is_shared = loader.batching or loader.caching
    slot_of: dict[Hashable, int | BatchAnswer] = {}  # by what makes queries equal
    slots: list[int | BatchAnswer] = []
    for number, parent in enumerate(parents):
        root = None if roots is None else roots[number]
        key = fetch.relation.signature(parent, root) if is_shared else number
        if key not in slot_of:
            slot_of[key] = _add_query(fetch, prepared, parent, root, queries, run, adapt)
        slots.append(slot_of[key])
    answers = await send_all(fetch, queries, run) if queries else []
    return [answers[slot] if isinstance(slot, int) else slot for slot in slots]


def _add_query(  # noqa: PLR0913, PLR0917 - what a query is built from
    fetch: Fetch,
    prepared: PreparedFetch,
    parent: Any,
    root: Any,
    queries: list[BatchedQuery],
    run: Run,
    adapt: Adapt | None,
) -> int | BatchAnswer:
    """Return the number of the parent's query, or its answer if none is needed.

    A query that can find nothing is not sent (decisions 9 and 11).
    """
    scope, mapping = prepared.scope, fetch.mapping
    if not fetch.relation.is_independent:
        scope = replace(scope, parent=parent, root=root)
    query: BatchedQuery | None = None
    try:
        _check_keys(fetch, scope.parent)
        if isinstance(mapping, AggregationMapping):
            query = _build_pipeline(fetch, mapping, scope, run)
        else:
            filter_ = _render_filter(fetch, mapping, prepared, scope)
            if not matches_nothing(filter_):
                window = prepared.window or _read_window(fetch, mapping, scope, run)
                query = Find(filter_, window)
    except FieldFailure as failure:
        return failure
    except DocgraphError as error:
        return describe_failure(error)
    if query is None:
        return []
    queries.append(query if adapt is None or not isinstance(query, Find) else adapt(query))
    return len(queries) - 1


def _render_filter(
    fetch: Fetch, mapping: QueryMapping, prepared: PreparedFetch, scope: Scope
) -> Any:
    """Return the filter of one parent.

    Keys that `$in` would not compare (see `is_comparable`) are joined by `$eq`, as they are when
    many parents are fetched together.
    """
    relation = fetch.relation
    keys = [join.list_keys(scope.parent) for join in relation.joins]
    if relation.rest is None or all(is_comparable(key) for listed in keys for key in listed):
        return prepared.narrow(mapping.find.render(scope))
    rest = relation.rest.render(scope)
    if matches_nothing(rest) or not all(keys):
        return MATCH_NOTHING
    pairs = zip(relation.joins, keys, strict=True)
    return prepared.narrow(rest, *(match_any(join.target, values) for join, values in pairs))


def _read_window(
    fetch: Fetch, mapping: QueryMapping | GroupMapping, scope: Scope, run: Run
) -> Window:
    prepared = run.prepared[id(fetch)]
    window = read_window(
        mapping, scope, run.bounds, is_list=fetch.is_list, order=prepared.order, extra=run.extra
    )
    window = order_window(window, fetch, scope, prepared.indexes, prepared.where.filter)
    return window._replace(related=prepared.related)


def _build_pipeline(
    fetch: Fetch, mapping: AggregationMapping, scope: Scope, run: Run
) -> AggregateQuery | None:
    stages = mapping.stages.render(scope)
    if not stages or matches_nothing(stages):
        return None
    if not fetch.is_list:
        return AggregateQuery(stages, 1, 1)
    if isinstance(mapping, GroupMapping):
        window = run.prepared[id(fetch)].window or _read_window(fetch, mapping, scope, run)
        stages = [*stages, *window.stages]
        may_be_cut = mapping.limit is not None
        return AggregateQuery(stages, window.size, window.limit, may_be_cut=may_be_cut)
    return AggregateQuery(stages, run.bounds.max_limit + 1, run.bounds.max_limit)


def _check_keys(fetch: Fetch, parent: Any) -> None:
    for get in fetch.relation.getters:
        value = get(parent)
        if type(value) is list and len(value) > MAX_KEYS:
            raise FieldFailure(
                f"{fetch.position.coordinates} has more than {MAX_KEYS} foreign keys",
                "too-many-keys",
            )
