"""One document together with its to-one relations, in one command.

The database looks the relations up (`$lookup`) where it finds the parent. What comes along is
taken only where the parent's key turns out to be a plain value: an array or a null would be joined
in another way than `$eq` does, so those relations are fetched the ordinary way after all.
"""

from __future__ import annotations

from typing import Any

from docgraph.exchange import Document
from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.definition.mapping import QueryMapping
from docgraph.graphql.errors import describe_failure
from docgraph.graphql.execute.join import is_comparable
from docgraph.graphql.execute.per_parent import fetch_per_parent
from docgraph.graphql.execute.run import Run
from docgraph.graphql.plan.tree import Fetch, Fold
from docgraph.variables import matches_nothing

__all__ = ["fetch_folding", "take_folded"]


async def fetch_folding(fetch: Fetch, run: Run) -> list[Any]:
    """The answer for the one parent of a root field, with relations inside the document."""
    prepared = run.prepared[id(fetch)]
    assert isinstance(fetch.mapping, QueryMapping)  # noqa: S101 - only finds have folds
    assert prepared.window is not None  # noqa: S101 - a root field has no parent
    try:
        filter_ = fetch.mapping.find.render(prepared.scope)
    except DocgraphError as error:
        return [describe_failure(error)]
    folds = [(fold, lookup) for fold in fetch.folds if (lookup := _build_lookup(fold, run))]
    if matches_nothing(filter_) or not folds:
        return await fetch_per_parent(fetch, [None], None, run)
    assert fetch.projection is not None  # noqa: S101 - a whole document carries nothing
    shown = {**fetch.projection, **{fold.name: 1 for fold, _ in folds}}
    pipeline = [{"$match": filter_}, *prepared.window.stages]
    pipeline += [{"$lookup": lookup} for _, lookup in folds]
    try:
        documents = await run.aggregate(fetch, [*pipeline, {"$project": shown}], 1)
    except DocgraphError as error:
        # For instance a sharded collection, which MongoDB 5.0 cannot look up.
        describe_failure(error)  # raises what ends the request
        return await fetch_per_parent(fetch, [None], None, run)
    run.count(len(documents))
    run.folded.update(id(fold.fetch) for fold, _ in folds)
    return [documents]


def _build_lookup(fold: Fold, run: Run) -> Document | None:
    """The body of the `$lookup`; None when the relation has to go its own way."""
    fetch = fold.fetch
    prepared = run.prepared[id(fetch)]
    if prepared.failure is not None or prepared.window is None or fetch.relation.rest is None:
        return None
    try:
        rest = fetch.relation.rest.render(prepared.scope)
    except DocgraphError:
        return None  # the relation's own fetch will say what is wrong
    (join,) = fetch.relation.joins
    pipeline: list[Document] = [{"$match": rest}] if rest else []
    pipeline += prepared.window.stages
    if fetch.projection is not None:
        pipeline.append({"$project": fetch.projection})
    return {
        "from": fetch.mapping.collection,
        "localField": join.key,
        "foreignField": join.target,
        "pipeline": pipeline,
        "as": fold.name,
    }


def take_folded(fetch: Fetch, parent: Document) -> list[Document] | None:
    """What came along with the parent; None when it cannot be trusted to be the right join."""
    found: list[Document] | None = parent.get(f"__fold_{fetch.key}")
    value = fetch.relation.joins[0].get(parent)
    if value is None:
        return []
    if found is None or isinstance(value, list) or not is_comparable(value):
        return None
    return found
