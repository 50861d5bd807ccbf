"""To-one joins by `$lookup`: one document together with its relations, in one command.

The database looks the relations up where it finds the parent. The result is used only if the
parent's key is a plain value: `$lookup` joins an array or a null differently than `$eq`, so those
relations are fetched separately. So are those of a collection with another collation than that of
the parent, by which the whole command compares texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from docgraph.exchange import Document
from docgraph.exchange.errors import DocgraphError
from docgraph.graphql.conditions import combine, is_comparable
from docgraph.graphql.definition.mapping import QueryMapping
from docgraph.graphql.errors import describe_failure
from docgraph.graphql.execute.batched_queries import Find
from docgraph.graphql.execute.execution import KeptFetch, Run
from docgraph.graphql.execute.per_parent import fetch_per_parent
from docgraph.graphql.execute.window import Window
from docgraph.graphql.plan.plan_tree import Fetch, Fold
from docgraph.store.guard.stage_checks import KeptStage
from docgraph.variables import matches_nothing


async def fetch_folding(fetch: Fetch, run: Run) -> list[Any]:
    """Return the document of a root field with its to-one relations, by one `$lookup` command."""
    prepared = run.prepared[id(fetch)]
    assert isinstance(fetch.mapping, QueryMapping)  # noqa: S101 - only finds have folds
    assert prepared.window is not None  # noqa: S101 - a root field has no parent
    try:
        filter_ = fetch.mapping.find.render(prepared.scope)
    except DocgraphError as error:
        return [describe_failure(error)]
    folds: list[tuple[Fold, KeptStage]] = []
    stats, mapping = run.store.stats, fetch.mapping
    for fold in fetch.folds:
        lookup, other = _find_lookup(fold, run), fold.fetch.mapping
        if lookup is None:
            continue
        collation = await stats.collation(mapping.db, mapping.collection)
        their_collation = await stats.collation(other.db, other.collection)
        if collation is not None and collation == their_collation:
            folds.append((fold, lookup))
    if matches_nothing(filter_) or not folds:
        return await fetch_per_parent(fetch, [None], None, run)
    query = Find(filter_, prepared.window)
    several = bool(query.narrow())
    window = query.widen().window if several else prepared.window
    stages = [{"$match": filter_}, *_find_tail(fetch, window, folds, run)]
    try:
        documents = await run.aggregate(fetch, stages, window.limit, is_recorded=True)
    except DocgraphError as error:
        # For instance a sharded collection, which MongoDB 5.0 cannot look up.
        describe_failure(error)  # raises errors that end the request
        return await fetch_per_parent(fetch, [None], None, run)
    if several and len(documents) > 1:
        return await fetch_per_parent(fetch, [None], None, run)
    run.count(len(documents))
    if run.dependencies is not None:
        _record_reads(fetch, filter_, folds, documents, run)
    for fold, _ in folds:
        run.folded.add(id(fold.fetch))
    return [documents]


def _find_tail(
    fetch: Fetch, window: Window, folds: Sequence[tuple[Fold, KeptStage]], run: Run
) -> list[KeptStage]:
    """Return the stages behind the filter: the constant part of the command (decision 69)."""
    kept: KeptFetch | None = fetch.kept.get(run.extra)
    lookups = tuple([lookup for _, lookup in folds])
    if kept is not None and kept.tail is not None:
        known_window, known_lookups, tail = kept.tail
        if known_window is window and known_lookups == lookups:
            return tail
    assert fetch.projection is not None  # noqa: S101 - a whole document carries nothing
    shown = {**fetch.projection, **{fold.name: 1 for fold, _ in folds}}
    tail = [*map(KeptStage, window.stages), *lookups, KeptStage({"$project": shown})]
    if kept is not None and kept.window is window:
        kept.tail = (window, lookups, tail)
    return tail


def _find_lookup(fold: Fold, run: Run) -> KeptStage | None:
    """Return the stage of a relation; None if the relation must be fetched separately."""
    prepared = run.prepared[id(fold.fetch)]
    kept: KeptFetch | None = fold.fetch.kept.get(run.extra)
    if kept is not None and kept.lookup is not None and kept.lookup[0] is prepared:
        return kept.lookup[1]
    fetch = fold.fetch
    if prepared.failure is not None or prepared.window is None or fetch.relation.rest is None:
        return None
    try:
        rest = fetch.relation.rest.render(prepared.scope)
    except DocgraphError:
        return None  # the relation's own fetch reports the error
    if Find(rest, prepared.window).narrow():
        return None  # one query decides which kind of value is preferred
    (join,) = fetch.relation.joins
    pipeline: list[Document] = [{"$match": rest}] if rest else []
    pipeline += [*prepared.window.stages, *prepared.window.project(fetch.projection)]
    stage = KeptStage(
        {
            "$lookup": {
                "from": fetch.mapping.collection,
                "localField": join.key,
                "foreignField": join.target,
                "pipeline": pipeline,
                "as": fold.name,
            }
        }
    )
    if kept is not None and (prepared is kept.prepared or prepared is kept.ordered):
        kept.lookup = (prepared, stage)
    return stage


def _record_reads(
    fetch: Fetch,
    filter_: Document,
    folds: Sequence[tuple[Fold, KeptStage]],
    documents: list[Document],
    run: Run,
) -> None:
    """Record the documents that are read, and those of relations by the keys of their parents."""
    run.record(fetch, filter_)
    for fold, lookup in folds:
        (join,) = fold.fetch.relation.joins
        stages = lookup["$lookup"]["pipeline"]
        rest: Document = next((stage["$match"] for stage in stages if "$match" in stage), {})
        for parent in documents:
            key = join.get(parent)
            if key is not None and unpack_lookup(fold.fetch, parent) is not None:
                run.record(fold.fetch, combine([rest, {join.target: {"$eq": key}}]), fetch)


def unpack_lookup(fetch: Fetch, parent: Document) -> list[Document] | None:
    """Return the documents looked up with the parent; None if the join may be wrong."""
    documents: list[Document] | None = parent.get(f"__fold_{fetch.key}")
    value = fetch.relation.joins[0].get(parent)
    if value is None:
        return []
    if documents is None or isinstance(value, list) or not is_comparable(value):
        return None
    return documents
