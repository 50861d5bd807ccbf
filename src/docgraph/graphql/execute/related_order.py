"""Orders by related documents: the stages that compute the values to sort by (decision 73).

A property of a to-one relation is looked up for each document. Counts of a whole list are grouped
in the related collection, and united with the documents that have none; what remains after the
limit is read again. The computed values are part of cursors like all others.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from docgraph.exchange import Document
from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.errors import FieldFailure, describe_failure
from docgraph.graphql.execute.execution import PreparedFetch, Run
from docgraph.graphql.execute.near_keys import build_lookup, is_countable, spread_counts
from docgraph.graphql.execute.relations import compares_alike, render_rest
from docgraph.graphql.execute.window import RelatedStages
from docgraph.graphql.plan.plan_tree import Fetch, PlanTree
from docgraph.graphql.related import COUNTED, RelatedOrder, RelationSpec
from docgraph.variables import matches_nothing

_KEY: Final = "_docgraph_k"
_AGAIN: Final = "_docgraph_r"
_NEAR: Final = -(1 << 53)  # what each near document adds to its count
_TEXTS: Final = ["string", "object", "array"]  # types whose values may have texts


async def prepare_related_orders(tree: PlanTree, run: Run) -> None:
    """Prepare the stages of orders by related documents; such an order has no ties."""
    for fetch, mapping in tree.listed_fetches:
        prepared = run.prepared[id(fetch)]
        if mapping.order is None or not prepared.order or prepared.failure is not None:
            continue
        orders = {n: o for n, o in mapping.order.related.items() if n in prepared.order}
        if not orders:
            continue
        try:
            related = await _build_stages(fetch, prepared, orders, run)
        except FieldFailure as failure:
            run.prepared[id(fetch)] = prepared._replace(failure=failure)
            continue
        except DocgraphError as error:
            run.prepared[id(fetch)] = prepared._replace(failure=describe_failure(error))
            continue
        order = {**prepared.order}
        order.setdefault("_id", next(reversed(order.values())))
        window = prepared.window and prepared.window._replace(sort=order, related=related)
        run.prepared[id(fetch)] = prepared._replace(order=order, window=window, related=related)


async def _build_stages(
    fetch: Fetch, prepared: PreparedFetch, orders: Mapping[str, RelatedOrder], run: Run
) -> RelatedStages:
    ((name, order), *others) = orders.items()
    for each in orders.values():
        await _check_collations(fetch, each.spec, run)
    if fetch.is_root and not others and order.spec.is_count and is_countable(order.spec):
        rest = render_rest(order.spec, prepared.scope, run)
        mapping = fetch.mapping
        # The documents of a view may share an `_id`: they cannot be read again.
        is_stored = await run.store.stats.indexes(mapping.db, mapping.collection) is not None
        if is_stored and not matches_nothing(rest):
            other_paths = [path for path in prepared.order or () if path != name]
            return _unite(fetch, name, order.spec, rest, other_paths)
    stages: list[Document] = []
    for number, (name, order) in enumerate(orders.items()):
        rest = render_rest(order.spec, prepared.scope, run)
        stages += _build_lookups(number, name, order, rest)
    return RelatedStages(ordering=tuple(stages))


async def _check_collations(fetch: Fetch, spec: RelationSpec, run: Run) -> None:
    """Reject an order for which texts would be compared by another collation than its field's."""
    near = (fetch.mapping.db, fetch.mapping.collection)
    if await compares_alike(near, spec.place, run):
        return
    texts = {"$or": [{join.key: {"$type": _TEXTS}} for join in spec.joins]}
    stages: list[Document] = [{"$match": texts}, {"$limit": 1}, {"$project": {"_id": 1}}]
    if await run.aggregate(fetch, stages, 1):
        raise FieldFailure(
            f"orderBy.{spec.name}: the collections compare texts by different collations, and the"
            " keys of some documents have texts; give both collections the same collation",
            "collation-differs",
        )


def _build_lookups(number: int, name: str, order: RelatedOrder, rest: Any) -> list[Document]:
    """Return the stages that look up the value to sort by for each document."""
    spec, default = order.spec, 0 if order.spec.is_count else "$$REMOVE"
    inner: list[Document] = [{"$match": rest}]
    if spec.is_count:
        inner.append({"$count": COUNTED})
    else:
        inner += [{"$limit": 1}, {"$project": {"_id": 0, COUNTED: f"${order.path}"}}]
    stages, present = build_lookup(number, spec, inner)
    *keys, result = present
    is_related = {"$and": [{"$ne": [f"${key}", []]} for key in keys]}
    first = {"$ifNull": [{"$first": f"${result}.{COUNTED}"}, default]}
    computed = {name: {"$cond": [is_related, first, default]}}
    return [*stages, {"$set": computed}, {"$unset": [*keys, result]}]


def _unite(
    fetch: Fetch, name: str, spec: RelationSpec, rest: Any, other_paths: list[str]
) -> RelatedStages:
    """Return the stages that count all related documents in one go, and those after the limit."""
    (join,) = spec.joins
    filtering = [{"$match": rest}] if rest else []
    ordering: list[Document]
    if join.key == "_id" and {*other_paths} <= {"_id"}:
        # One document for each key, and nothing of it: a sum below zero is that of a near document.
        counts = [*filtering, *spread_counts(spec, name)]
        ordering = [
            {"$project": {"_id": 1, name: {"$literal": _NEAR}}},
            {"$unionWith": {"coll": spec.place[1], "pipeline": counts}},
            {"$group": {"_id": "$_id", name: {"$sum": f"${name}"}}},
            {"$match": {name: {"$lt": 0}}},
            {"$set": {name: {"$subtract": [f"${name}", _NEAR]}}},
        ]
    else:
        shown = {
            **dict.fromkeys(other_paths, 1),
            "_id": 1,
            _KEY: {"$ifNull": [f"${join.key}", None]},
        }
        counts = [
            *filtering,
            *spread_counts(spec),
            {"$project": {"_id": 0, _KEY: "$_id", COUNTED: 1}},
        ]
        ordering = [
            {"$project": shown},
            {"$unionWith": {"coll": spec.place[1], "pipeline": counts}},
            *_group_documents(name),
        ]
    again: Document = {
        "from": fetch.mapping.collection,
        "localField": "_id",
        "foreignField": "_id",
        "as": _AGAIN,
    }
    whole = {"$mergeObjects": [{"$first": f"${_AGAIN}"}, {name: f"${name}"}]}
    return RelatedStages((), tuple(ordering), ({"$lookup": again}, {"$replaceWith": whole}))


def _group_documents(name: str) -> list[Document]:
    """Return the stages that give each near document the number of its key."""
    is_near = {"$eq": [{"$type": "$_id"}, "missing"]}
    return [
        {
            "$group": {
                "_id": f"${_KEY}",
                "near": {"$push": {"$cond": [is_near, "$$REMOVE", "$$ROOT"]}},
                COUNTED: {"$sum": f"${COUNTED}"},
            }
        },
        {"$unwind": "$near"},
        {"$replaceWith": {"$mergeObjects": ["$near", {name: f"${COUNTED}"}]}},
        {"$unset": _KEY},
    ]
